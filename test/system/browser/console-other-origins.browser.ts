import { createServer } from 'node:http';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type EmbeddedStand, startEmbeddedStand } from '../../../tools/console/stand.ts';
import { listen } from '../../support/listening.ts';
import { ROOM } from '../../support/room.ts';
import { launchBrowser, REBOUND, type Visit, visit } from './console-visit.ts';

// Attack: a signed-in admin opens a page of an attacker. It comes from another port of the same host, which browsers call
// the same site: the cookie of the session goes along with its requests, SameSite=Strict or not.

let browser: Browser;
let stand: EmbeddedStand;
let admin: Visit;
let attacker: string;
const server = createServer((_request, response) => {
  response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>Nice cats</title><p>Cats</p>');
});

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startEmbeddedStand()]);
  attacker = `http://127.0.0.1:${(await listen(server)).port}`;
  admin = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
});
afterAll(async () => {
  await browser?.close();
  server.closeAllConnections();
  server.close();
  await stand?.close();
});

let page: Page;
beforeEach(async () => {
  page = await admin.context.newPage();
  await page.goto(attacker);
  return () => page.close();
});

/** What must not change: the key that the attacker aims at, and the session. */
async function aim() {
  const headers = { Authorization: `Bearer ${stand.tokens.viewer}` };
  const key = await fetch(`${stand.gateways[0].admin}/admin/keys/${stand.keys.near.id}`, { headers });
  const [cookie] = await admin.context.cookies();
  const session = await fetch(`${stand.gateways[0].admin}/admin/session`, {
    headers: { Cookie: `${cookie!.name}=${cookie!.value}` },
  });
  return [await key.text(), session.status];
}

test('a form of another origin changes nothing, whatever its encoding', async () => {
  const before = await aim();
  for (const enctype of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
    for (const path of [`/admin/keys/${stand.keys.near.id}/rotate`, `/admin/keys/${stand.keys.near.id}/delete`]) {
      await page.goto(attacker);
      const answer = page.waitForResponse((response) => response.url().includes(path));
      await page.evaluate(
        ({ action, enctype }) => {
          const form = Object.assign(document.createElement('form'), { method: 'post', action, enctype });
          const field = Object.assign(document.createElement('input'), { name: '{"overlap":"0s","x":"', value: '"}' });
          form.append(field);
          document.body.append(form);
          form.submit();
        },
        { action: `${stand.gateways[0].admin}${path}`, enctype },
      );
      expect((await answer).status()).toBe(403);
      expect(await (await answer).json()).toMatchObject({ code: 'cross_origin' });
    }
  }
  expect(await aim()).toEqual(before);
});

test('a script of another origin neither changes nor reads anything, with and without a preflight', async () => {
  const before = await aim();
  const { id } = stand.keys.near;
  const tries = [
    { path: `/admin/keys/${id}`, method: 'DELETE' },
    { path: `/admin/keys/${id}/rotate`, method: 'POST', type: 'application/json' },
    { path: `/admin/keys/${id}/rotate`, method: 'POST', type: 'text/plain' },
    { path: '/admin/session?everywhere=true', method: 'DELETE' },
    { path: '/admin/session', method: 'POST', type: 'text/plain' },
    { path: `/admin/keys/${id}`, method: 'GET' },
    { path: '/admin/session', method: 'GET' },
  ];
  const statuses: number[] = [];
  page.on('response', (response) => statuses.push(response.status()));
  const results = await page.evaluate(
    ({ tries, admin }) =>
      Promise.all(
        (['cors', 'no-cors'] as const).flatMap((mode) =>
          tries.map(async ({ path, method, type }) => {
            try {
              const init = {
                mode,
                method,
                credentials: 'include' as const,
                ...(type ? { body: '{}', headers: { 'Content-Type': type } } : {}),
              };
              const response = await fetch(`${admin}${path}`, init);
              return `${response.type} ${await response.text()}`.trim();
            } catch {
              return 'failed';
            }
          }),
        ),
      ),
    { tries, admin: stand.gateways[0].admin },
  );
  expect(new Set(results)).toEqual(new Set(['failed', 'opaque']));
  expect(statuses.filter((status) => status < 300 && status !== 204)).toEqual([]);
  expect(await aim()).toEqual(before);
});

test('a stream of events does not open for another origin', async () => {
  const url = `${stand.gateways[0].admin}/admin/events/now`;
  const outcome = page.evaluate(
    (url) =>
      new Promise((resolve) => {
        const source = new EventSource(url, { withCredentials: true });
        source.onopen = () => resolve('open');
        source.onerror = () => resolve('refused');
        source.addEventListener('now', () => resolve('read'));
      }),
    url,
  );
  expect(await outcome).toBe('refused');
  // The browser does not say why. The gateway refuses it before it becomes one of its streams.
  const [cookie] = await admin.context.cookies();
  const headers = { Cookie: `${cookie!.name}=${cookie!.value}`, 'Sec-Fetch-Site': 'same-site' };
  expect((await fetch(url, { headers })).status).toBe(403);
});

test('a link or an image of another origin gets no data of the API, and the console opens by a link', async () => {
  const go = async (path: string) => {
    const url = `${stand.gateways[0].admin}${path}`;
    await page.goto(attacker);
    await page.evaluate((href) => {
      document.body.append(Object.assign(document.createElement('a'), { href, textContent: 'A link' }));
    }, url);
    const response = page.waitForResponse((one) => one.url() === url, { timeout: 30_000 * ROOM });
    await page.getByRole('link', { name: 'A link' }).click();
    return (await response).status();
  };
  expect(await go('/admin/keys')).toBe(403);
  expect(await go('/console/')).toBe(200);
  await page.getByRole('heading', { name: 'Now' }).waitFor();
  expect(await page.evaluate(() => window.opener)).toBeNull();
});

test('a page of another origin cannot frame the console', async () => {
  const complaint = page.waitForEvent('console', (message) => message.text().includes('frame-ancestors'));
  await page.evaluate((src) => {
    document.body.append(Object.assign(document.createElement('iframe'), { src }));
  }, `${stand.gateways[0].admin}/console/`);
  await complaint;
  const [, frame] = page.frames();
  expect(await frame!.evaluate(() => document.querySelector('#console'))).toBeNull();
});

test('a window that another origin has opened cannot be reached from there', async () => {
  const opened = page.waitForEvent('popup');
  await page.evaluate((url) => {
    Object.assign(window, { console_: window.open(url) });
  }, `${stand.gateways[0].admin}/console/`);
  const popup = await opened;
  await popup.getByRole('heading', { name: 'Now' }).waitFor();
  expect(await popup.evaluate(() => window.opener)).toBeNull();
  expect(await page.evaluate(() => (window as unknown as { console_: Window }).console_.closed)).toBe(true);
  await popup.close();
});

test('a name that an attacker has rebound to this host gets neither the page nor the API', async () => {
  const { port } = new URL(stand.gateways[0].admin);
  for (const path of ['/console/', '/console/icon.svg', '/admin/session', '/metrics']) {
    const response = await page.goto(`http://${REBOUND}:${port}${path}`);
    expect([path, response!.status()]).toEqual([path, 421]);
  }
});
