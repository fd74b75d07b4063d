import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from '../../../tools/console/chromium.ts';
import { ROOT } from '../../support/processes.ts';

// Pages of the site of the documents, as a reader sees them. `npm run docs:check`, which comes before in .ci/run, builds the site.

const SITE = join(ROOT, 'docs', '.vitepress', 'dist');
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};
const PAGES = [
  ['/', 'Tollgate'],
  ['/docs/concepts', 'Concepts'],
  ['/docs/reference/plans-yaml', 'plans.yaml'],
] as const;

let server: Server;
let origin: string;
let browser: Browser;

beforeAll(async () => {
  if (!existsSync(join(SITE, 'index.html'))) {
    const built = spawnSync('npm', ['run', '-s', 'docs:check'], { cwd: ROOT, encoding: 'utf8' });
    expect(built.status, built.stderr).toBe(0);
  }
  server = createServer(async ({ url = '/' }, response) => {
    const { pathname } = new URL(url, 'http://localhost');
    const file = pathname === '/' ? '/index.html' : extname(pathname) in TYPES ? pathname : `${pathname}.html`;
    const body = await readFile(join(SITE, file)).catch(() => null);
    response.writeHead(body === null ? 404 : 200, { 'Content-Type': TYPES[extname(file)] ?? 'text/plain' });
    response.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  browser = await launchChromium();
});

afterAll(async () => {
  await browser?.close();
  server?.close();
});

describe.each(PAGES)('the page %s', (path, heading) => {
  test.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
  ] as const)('in %s, %i px wide, has its heading, its pictures, and no fault', async (colorScheme, width) => {
    const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
    page.on(
      'response',
      (response) => response.status() >= 400 && faults.push(`${response.status()} ${response.url()}`),
    );
    await page.goto(`${origin}${path}`);
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    for (const picture of await page.locator('main img').all()) {
      await picture.scrollIntoViewIfNeeded();
      await picture.evaluate((image: HTMLImageElement) => image.decode());
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (width > 1000) {
      const groups = await page.locator('.VPSidebar h2').allInnerTexts();
      expect(groups.slice(0, 3)).toEqual(['Start', 'Callers', 'Traffic']);
    }
    expect([faults, Math.max(0, overflow)]).toEqual([[], 0]);
    await page.close();
  });
});
