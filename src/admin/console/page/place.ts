import { useEffect, useState } from 'preact/hooks';
import { signal } from './signal.ts';

// The address of the page is its state: a screen that is reloaded or sent to a colleague shows the same.

const BASE = '/console';
const moved = signal();

/** Where the page is, below `/console`: `/keys/key_1` and its query. */
export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

export function present(): Place {
  const { pathname, search } = window.location;
  return { path: pathname.slice(BASE.length).replace(/\/$/, '') || '/', query: new URLSearchParams(search) };
}

/** @param how `replace` for a change of filters, which does not add a step to the history */
export function navigate(path: string, how: 'push' | 'replace' = 'push'): void {
  window.history[how === 'push' ? 'pushState' : 'replaceState'](null, '', `${BASE}${path}`);
  moved.send();
}

/** Changes members of the query of this screen, without a step in the history. An empty text removes one. */
export function changeQuery(changes: Readonly<Record<string, string>>): void {
  const { path, query } = present();
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') query.delete(name);
    else query.set(name, value);
  }
  navigate(`${path}${query.size === 0 ? '' : `?${query}`}`, 'replace');
}

export function hrefOf(path: string): string {
  return `${BASE}${path}`;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(present);
  useEffect(() => {
    const update = () => setPlace(present());
    const stop = moved.listen(update);
    window.addEventListener('popstate', update);
    return () => {
      stop();
      window.removeEventListener('popstate', update);
    };
  }, []);
  return place;
}

/** Links within the console change the screen without loading the page again, unless a modifier asks for a new tab. */
export function followLinks(root: HTMLElement): void {
  root.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (link === null || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target !== '' || link.download) return;
    const url = new URL(link.href);
    if (url.origin !== window.location.origin || !`${url.pathname}/`.startsWith(`${BASE}/`)) return;
    // `#main` of the skip link stays on this screen.
    if (url.hash !== '') return;
    event.preventDefault();
    navigate(url.pathname.slice(BASE.length) + url.search);
  });
}

/** A part of a path without its percent-encoding; the part itself if its encoding is invalid. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
