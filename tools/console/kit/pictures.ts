import { join } from 'node:path';
import type { Browser } from 'playwright-core';

/** Where the pictures are that the page of all parts is compared with. */
const FOLDER = join(import.meta.dirname, 'pictures');

export interface Kind {
  readonly scheme: 'light' | 'dark';
  readonly width: number;
}

/** Both schemes and every width, but not each of one in each of the other: git keeps all versions of a picture. */
export const KINDS: readonly Kind[] = [
  { scheme: 'light', width: 390 },
  { scheme: 'dark', width: 800 },
  { scheme: 'light', width: 1280 },
  { scheme: 'dark', width: 1280 },
];

export function fileOf({ scheme, width }: Kind): string {
  return join(FOLDER, `${scheme}-${width}.png`);
}

/**
 * What the look of the page depends on besides its own files, which bring one font: the browser, and the width of a text in its
 * monospaced font, which the machine gives.
 */
export const MACHINE_FILE = join(FOLDER, 'machine.json');

/** Takes a picture of the whole page of all parts. */
export async function shoot(browser: Browser, origin: string, { scheme, width }: Kind) {
  const viewport = { width, height: 900 };
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport,
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  await page.goto(`${origin}/console/kit`);
  await page.getByRole('heading', { name: 'Icons' }).waitFor();
  await page.evaluate('document.fonts.ready');
  const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth');
  const mono = await page.evaluate<number>("document.querySelector('.copy-id code').getBoundingClientRect().width");
  // The caret and the animation of the skeleton would differ from one picture to the next.
  const picture = await page.screenshot({ fullPage: true, animations: 'disabled', caret: 'hide' });
  await context.close();
  return {
    picture,
    overflow,
    machine: { browser: browser.version().split('.')[0]!, mono: Math.round(mono * 10) / 10 },
  };
}
