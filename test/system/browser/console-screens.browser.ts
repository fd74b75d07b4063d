import { text } from 'node:stream/consumers';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type EmbeddedStand,
  type Stand,
  startEmbeddedStand,
  startStand,
  UNKNOWN,
} from '../../../tools/console/stand.ts';
import { ROOM } from '../../support/room.ts';
import { launchBrowser, screensOf, untilDriven, type Visit, visit } from './console-visit.ts';

// What each screen shows, loads and leaves out, in a real browser before real gateways.

/** Of all files that a screen loads, as they are on the wire. */
const MAX_BYTES = 60 * 1024;

const CHANGES = /^(more|lift|top up|create |edit…|move…|revoke|rotate|reset usage|delete|write)/i;

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

describe.each([
  { store: 'Redis', gateways: 2, start: startStand },
  { store: 'the embedded store', gateways: 1, start: startEmbeddedStand },
])('on $gateways gateways with $store', ({ gateways, start }) => {
  let stand: Stand | EmbeddedStand;
  let callers: { stop(): Promise<void> };
  let viewer: Visit;

  /** What each screen loads, and the buttons for changes that it offers. */
  const seen: { readonly name: string; readonly bytes: number; readonly changes: number }[] = [];

  beforeAll(async () => {
    stand = await start();
    callers = stand.drive();
    await untilDriven(stand);
    viewer = await visit(browser, stand.gateways.at(-1)!.admin, stand.tokens.viewer);
    const { context, page } = viewer;
    const protocol = await context.newCDPSession(page);
    await protocol.send('Network.enable');
    await protocol.send('Network.setCacheDisabled', { cacheDisabled: true });
    let sizes: Promise<number>[] = [];
    page.on('requestfinished', (request) => {
      const { pathname } = new URL(request.url());
      // The font is loaded once, and is not part of the budget.
      if (pathname.startsWith('/console/') && !pathname.endsWith('.woff2'))
        sizes.push(request.sizes().then(({ responseBodySize }) => responseBodySize));
    });
    for (const { name, path, shown } of screensOf(stand)) {
      sizes = [];
      await page.goto(`/console${path}`);
      await shown(page);
      const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
      seen.push({ name, bytes, changes: await page.getByRole('button', { name: CHANGES }).count() });
    }
    await protocol.detach();
  });
  afterAll(async () => {
    await viewer?.context.close();
    await callers?.stop();
    await stand?.close();
  });

  test('every screen shows its data, breaks no rule of its content security policy and throws nothing', () => {
    expect(seen).toHaveLength(14);
    expect([...viewer.violations, ...viewer.errors]).toEqual([]);
  });

  test('what any one screen loads is at most 60 KB as it is sent', () => {
    for (const { name, bytes } of seen) {
      expect(bytes, name).toBeGreaterThan(10_000);
      expect(bytes, name).toBeLessThanOrEqual(MAX_BYTES);
    }
  });

  test('a viewer is offered no change on any screen', () => {
    expect(seen.filter(({ changes }) => changes > 0)).toEqual([]);
  });

  test('Now shows who is banned and until when, who is near a limit, and each gateway', async () => {
    const { page } = viewer;
    await page.goto('/console/');
    const refused = page.getByRole('table', { name: 'Keys that are refused or banned' });
    expect(await refused.getByRole('row', { name: /Jo's pet shop/ }).innerText()).toMatch(
      /Banned \(1st ban\)[\s\S]*in \d+\s+min/,
    );
    await page.getByRole('tab', { name: 'Near a limit' }).click();
    await page
      .getByRole('table', { name: 'Keys that are near a limit' })
      .getByRole('row', { name: /Paws & Claws/ })
      .waitFor({ timeout: 15_000 * ROOM });
    await expect
      .poll(() => page.getByRole('listitem').filter({ hasText: 'In force' }).count(), { timeout: 15_000 * ROOM })
      .toBe(gateways);
  });

  test('Key shows a bar and the reset of each window, and the strikes and the ban', async () => {
    const { page } = viewer;
    await page.goto(`/console/keys/${stand.keys.banned.id}`);
    await page.getByRole('meter', { name: 'Used of the minute' }).waitFor();
    await page.getByRole('meter', { name: 'Used of the day' }).waitFor();
    await page.getByText(/1st ban, until/).waitFor();
    await page.getByText(/^Refused since/).waitFor();
    await page.getByText(/Last request .* from/).waitFor();
  });

  test('Key lists its last refusals with time, route, code and address, each with the way to why', async () => {
    const { page } = viewer;
    await page.goto(`/console/keys/${stand.keys.banned.id}`);
    const refusals = page.getByRole('table', { name: 'Last refusals' });
    await refusals.getByRole('cell', { name: '429 api_key_banned' }).first().waitFor();
    const row = refusals.getByRole('row').nth(1);
    expect(await row.innerText()).toMatch(/GET \/v1\/pets[\s\S]*127\.0\.0\.1/);
    await row.getByRole('rowheader').click();
    await page.waitForURL(/\/console\/explain\/[0-9a-f]{32}$/);
    await page.getByText('banned').first().waitFor();
  });

  test('Audit shows the changes before a day that is typed, and says what is no day', async () => {
    const { page } = viewer;
    await page.goto('/console/audit');
    const before = page.getByLabel('Before');
    await before.fill('31.12.2036');
    await before.press('Enter');
    await page.getByRole('alert').getByText('A day such as 2026-12-31').waitFor();
    await before.fill('2036-12-31');
    await before.press('Enter');
    await page.waitForURL(/[?]until=2036-12-31$/);
    await page.getByRole('table', { name: 'Changes, newest first' }).getByRole('row').nth(1).waitFor();
  });

  test.runIf(gateways === 2)(
    'Traffic shows what is unknown as unknown, what failed, the previous period and who is behind it',
    async () => {
      const { page } = viewer;
      await page.goto('/console/traffic');
      await page.getByRole('table', { name: 'Requests by route' }).getByText('/v1/pets/{petId}').waitFor();
      await page.getByText('Table: Requests').click();
      const minutes = page.getByRole('table', { name: 'Requests', exact: true }).getByRole('row');
      expect(await minutes.filter({ hasText: 'unknown' }).count()).toBeGreaterThanOrEqual(UNKNOWN.minutes.length);
      await page.getByRole('group', { name: 'Range' }).getByRole('button', { name: '30 days' }).click();
      await page.waitForURL(/[?]range=30d/);
      await page
        .locator('.figures')
        .getByText(/^([+−]\d+ %|as before)$/)
        .waitFor();
      await page.getByRole('button', { name: /^Previous period/ }).waitFor();
      await page.getByRole('group', { name: 'By' }).getByRole('button', { name: 'Customer' }).click();
      await page.getByRole('link', { name: stand.customer.name }).click();
      await page.getByRole('heading', { name: stand.customer.name }).waitFor();
    },
  );

  test.runIf(gateways === 2)(
    'a bar of Traffic leads to its time alone, and a change of the plans is a mark on it',
    async () => {
      const { page } = viewer;
      await page.goto('/console/traffic?range=30d');
      const chart = page.getByRole('img', { name: /^Requests: / });
      await page.getByRole('link', { name: /Plans changed/ }).waitFor();
      await chart.focus();
      await chart.press('End');
      await page
        .getByText(/Plans changed/)
        .first()
        .waitFor();
      await chart.press('ArrowLeft');
      await chart.press('Enter');
      await page.waitForURL(/range=own/);
      await page.getByText('by hour').waitFor();
      await page.goBack();
      await page.waitForURL(/range=30d/);
    },
  );

  test('Key shows the usage of a range that the address names, with its totals and as CSV', async () => {
    const { page } = viewer;
    await page.goto(`/console/keys/${stand.keys.fine.id}`);
    await page.getByRole('group', { name: 'Range' }).getByRole('button', { name: '30 days' }).click();
    await page.waitForURL(/[?]range=30d$/);
    const total = page.getByRole('region', { name: 'Usage' }).locator('.totals dd').first();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download CSV' }).click(),
    ]);
    const lines = (await text(await download.createReadStream())).trim().split('\r\n');
    expect(lines[0]).toBe('id,day,unit,admitted,refused,banned');
    expect(lines).toHaveLength(31);
    const admitted = lines.slice(1).reduce((sum, line) => sum + Number(line.split(',')[3]), 0);
    expect(admitted).toBeGreaterThan(0);
    expect(await total.innerText()).toBe(admitted.toLocaleString('en'));
    const today = new Date().toISOString().slice(0, 10);
    expect(lines.at(-1)!.startsWith(`${stand.keys.fine.id},${today},requests,`)).toBe(true);
    await page.getByRole('button', { name: 'Other' }).click();
    const show = page.getByRole('button', { name: 'Show', exact: true });
    await page.getByLabel('From', { exact: true }).fill('2026-02-30');
    await show.click();
    await page.getByRole('alert').getByText('Give a beginning such as').waitFor();
    await page.getByLabel('From', { exact: true }).fill('2026-11-20');
    await page.getByLabel('To', { exact: true }).fill('2026-11-19');
    await show.click();
    await page.getByRole('alert').getByText('The end is not after the beginning.').waitFor();
    await page.getByLabel('To', { exact: true }).fill('');
    await show.click();
    await page.waitForURL(/range=custom&from=2026-11-[12]\d/);
  });

  test('Now has one row for the keys of a customer that are near a limit, by one threshold, and of one window if asked', async () => {
    const page = await viewer.context.newPage();
    const asked: string[] = [];
    const customer = { id: stand.customer.id, name: stand.customer.name };
    const near = (id: string, used: number, more = {}) => ({
      ...{ id, name: id, owner: null, plan: 'team', window: 'day', limit: 100, used, remaining: 100 - used },
      ...{ resetAt: Math.floor(Date.now() / 1_000) + 3_600, ...more },
    });
    const keys = [near('key_a', 95, { customer }), near('key_b', 92), near('key_c', 85, { customer })];
    await page.route(/\/admin\/near\?/, (route) => {
      asked.push(new URL(route.request().url()).search);
      return route.fulfill({ json: { keys, unreadable: [] } });
    });
    await page.goto('/console/?callers=near&used=80');
    await page.getByLabel('Window').selectOption('day');
    const rows = page.getByRole('table', { name: 'Keys that are near a limit' }).getByRole('row');
    await expect.poll(() => rows.count()).toBe(3);
    expect(await rows.nth(1).innerText()).toMatch(
      new RegExp(`${customer.name}[^]*key_a 95\\s% of the day[^]*key_c 85\\s% of the day`),
    );
    await expect.poll(() => asked).toContain('?used=80&window=day');
    await page.close();
  });

  test('Key says how many calls are in no network, and Upstreams the weight of each target (reliability 514)', async () => {
    const page = await viewer.context.newPage();
    await page.route(/\/admin\/gateways$/, async (route) => {
      const response = await route.fetch();
      const list = (await response.json()) as { gateways: { callsWithoutNetwork: number }[] };
      expect(list.gateways.map(({ callsWithoutNetwork }) => callsWithoutNetwork)).toEqual(Array(gateways).fill(0));
      for (const one of list.gateways) one.callsWithoutNetwork = 7;
      await route.fulfill({ response, json: list });
    });
    await page.goto(`/console/keys/${stand.keys.fine.id}`);
    await page.getByText(`The networks of ${7 * gateways} calls were not counted`).waitFor();
    await page.goto('/console/upstreams');
    const weight = page.getByRole('table', { name: 'Targets of store' }).locator('td[data-title=Weight]');
    expect(await weight.innerText()).toBe('1');
    await page.close();
  });

  test('Customer shows which of its keys used what they share', async () => {
    const { page } = viewer;
    await page.goto(`/console/customers/${stand.customer.id}`);
    const keys = page.getByRole('table', { name: 'Which of its keys used it' });
    await keys.getByRole('row', { name: /Web shop.*\d+ %/ }).waitFor();
    await keys.getByRole('link', { name: 'Acme app' }).waitFor();
  });

  test('a list says how much of it is shown, also if that is one', async () => {
    const { page } = viewer;
    await page.goto('/console/customers');
    await page.getByText('1 customer shown.', { exact: true }).waitFor();
    await page.goto('/console/keys?q=Paws');
    await page.getByText(/^1 key shown, \d+ searched\.$/).waitFor();
    await page.goto('/console/keys');
    await page.getByText('All 38 keys shown.', { exact: true }).waitFor();
  });

  test('Find anything finds a key by its name, its owner, its id, its last four and its secret, which stays out of addresses', async () => {
    const { page } = viewer;
    const { id, key } = stand.keys.near;
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.goto('/console/audit');
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    for (const text of ['paws & cl', id, 'ops@paws', key.slice(-4), key]) {
      await page.keyboard.press('/');
      await page.getByRole('combobox', { name: 'Find' }).fill(text);
      await page
        .getByRole('listbox', { name: 'Found' })
        .getByRole('option', { name: /Paws & Claws|^key_/ })
        .first()
        .waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'Paws & Claws' }).waitFor();
    }
    // Of another maker, or within other text: neither is taken for the id of a request.
    for (const text of ['sk-proj-0123456789abcdef', `x${key}`]) {
      await page.keyboard.press('/');
      await page.getByRole('combobox', { name: 'Find' }).fill(text);
      await page.getByText('No key has this secret.').waitFor();
      expect(await page.getByRole('option').count(), text).toBe(0);
      await page.keyboard.press('Escape');
      await page.locator('dialog').waitFor({ state: 'detached' });
    }
    expect([page.url(), ...asked].join()).not.toContain(key);
    expect([page.url(), ...asked].join()).not.toContain('sk-proj');
  });

  test('Find anything takes what is typed at once, before the gateway has sent what finds it', async () => {
    const page = await viewer.context.newPage();
    const sent = Promise.withResolvers<void>();
    await page.route(/\/dialogs-/, async (route) => {
      await sent.promise;
      await route.continue();
    });
    await page.goto('/console/keys');
    await page.getByRole('heading', { name: 'Keys', level: 1 }).waitFor();
    const asked = page.waitForRequest(/\/dialogs-/);
    await page.keyboard.press('Control+K');
    await page.keyboard.type('pawx');
    await page.keyboard.press('Backspace');
    await page.keyboard.type('s & claws');
    await asked;
    expect(await page.getByRole('combobox', { name: 'Find' }).inputValue()).toBe('paws & claws');
    sent.resolve();
    await page.getByRole('option', { name: /Paws & Claws/ }).waitFor();
    await page.close();
  });

  test('Find anything opens again at once, before the browser reports that it was closed', async () => {
    const page = await viewer.context.newPage();
    await page.goto('/console/keys');
    await page.getByRole('heading', { name: 'Keys', level: 1 }).waitFor();
    await page.keyboard.press('Control+K');
    await page.getByRole('option', { name: 'Upstreams' }).waitFor();
    await page.evaluate(async () => {
      const dialog = document.querySelector('dialog')!;
      const closed = new Promise((resolve) => dialog.addEventListener('close', resolve));
      dialog.close();
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true, cancelable: true }));
      await closed;
    });
    await page.getByRole('combobox', { name: 'Find' }).fill('paws');
    await page.getByRole('option', { name: /Paws & Claws/ }).waitFor();
    await page.close();
  });

  test('a field has the focus again, and takes letters, once Find anything is closed', async () => {
    const page = await viewer.context.newPage();
    await page.goto('/console/keys');
    const field = page.getByLabel('Owner');
    await field.click();
    await page.keyboard.press('Control+k');
    await page.getByRole('option', { name: 'Upstreams' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Find' }).waitFor({ state: 'detached' });
    await page.keyboard.type('vet');
    expect(await field.inputValue()).toBe('vet');
    await page.close();
  });

  test('Find anything opens a screen, and a refused request by its id', async () => {
    const { page } = viewer;
    await page.goto('/console/');
    await page.getByRole('button', { name: 'Find anything' }).click();
    await page.getByRole('combobox', { name: 'Find' }).fill('upstr');
    await page.getByRole('option', { name: 'Upstreams' }).click();
    await page.getByRole('heading', { level: 1, name: 'Upstreams' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Find' }).fill(stand.refusedRequestId());
    await page.getByRole('option', { name: /Explain/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('.sentence').waitFor();
  });

  test('Audit, the screen of a key and the history of plans show entries that cannot be read (reliability 390, 391)', async () => {
    const page = await viewer.context.newPage();
    const reason = 'It is number 999 of tg:audit: put it right there, or remove it.';
    await page.route(/\/admin\/(audit|plans\/history)(\?|$)/, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), unreadable: [{ id: '999', reason }] } });
    });
    for (const path of ['/audit', `/keys/${stand.keys.near.id}`, '/plans/history']) {
      await page.goto(`/console${path}`);
      await page.getByRole('list', { name: /^Unreadable (changes|versions)$/ }).waitFor();
      await page.getByText(reason).waitFor();
    }
    // The entry is later than all others, so the version in force is unknown.
    await page.getByRole('table', { name: /^Versions/ }).waitFor();
    expect(await page.getByText('In force', { exact: true }).count()).toBe(0);
    await page.close();
  });

  test('Find anything offers a short request id last, and says which records may match although it cannot read them (reliability 394)', async () => {
    const page = await viewer.context.newPage();
    const id = 'key_0123456789abcdef';
    await page.route(/\/admin\/keys\?q=/, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), unreadable: [{ id, reason: 'damaged' }] } });
    });
    await page.goto('/console/keys');
    await page.getByRole('heading', { name: 'Keys', level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Find' }).fill('upst');
    await page.getByRole('option', { name: 'Explain the request upst' }).waitFor();
    await page.getByText(`1 record cannot be read and may match: ${id}.`).waitFor();
    const options = page.getByRole('listbox', { name: 'Found' }).getByRole('option');
    expect((await options.allInnerTexts()).at(-1)).toContain('Explain the request upst');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Upstreams' }).waitFor();
    await page.close();
  });

  test('Explain keeps the end of a window in its column, whatever the name of its zone', async () => {
    const { page } = viewer;
    await page.route(/\/usage$/, async (route) => {
      const response = await route.fetch();
      const usage = (await response.json()) as { windows: Record<string, { form?: string }> };
      for (const window of Object.values(usage.windows)) window.form = 'calendar, America/Argentina/Buenos_Aires';
      await route.fulfill({ response, json: usage });
    });
    await page.goto(`/console/explain/${stand.refusedRequestId()}`);
    await page.locator('.windows time', { hasText: 'Buenos_Aires' }).first().waitFor();
    const rows = page.locator('.windows li, .windows li > *');
    expect(await rows.evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).length)).toBe(0);
    await page.unroute(/\/usage$/);
  });

  test('a table sorts by a click on a heading, and a click on a row opens it', async () => {
    const { page } = viewer;
    await page.goto('/console/keys');
    const rows = page.getByRole('table', { name: 'Keys' }).getByRole('rowheader');
    await rows.filter({ hasText: 'Paws & Claws' }).waitFor();
    await page.getByRole('columnheader', { name: 'Plan' }).getByRole('button').click();
    await page.getByRole('columnheader', { name: 'Plan' }).and(page.locator('[aria-sort=ascending]')).waitFor();
    const plans = () => page.locator('td[data-title=Plan]').allInnerTexts();
    const shown = await plans();
    expect(shown).toEqual(shown.toSorted());
    await page
      .getByRole('row', { name: /Paws & Claws/ })
      .locator('td[data-title=Plan]')
      .click();
    await page.getByRole('heading', { level: 1, name: 'Paws & Claws' }).waitFor();
  });

  test('Keys leads to the callers that are near a limit, and the address of Now says which callers it shows', async () => {
    const { page } = viewer;
    await page.goto('/console/keys');
    await page.getByRole('link', { name: 'Near a limit' }).click();
    await page.getByLabel('Window').selectOption('day');
    await page.waitForURL(/[?]callers=near&window=day$/);
    await page.reload();
    await page.getByRole('tab', { name: 'Near a limit', selected: true }).waitFor();
    await page.getByRole('tab', { name: 'Banned' }).click();
    await page.waitForURL(/[?]callers=banned$/);
  });

  test('Keys finds a key by a part of its name, its id, its owner, its last four and its secret', async () => {
    const { page } = viewer;
    const { id, key } = stand.keys.near;
    const search = page.getByRole('searchbox', { name: 'Search' });
    await page.goto('/console/keys');
    for (const text of ['paws & cl', id, 'ops@paws', key.slice(-4), key]) {
      await search.fill('nobody has this');
      await page.getByText('No key matches.').waitFor();
      await search.fill(text);
      await page.getByRole('link', { name: 'Paws & Claws' }).waitFor();
      expect(await page.getByRole('link', { name: 'Zoo of the North' }).count()).toBe(0);
      expect(page.url()).not.toContain(key);
    }
  });
});
