import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../../tools/console/chromium.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { startUpstream, type Upstream } from '../../support/upstream.ts';

// A real browser calls through the gateway from pages of other origins: what their scripts see is what it lets them see.
// `npm run test:browser`; needs Chromium (Debian: `apt-get install chromium`; CHROMIUM names another one).

const browser = await launchChromium();
let upstream: Upstream;
let gateway: TestGateway;
let allowed: string;
let other: string;

beforeAll(async () => {
  [allowed, other] = [await servePage(), await servePage()];
  upstream = await startUpstream();
  gateway = await startGateway({ upstream: upstream.origin, more: `cors: { origins: ['${allowed}'] }` });
});
afterAll(() => browser.close());

test('a page of an allowed origin is served behind a preflight, which costs nothing, and reads the rate-limit fields', async () => {
  const { key } = await gateway.createKey('small');
  const page = await pageAt(allowed);
  expect(await fetchFrom(page, { Authorization: `Bearer ${key}` })).toMatchObject({
    status: 200,
    fields: { 'x-ratelimit-remaining': '2', ratelimit: expect.stringContaining('"minute";r=2;t=') },
  });
  const json = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  expect(await fetchFrom(page, json, '{"name":"Rex"}')).toMatchObject({
    status: 200,
    fields: { 'x-ratelimit-remaining': '1' },
  });
});

test('a page reads why it was refused, and after a 429 for how long to wait', async () => {
  const { key } = await gateway.createKey('small');
  const page = await pageAt(allowed);
  const refused = await fetchFrom(page, { Authorization: 'Bearer wrong' });
  expect(refused).toMatchObject({ status: 401, body: expect.stringContaining('invalid_api_key') });
  const web = await fetchFrom(
    page,
    { Authorization: 'Bearer wrong', 'Content-Type': 'application/grpc-web+proto' },
    'x',
  );
  expect(web).toMatchObject({ status: 200, body: expect.stringContaining('grpc-status: 16') });
  const fields = { Authorization: `Bearer ${key}` };
  for (let i = 0; i < 3; i++) await fetchFrom(page, fields);
  expect(await fetchFrom(page, fields)).toMatchObject({
    status: 429,
    fields: { 'x-ratelimit-remaining': '0', 'retry-after': expect.stringMatching(/^[1-9][0-9]*$/) },
  });
});

test('a page of any other origin gets nothing: its preflight allows nothing, and no request follows', async () => {
  const { key } = await gateway.createKey('free');
  const before = upstream.requests.length;
  expect(await fetchFrom(await pageAt(other), { Authorization: `Bearer ${key}` })).toBe('failed');
  expect(upstream.requests.length).toBe(before);
  expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining')).toBe('59');
});

/** An empty page with an origin of its own. */
async function servePage(): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>A page</title>');
  });
  server.listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function pageAt(origin: string): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(origin);
  return page;
}

function fetchFrom(page: Page, headers: Record<string, string>, body?: string) {
  return page.evaluate(
    async (it) => {
      try {
        const answer = await fetch(it.url, {
          headers: it.headers,
          ...(it.body ? { method: 'POST', body: it.body } : {}),
        });
        const names = ['x-ratelimit-remaining', 'ratelimit', 'retry-after'];
        const fields = Object.fromEntries(names.map((name) => [name, answer.headers.get(name)]));
        return { status: answer.status, fields, body: await answer.text() };
      } catch {
        return 'failed' as const;
      }
    },
    { url: `${gateway.origin}/v1/pets`, headers, body },
  );
}
