import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { launchChromium } from '../chromium.ts';
import { fileOf, KINDS, MACHINE_FILE, shoot } from './pictures.ts';
import { serveKit } from './serve-kit.ts';

// `npm run console:kit`: shows the page of all parts of the console until it is interrupted. With `--take` it takes the pictures
// instead with which the tests compare the page: after a change of the look that is meant.

const take = process.argv.includes('--take');
const kit = await serveKit(take ? 0 : 9091);
if (take) {
  const browser = await launchChromium();
  for (const kind of KINDS) {
    const { picture, machine } = await shoot(browser, kit.origin, kind);
    await mkdir(dirname(MACHINE_FILE), { recursive: true });
    await writeFile(fileOf(kind), picture);
    await writeFile(MACHINE_FILE, `${JSON.stringify(machine, null, 2)}\n`);
  }
  await browser.close();
  kit.close();
} else {
  process.stdout.write(`${kit.origin}/console/kit\n`);
}
