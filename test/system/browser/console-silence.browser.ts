import { connect, createServer, type Socket } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stand, startStand } from '../../../tools/console/stand.ts';
import { ROOM } from '../../support/room.ts';
import { launchBrowser, screensOf, untilDriven, visit } from './console-visit.ts';

// What says nothing any more: a gateway that hangs, a connection that is dropped without a word, a store that is paused.

const LIVE = ['now', 'live', 'upstreams', 'key', 'customer'];
/** Within which every screen must have noticed. */
const NOTICED_MS = 10_000 * ROOM;
const SILENT = 'The gateway does not answer';

let browser: Browser;
let stand: Stand;
let callers: { stop(): Promise<void> };
beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand()]);
  callers = stand.drive();
  await untilDriven(stand);
});
afterAll(async () => {
  await callers?.stop();
  await browser?.close();
  await stand?.close();
});

/** Every screen with live data, each in a window of its own: a hidden page does not look. */
async function openLive(): Promise<ReadonlyMap<string, Page>> {
  const pages = new Map<string, Page>();
  for (const { name, path, shown } of screensOf(stand).filter(({ name }) => LIVE.includes(name))) {
    const { page } = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
    await page.goto(`/console${path}`);
    await shown(page);
    pages.set(name, page);
  }
  return pages;
}

async function closeAll(pages: ReadonlyMap<string, Page>): Promise<void> {
  for (const page of pages.values()) await page.context().close();
}

const greens = (page: Page) => page.locator('main .badge.good');

test('a gateway that hangs is noticed within 10 s on every live screen, and nothing old stays in colour', async () => {
  const pages = await openLive();
  stand.gateways[0].signal('SIGSTOP');
  try {
    await Promise.all(
      [...pages].map(async ([name, page]) => {
        await page.getByText(SILENT).waitFor({ timeout: NOTICED_MS });
        await page.getByText(/This is as of \d\d:\d\d:\d\d/).waitFor();
        const filters = await page.evaluate(() =>
          ['.page', 'nav'].map((part) => getComputedStyle(document.querySelector(part)!).filter),
        );
        expect(filters, name).toEqual(['grayscale(1)', 'grayscale(1)']);
        // What has happened stays green under the grey: verdicts and outcomes. No state of the present does.
        expect(
          await greens(page)
            .getByText(/^(Live|Active|Ready|Present|Up|All )/)
            .count(),
          name,
        ).toBe(0);
      }),
    );
  } finally {
    stand.gateways[0].signal('SIGCONT');
  }
  for (const page of pages.values()) await page.getByText(SILENT).waitFor({ state: 'detached', timeout: NOTICED_MS });
  for (const name of ['now', 'live', 'upstreams'])
    await pages.get(name)!.getByText('Live', { exact: true }).waitFor({ timeout: NOTICED_MS });
  await closeAll(pages);
});

test('a stream whose connection is gone without a word is opened again', async () => {
  const proxy = await startProxy(Number(new URL(stand.gateways[0].admin).port));
  const { page, context } = await visit(browser, proxy.origin, stand.tokens.admin);
  await page.goto('/console/');
  const live = page.getByText('Live', { exact: true });
  await live.waitFor();
  const opened = page.waitForRequest(/\/admin\/events\/now/, { timeout: NOTICED_MS });
  proxy.silence();
  await opened;
  await live.waitFor({ timeout: NOTICED_MS });
  await context.close();
  proxy.close();
});

test('a store that is paused is noticed within 10 s on every live screen, and what was known of it has its time', async () => {
  const pages = await openLive();
  stand.redis.pause();
  try {
    await Promise.all(
      [...pages.values()].map((page) =>
        page
          .getByText(/The store (is|has been) away/)
          .first()
          .waitFor({ timeout: NOTICED_MS }),
      ),
    );
    const now = pages.get('now')!;
    await now.getByText(/refusals as of/).waitFor({ timeout: NOTICED_MS });
    expect(await now.getByText('All well').count()).toBe(0);
    await expect.poll(() => now.getByRole('tab', { name: /^Refused –/ }).count(), { timeout: NOTICED_MS }).toBe(1);
    // The rest of the screens stands.
    expect(await pages.get('key')!.getByRole('heading', { name: 'Limits' }).count()).toBe(1);
  } finally {
    stand.redis.resume();
  }
  for (const page of pages.values())
    await expect.poll(() => page.getByText(/The store (is|has been) away/).count(), { timeout: NOTICED_MS }).toBe(0);
  await closeAll(pages);
});

/** A proxy in front of a port whose open connections can fall silent, as behind a NAT that forgets them. New ones work. */
async function startProxy(port: number) {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect({ host: '127.0.0.1', port });
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    silence: () => {
      for (const socket of sockets) {
        socket.unpipe();
        socket.pause();
      }
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
