import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stand, startStand } from '../../../tools/console/stand.ts';
import { launchBrowser, screensOf, signIn, untilDriven, type Visit, visit } from './console-visit.ts';

// Attack: names, owners, notes, paths and request ids come from callers and customers. One that the page took for markup
// would act with the session of whoever looks at it. And a secret that the page left behind would be found by the next one
// at the same desk, or in a log.

const BAD = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
// A slash in it would make the path one that the gateway refuses to read.
const BAD_PATH = '<img src=x onerror=document.title=1>';
const BAD_NAME = '<script>document.title=3</script><img src=x onerror=document.title=1>';
const RTL = 'שלום עולם 🐈 اختبار';

let browser: Browser;
let stand: Stand;
let callers: { stop(): Promise<void> };
let admin: Visit;
let hostile: { id: string; key: string };
let hostileCustomer: { id: string };

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand()]);
  callers = stand.drive();
  await untilDriven(stand);
  const create = (what: string, body: object) =>
    fetch(`${stand.gateways[0].admin}/admin/${what}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${stand.tokens.admin}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  const names = { name: BAD_NAME, owner: BAD_PATH, notes: BAD };
  hostileCustomer = (await (await create('customers', { plan: 'team', ...names })).json()) as typeof hostileCustomer;
  await create('keys', { customer: hostileCustomer.id, ...names });
  const created = await create('keys', {
    plan: 'enterprise',
    name: `${BAD_NAME}${RTL}`.padEnd(98, 'W'),
    owner: `"><svg onload=document.title=3>${'W'.repeat(68)}`,
    notes: `${BAD}\n${RTL}\n${'W'.repeat(800)}`,
    limits: { minute: 0, day: 999_999_999_999_999 },
  });
  hostile = (await created.json()) as typeof hostile;
  expect(created.status, JSON.stringify(hostile)).toBe(201);
  admin = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
});
afterAll(async () => {
  await callers?.stop();
  await browser?.close();
  await stand?.close();
});

/** Calls with a path, a query, a client's name and a request id that are markup. */
async function callBadly(): Promise<void> {
  for (const { key } of [hostile, stand.keys.hostile]) {
    await fetch(`${stand.gateways[0].origin}/v1/pets/${encodeURIComponent(BAD_PATH)}?${encodeURIComponent(BAD)}`, {
      headers: { Authorization: `Bearer ${key}`, 'X-Request-Id': BAD, 'User-Agent': BAD },
    });
  }
}

/** Elements that no part of the page makes, and what their scripts would have done. */
function intruders(page: Page): Promise<string[]> {
  return page.evaluate(() => [
    ...[
      ...document.querySelectorAll('body img:not([src="/console/icon.svg"]), body script, [onerror], [onload], iframe'),
    ].map(({ outerHTML }) => outerHTML),
    ...(/^[123]$/.test(document.title) ? [document.title] : []),
  ]);
}

test('markup in names, owners, notes and paths is text on every screen, and no rule of the policy is touched', async () => {
  const { page } = admin;
  for (const { path, shown } of screensOf(stand)) {
    await page.goto(`/console${path}`);
    await shown(page);
    await callBadly();
    if (path === '/live') await page.getByText('%3Cimg').or(page.getByText('<img')).first().waitFor();
    expect(await intruders(page), path).toEqual([]);
  }
  await page.goto('/console/keys?q=onerror');
  await page.getByRole('link', { name: 'onerror' }).first().waitFor();
  expect(await page.getByRole('link', { name: 'onerror' }).count()).toBe(4);
  for (const path of ['/customers?q=onerror', `/customers/${hostileCustomer.id}`]) {
    await page.goto(`/console${path}`);
    await page.getByRole('link', { name: 'onerror' }).first().waitFor();
    expect(await intruders(page), path).toEqual([]);
  }
  await page.goto(`/console/keys/${hostile.id}`);
  await page.getByRole('heading', { level: 1 }).filter({ hasText: '<script>' }).waitFor();
  await page.getByText('<img src=x').first().waitFor();
  await page.getByRole('button', { name: 'Edit…' }).click();
  expect(await page.getByRole('dialog').getByLabel('Notes').inputValue()).toContain(BAD);
  expect(await intruders(page)).toEqual([]);
  expect([...admin.violations, ...admin.errors]).toEqual([]);
});

test('a name that turns the direction of text round does not turn what stands beside it', async () => {
  const { page } = admin;
  await page.goto(`/console/keys/${hostile.id}`);
  const heading = page.getByRole('heading', { level: 1 });
  await heading.filter({ hasText: '<script>' }).waitFor();
  expect(await heading.locator('bdi').count()).toBe(1);
  await page.goto('/console/keys?q=onerror');
  const link = page.getByRole('link', { name: 'onerror' }).first();
  await link.waitFor();
  expect(await link.locator('bdi').count()).toBe(1);
});

test('markup in a draft of plans, and in the faults that name it, is text', async () => {
  const { page } = admin;
  await page.goto('/console/plans/edit');
  await page.getByText('No faults').waitFor();
  const text = page.getByLabel('Text of plans.yaml');
  await text.fill(`plans:\n  '${BAD.replaceAll("'", '')}': { limits: { '${RTL}': 1 } }\n`);
  const faults = page.getByRole('list', { name: 'Faults and warnings' });
  await faults.getByText('<img src=x').first().waitFor();
  expect(await intruders(page)).toEqual([]);
  await page.getByRole('link', { name: /Compare/ }).click();
  await page.getByText(/The draft has \d+ faults?/).waitFor();
  expect(await intruders(page)).toEqual([]);
  expect([...admin.violations, ...admin.errors]).toEqual([]);
});

test('markup in the address is text, whatever screen it is sent to', async () => {
  const { page } = admin;
  // The draft of the test before asks whether to leave.
  page.once('dialog', (dialog) => void dialog.accept());
  const bad = encodeURIComponent(BAD);
  const paths = [
    ...[`/explain/${bad}`, `/keys/${bad}`, `/${bad}`, `/keys?q=${bad}&plan=${bad}&owner=${bad}&expiring=${bad}`],
    ...[`/live?plan=${bad}&key=${bad}&route=${bad}`, `/audit?key=${bad}&actor=${bad}&since=${bad}`],
    ...[`/retiring?days=${bad}`, `/keys/jwt_${'a'.repeat(32)}?plan=${bad}`, '/keys/%', '/explain/..%2f..%2fadmin'],
  ];
  for (const path of paths) {
    await page.goto(`/console${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.locator('.spinner').first().waitFor({ state: 'detached' });
    expect(await intruders(page), path).toEqual([]);
  }
  expect([...admin.violations, ...admin.errors]).toEqual([]);
});

test('no secret is left in page, address, history, storage, log or audit after it was used', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, null);
  await page.goto('/console/keys');
  await signIn(page, stand.tokens.admin);
  await page.getByRole('button', { name: 'Create key…' }).click();
  await page.getByRole('dialog').getByLabel('Plan').selectOption('free');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  const created = await page.getByRole('dialog').getByLabel('Secret', { exact: true }).inputValue();
  await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Rotate…' }).click();
  await page.getByRole('dialog').getByLabel('Yes: they end at once').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
  const rotated = await page.getByRole('dialog').getByLabel('Secret', { exact: true }).inputValue();
  await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
  const pasted = stand.keys.near.key;
  const foreign = 'sk-A9b8C7d6E5f4G3h2J1k0L9m8N7';
  await page.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name: 'Keys', exact: true }).click();
  for (const secret of [pasted, foreign]) {
    await page.getByRole('searchbox', { name: 'Search' }).fill(secret);
    await page
      .getByRole('button', { name: /^(Back to the list|Close)$/ })
      .first()
      .waitFor();
  }
  // Somebody puts one into the address, and into the field for request ids.
  await page.goto(`/console/keys?q=${pasted}`);
  await page.getByRole('button', { name: 'Back to the list' }).waitFor();
  await page.getByRole('link', { name: 'Explain', exact: true }).click();
  await page.getByLabel('X-Request-Id').fill(pasted);
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByText('It was not sent.').waitFor();

  const [cookie] = await context.cookies();
  const secrets = { token: stand.tokens.admin, cookie: cookie!.value, created, rotated, pasted, foreign };
  const protocol = await context.newCDPSession(page);
  const { entries } = await protocol.send('Page.getNavigationHistory');
  const inPage = await page.evaluate(async () => ({
    elements: document.documentElement.outerHTML,
    fields: [...document.querySelectorAll<HTMLInputElement>('input, textarea, select')].map(({ value }) => value),
    local: { ...localStorage },
    session: { ...sessionStorage },
    databases: (await indexedDB.databases()).map(({ name }) => name),
    caches: 'caches' in window ? await caches.keys() : [],
    cookie: document.cookie,
    state: history.state,
  }));
  expect(inPage).toMatchObject({ local: {}, session: {}, databases: [], caches: [], cookie: '', state: null });
  const headers = { Authorization: `Bearer ${stand.tokens.viewer}` };
  const audit = await (await fetch(`${stand.gateways[0].admin}/admin/audit?limit=1000`, { headers })).text();
  const places = {
    page: JSON.stringify(inPage),
    history: entries.map(({ url }) => url).join(),
    log: stand.printed(),
    audit,
  };
  for (const [place, text] of Object.entries(places)) {
    for (const [name, secret] of Object.entries(secrets))
      expect(text.includes(secret), `${name} in ${place}`).toBe(false);
  }
  await context.close();
});
