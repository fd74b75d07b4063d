import { readFile } from 'node:fs/promises';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { countText, plural } from '../../../src/admin/console/page/kit/format.tsx';
import { Badge } from '../../../src/admin/console/page/kit/page.tsx';
import { Good } from '../../../src/admin/console/page/kit/seen.tsx';
import { ifKnown, oldFrom, type Reading, UNKNOWN } from '../../../src/admin/console/page/reading.ts';
import { fileOf, KINDS, MACHINE_FILE, shoot } from '../../../tools/console/kit/pictures.ts';
import { serveKit } from '../../../tools/console/kit/serve-kit.ts';
import { launchBrowser } from './console-visit.ts';

// How the parts of the console look, compared with pictures that a person has looked at. After a change of the look that is meant:
// `npm run console:kit -- --take`, and look at the pictures.

/** How many pixels may differ: another build of the browser smooths letters differently. */
const MAX_SHARE = 0.00002;

let browser: Browser;
let kit: Awaited<ReturnType<typeof serveKit>>;
beforeAll(async () => {
  browser = await launchBrowser();
  kit = await serveKit();
});
afterAll(async () => {
  await browser?.close();
  kit?.close();
});

test.each(KINDS)('the parts of the console look as in their picture: $scheme, $width px', async (kind) => {
  const { picture, overflow, machine } = await shoot(browser, kit.origin, kind);
  expect(overflow).toBeLessThanOrEqual(0);
  // Another browser or another monospaced font draws other pictures, which say nothing about a change of the page.
  const taken = JSON.parse(await readFile(MACHINE_FILE, 'utf8')) as typeof machine;
  if (machine.browser !== taken.browser || machine.mono !== taken.mono) return;
  const share = await differingShare(picture, await readFile(fileOf(kind)));
  expect(share).toBeLessThanOrEqual(MAX_SHARE);
});

/** The share of the pixels of two pictures that differ visibly; 1 if their sizes differ. */
async function differingShare(...pictures: [Buffer, Buffer]): Promise<number> {
  const page = await browser.newPage();
  const urls = pictures.map((bytes) => `data:image/png;base64,${bytes.toString('base64')}`);
  const share = await page.evaluate(async ([one, other]) => {
    const pixelsOf = async (url: string) => {
      const image = await createImageBitmap(await (await fetch(url)).blob());
      const drawing = new OffscreenCanvas(image.width, image.height).getContext('2d')!;
      drawing.drawImage(image, 0, 0);
      return drawing.getImageData(0, 0, image.width, image.height);
    };
    const [a, b] = [await pixelsOf(one!), await pixelsOf(other!)];
    if (a.width !== b.width || a.height !== b.height) return 1;
    let differing = 0;
    for (let at = 0; at < a.data.length; at += 4) {
      const differs = [0, 1, 2].some((channel) => Math.abs(a.data[at + channel]! - b.data[at + channel]!) > 24);
      if (differs) differing++;
    }
    return differing / (a.width * a.height);
  }, urls);
  await page.close();
  return share;
}

test('a value that is not known is no text, no count and no green', () => {
  const reading: Reading<number> = UNKNOWN as Reading<number>;
  // None of these lines compiles, and each is marked as that: `npm run types` says so if one does.
  const wrong = [
    // @ts-expect-error a count
    () => countText(reading),
    // @ts-expect-error a sentence
    () => plural(reading, 'key'),
    // @ts-expect-error a value without asking whether it is known
    () => reading.value,
    // @ts-expect-error a green state
    () => Good({ of: reading, children: 'Active' }),
    // @ts-expect-error a green state of no value
    () => Badge({ kind: 'good', children: 'Active' }),
  ];
  expect(wrong).toHaveLength(5);
  expect(ifKnown(reading)).toBeNull();
  const known = { state: 'known', value: 3, at: 1_000, everyMs: 2_000 } as const;
  expect(oldFrom(known)).toBe(7_000);
});
