import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { launchChromium } from './chromium.ts';
import { type Stand, startStand } from './stand.ts';

// `npm run console:screenshots`: takes a picture of every screen of the console, light and dark, on a desktop and on a
// phone. Those that the documents show replace the ones in docs/guides/console, the others go to dist/console, which git ignores.
// Needs Chromium (Debian: `apt-get install chromium`; CHROMIUM names another one).

const ROOT = join(import.meta.dirname, '..', '..');
/** The pictures that README.md and the guides show: git keeps all versions of a picture. */
const SHOWN = join(ROOT, 'docs', 'guides', 'console');
const OTHERS = join(ROOT, 'dist', 'console');
const SIZES = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } } as const;

interface Screen {
  readonly name: string;
  readonly path: string;
  /** Resolves when the screen shows what the picture is for. */
  readonly isReady: (page: Page) => Promise<unknown>;
}

function screensOf({ keys, customer, refusedRequestId }: Stand): readonly Screen[] {
  const heading = (name: string | RegExp) => (page: Page) => page.getByRole('heading', { name }).first().waitFor();
  return [
    { name: 'now', path: '/', isReady: (page) => page.getByRole('link', { name: "Jo's pet shop" }).first().waitFor() },
    {
      name: 'key',
      path: `/keys/${keys.banned.id}`,
      isReady: (page) => page.getByRole('table', { name: /refusals/i }).waitFor(),
    },
    { name: 'keys', path: '/keys', isReady: (page) => page.getByRole('link', { name: 'Paws & Claws' }).waitFor() },
    {
      name: 'customers',
      path: '/customers',
      isReady: (page) => page.getByRole('link', { name: customer.name }).waitFor(),
    },
    {
      name: 'customer',
      path: `/customers/${customer.id}`,
      isReady: (page) => page.getByRole('meter').first().waitFor(),
    },
    { name: 'plans', path: '/plans', isReady: (page) => page.getByText('each key’s own').first().waitFor() },
    {
      name: 'plans-edit',
      path: '/plans/edit',
      isReady: (page) => page.getByText('No faults').waitFor(),
    },
    { name: 'explain', path: `/explain/${refusedRequestId()}`, isReady: heading(/Earliest moment/) },
    {
      name: 'traffic',
      path: '/traffic?range=24h',
      isReady: (page) => page.getByRole('table', { name: 'Requests by route' }).waitFor(),
    },
    { name: 'live', path: '/live', isReady: (page) => page.getByRole('row').nth(12).waitFor() },
    { name: 'upstreams', path: '/upstreams', isReady: heading('store') },
    {
      name: 'retiring',
      path: '/retiring',
      isReady: (page) => page.getByRole('link', { name: 'Old mobile app' }).waitFor(),
    },
    { name: 'audit', path: '/audit', isReady: (page) => page.getByRole('row').nth(3).waitFor() },
  ];
}

async function take(browser: Browser, stand: Stand): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const [size, viewport] of Object.entries(SIZES)) {
      const context = await browser.newContext({ colorScheme, viewport, baseURL: stand.gateways[0].admin });
      const page = await context.newPage();
      await page.goto('/console/');
      await page.getByLabel('Admin token').fill(stand.tokens.admin);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: 'Now' }).waitFor();
      for (const { name, path, isReady } of screensOf(stand)) {
        await page.goto(`/console${path}`);
        await isReady(page);
        const file = `${name}-${size}-${colorScheme}.png`;
        await page.screenshot({ path: join(existsSync(join(SHOWN, file)) ? SHOWN : OTHERS, file) });
      }
      await context.close();
    }
  }
}

const stand = await startStand();
const callers = stand.drive();
const browser = await launchChromium();
try {
  await mkdir(OTHERS, { recursive: true });
  // The chart of the screen Now has two minutes to fill.
  await new Promise((resolve) => setTimeout(resolve, Number(process.env.FILL_SECONDS ?? 120) * 1_000));
  await take(browser, stand);
} finally {
  await browser.close();
  await callers.stop();
  await stand.close();
}
