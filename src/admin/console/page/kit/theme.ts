import { useState } from 'preact/hooks';

// Light or dark, as the reader has chosen on this device or as the system says.

type Theme = 'system' | 'light' | 'dark';

/** The themes with their names, in the order of the menu. */
export const THEMES: readonly (readonly [Theme, string])[] = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];
const KEY = 'tollgate.theme';

function stored(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find(([theme]) => theme === kept)?.[0] ?? 'system';
  } catch {
    // The browser keeps nothing for this page.
    return 'system';
  }
}

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Applies the theme that was chosen before. */
export function startTheme(): void {
  apply(stored());
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(stored);
  const choose = (chosen: Theme) => {
    apply(chosen);
    setTheme(chosen);
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // It holds until the page is loaded again.
    }
  };
  return [theme, choose];
}
