import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../../tools/console/chromium.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { startUpstream, type Upstream } from '../../support/upstream.ts';

// A key in a cookie, and a real browser. Over plain HTTP to another host than localhost it sends no Sec-Fetch-Site.

const browser = await launchChromium('--host-resolver-rules=MAP *.test 127.0.0.1', '--disable-features=HttpsUpgrades');
let service: Upstream;
let gateway: TestGateway;
let own: string;
let other: string;

beforeAll(async () => {
  service = await startUpstream((_request, response) =>
    response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>A page</title>'),
  );
  const routes = `
  - { path: /page, methods: [GET], upstream: store, auth: none, limits: { minute: 1000 } }
  - { path: /v1/**, methods: [GET, POST], upstream: store }`;
  gateway = await startGateway({ upstream: service.origin, routes, more: 'keys: { from: [{ cookie: sid }] }' });
  [own, other] = [`http://api.test:${gateway.port}`, `http://evil.test:${gateway.port}`];
});
afterAll(() => browser.close());

/** A page of `at` in a browser that has the key of a caller of the gateway in a cookie. */
async function pageAt(at: string): Promise<Page> {
  const { key } = await gateway.createKey('endless');
  const context = await browser.newContext();
  await context.addCookies([{ name: 'sid', value: key, url: own, sameSite: 'Lax' }]);
  const page = await context.newPage();
  await page.goto(`${at}/page`);
  return page;
}

test('a page of the gateway’s host calls with the key in the cookie', async () => {
  const page = await pageAt(own);
  for (const method of ['GET', 'POST']) {
    expect(await page.evaluate(async (method) => (await fetch('/v1/own', { method })).status, method)).toBe(200);
  }
});

test.each([
  ['a link', '<a href="TARGET" rel="noreferrer">a</a>', 'a'],
  [
    'a form with GET',
    '<meta name="referrer" content="no-referrer"><form action="TARGET"><button>a</button></form>',
    'button',
  ],
  ['a form with POST', '<form action="TARGET" method="post"><button>a</button></form>', 'button'],
])('a page of another host makes the browser send no call with it: %s (reliability 589)', async (_, html, press) => {
  const before = service.requests.length;
  const page = await pageAt(other);
  await page.setContent(html.replace('TARGET', `${own}/v1/other`));
  const [response] = await Promise.all([page.waitForResponse(/v1\/other/), page.click(press)]);
  expect(response.status()).toBe(401);
  expect(service.requests.slice(before).map(({ url }) => url)).toEqual(['/page']);
});
