import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { OperationWords } from '../../../src/admin/console/page/words.ts';
import { PEOPLE, type Stand, startStand } from '../../../tools/console/stand.ts';
import { buildPage } from '../../../tools/package/page.ts';
import { PAGE_WORDS } from '../../../tools/package/page-words.ts';
import { eventually } from '../../support/conditions.ts';
import { launchBrowser, more, untilDriven, type Visit, visit } from './console-visit.ts';

// What people do on the console: each change asks first, says afterwards what happened, and is in the audit with a name.

let browser: Browser;
let stand: Stand;
let viewer: Visit;
let operator: Visit;
let admin: Visit;

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand()]);
  const callers = stand.drive();
  await untilDriven(stand);
  await callers.stop();
  const [a, b] = stand.gateways;
  viewer = await visit(browser, a.admin, stand.tokens.viewer);
  operator = await visit(browser, b.admin, stand.tokens.operator);
  admin = await visit(browser, a.admin, stand.tokens.admin);
});
afterAll(async () => {
  await browser?.close();
  await stand?.close();
});

/** Looks that are few: an address that sends many wrong keys gets 429. */
const SPARING = { everyMs: 500 };

const PAGE_OPERATIONS = PAGE_WORDS.operations!.OPERATIONS as readonly OperationWords[];
const dialogOf = (page: Page) => page.getByRole('dialog');
const noticeOf = (page: Page) => page.locator('.notice');

/** The first change in the screen Audit that has this action and target, as text. */
async function audited(action: string, target?: string): Promise<string> {
  const { page } = viewer;
  await page.goto(`/console/audit${target === undefined ? '' : `?key=${target}`}`);
  const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: action, exact: true }) });
  await row.first().waitFor();
  return row.first().innerText();
}

test('an operator lifts a ban on Now: the dialog names the key, the row goes, and the audit says who', async () => {
  const { page } = operator;
  await page.goto('/console/');
  await page.getByRole('button', { name: "Lift the ban of Jo's pet shop" }).click();
  await dialogOf(page).getByRole('heading', { name: "Lift the ban of Jo's pet shop" }).waitFor();
  await dialogOf(page).getByRole('button', { name: 'Lift the ban' }).click();
  await noticeOf(page).getByText("The ban of Jo's pet shop is lifted.").waitFor();
  await page.getByRole('button', { name: "Lift the ban of Jo's pet shop" }).waitFor({ state: 'detached' });
  expect(await audited('Lift ban', stand.keys.banned.id)).toMatch(new RegExp(`${PEOPLE.operator}[\\s\\S]*Done`));
});

test('Audit finds the changes of one kind to a key that is named as people name it', async () => {
  const { page } = viewer;
  await page.goto('/console/audit');
  await page.getByLabel('Key or customer').fill("Jo's pet");
  await page.keyboard.press('Enter');
  await page.getByLabel('Action').selectOption('ban.lift');
  const rows = page.getByRole('table', { name: 'Changes, newest first' }).getByRole('row');
  await eventually(async () => expect(await rows.count()).toBe(2), SPARING);
  await rows.nth(1).getByRole('link', { name: "Jo's pet shop" }).waitFor();
  await rows.nth(1).getByRole('rowheader', { name: 'Lift ban' }).waitFor();
  await page.getByLabel('Before').fill('2020-01-01');
  await page.keyboard.press('Enter');
  await page.getByText('No change matches.').waitFor();
  await page.goto('/console/audit?key=a');
  await page.getByText('Several match “a”. Choose one:').waitFor();
  await page.goto('/console/live?key=nobody-has-this-name');
  await page.getByText('Nothing matches').waitFor();
  await page.getByLabel('Key').fill(stand.keys.near.key);
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('This is a secret.').waitFor();
  expect(page.url()).not.toContain(stand.keys.near.key.slice(8));
});

test('Explain does not advise to wait for a ban that was lifted', async () => {
  const { page } = operator;
  const { id } = stand.keys.banned;
  await page.goto(`/console/keys/${id}`);
  const refusals = page.getByRole('table', { name: 'Last refusals' });
  await refusals
    .getByRole('row', { name: /api_key_banned/ })
    .first()
    .getByRole('link')
    .click();
  await page
    .getByText(/is used up now|The same request succeeds now/)
    .first()
    .waitFor();
  await page.goBack();
  await page.getByText(/^Refused since/).waitFor();
  await page.getByRole('button', { name: 'Reset usage…' }).click();
  await dialogOf(page)
    .getByText(/strikes/)
    .first()
    .waitFor();
  await dialogOf(page).getByRole('button', { name: 'Reset usage' }).click();
  await noticeOf(page)
    .getByText(/was reset/)
    .waitFor();
  await page.getByText(/^It was refused from .* on; nothing refuses its next request\./).waitFor();
  await refusals
    .getByRole('row', { name: /api_key_banned/ })
    .first()
    .getByRole('link')
    .click();
  await page.getByText('What refused the request is over').waitFor();
  await page.getByText(/That is over: requests succeed again/).waitFor();
  await page.getByText(new RegExp(`was lifted .* by ${PEOPLE.operator}\\. It would have ended`)).waitFor();
  expect(await page.getByText(/Wait until|in \d+ (s|min)/).count()).toBe(0);
});

test('Explain shows that a ban is lifted as soon as it is, without waiting for the next reading', async () => {
  const page = await operator.context.newPage();
  await page.addInitScript('window.setInterval = () => 0');
  const headers = { Authorization: `Bearer ${stand.keys.banned.key}` };
  let refused = '';
  for (let i = 0; i < 80; i++) {
    const response = await fetch(`${stand.gateways[0].origin}/v1/pets`, { headers });
    await response.arrayBuffer();
    if (response.status === 429) refused = response.headers.get('x-request-id')!;
  }
  await page.goto(`/console/explain/${refused}`);
  await page.getByRole('link', { name: 'Now 1 banned' }).waitFor();
  await page.getByRole('button', { name: 'Lift the ban…' }).click();
  await dialogOf(page).getByLabel('Reason').fill('Ticket 4711');
  await dialogOf(page).getByRole('button', { name: 'Lift the ban' }).click();
  await page.getByText(/What refused the request is over/).waitFor();
  await page.getByText(/was lifted .*\(Ticket 4711\)/).waitFor();
  await page.getByRole('button', { name: 'Lift the ban…' }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Now 1 banned' }).waitFor({ state: 'detached' });
  await page.close();
});

test('Explain shows a top-up with the text for the customer, and takes it back in one click', async () => {
  const page = await operator.context.newPage();
  await page.goto(`/console/keys/${stand.keys.banned.id}`);
  await page.getByRole('table', { name: 'Last refusals' }).getByRole('link').first().click();
  await page.getByRole('button', { name: 'Top up…' }).click();
  await dialogOf(page).getByLabel('Window').selectOption('minute');
  await dialogOf(page).getByLabel('Requests to add').fill('40');
  await dialogOf(page).getByRole('button', { name: 'Top up' }).click();
  await page
    .getByText(/Your request .* \(GET \/v1\/pets\) .* your limit, which is \d+ requests a minute until/)
    .waitFor();
  await page.getByRole('button', { name: 'Undo the top-up of 40' }).click();
  await page.getByRole('button', { name: 'Undo the top-up of 40' }).waitFor({ state: 'detached' });
  await page.close();
});

test('a lift that fails after its top-up says so, and does not top up again', async () => {
  const page = await operator.context.newPage();
  const headers = { Authorization: `Bearer ${stand.keys.banned.key}` };
  for (let i = 0; i < 160; i++) await (await fetch(`${stand.gateways[0].origin}/v1/pets`, { headers })).arrayBuffer();
  let fails = true;
  await page.route(/\/admin\/bans\//, (route) =>
    fails
      ? route.fulfill({ status: 503, json: { code: 'busy', message: 'Try again.', status: 503 } })
      : route.continue(),
  );
  await page.goto(`/console/keys/${stand.keys.banned.id}`);
  await page.getByRole('button', { name: 'Lift the ban…' }).click();
  const dialog = dialogOf(page);
  await dialog.getByLabel('Top up a limit, too').check();
  await dialog.getByLabel('Window').selectOption('day');
  await dialog.getByLabel('Requests to add').fill('30');
  await dialog.getByRole('button', { name: 'Lift the ban' }).click();
  const fault = await dialog
    .getByRole('alert')
    .getByText(/a day.*The ban is not lifted: Try again\./)
    .innerText();
  fails = false;
  await dialog.getByLabel('Reason').fill('x'.repeat(200));
  await dialog.getByRole('button', { name: 'Lift the ban' }).click();
  const [, limit] = /has ([\d,]+) requests a day/.exec(fault)!;
  await noticeOf(page)
    .getByText(new RegExp(`has ${limit} requests a day.*is lifted`))
    .waitFor();
  await page.getByRole('table', { name: 'Last refusals' }).getByRole('link').first().click();
  await page.getByText(/was lifted .*x{200}/).waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0);
  await page.getByRole('button', { name: 'Undo the top-up of 30' }).click();
  await page.getByRole('button', { name: 'Undo the top-up of 30' }).waitFor({ state: 'detached' });
  await page.close();
});

test('Explain does not promise success to a key that is suspended', async () => {
  const page = await operator.context.newPage();
  const call = (path: string, data: object) =>
    admin.context.request.post(path, { data, headers: { Authorization: `Bearer ${stand.tokens.admin}` } });
  const headers = { Authorization: `Bearer ${stand.keys.refused.key}` };
  let refused = '';
  for (let i = 0; i < 400 && refused === ''; i++) {
    const response = await fetch(`${stand.gateways[0].origin}/v1/pets`, { headers });
    await response.arrayBuffer();
    if (response.status === 429) refused = response.headers.get('x-request-id')!;
  }
  const { id } = stand.keys.refused;
  await page.goto(`/console/explain/${refused}`);
  await page.getByRole('button', { name: 'Top up…' }).waitFor();
  expect((await call(`/admin/keys/${id}/suspend`, { reason: 'Ticket 9' })).ok()).toBe(true);
  await page.getByText(/Requests are refused now, because the key is suspended\./).waitFor();
  expect((await call(`/admin/keys/${id}/resume`, {})).ok()).toBe(true);
  await page.getByText(/because the key is suspended/).waitFor({ state: 'detached' });
  await page.close();
});

test('an operator tops up a window and reads the limit that it has now', async () => {
  const { page } = operator;
  await page.goto(`/console/keys/${stand.keys.banned.id}`);
  await page.getByRole('button', { name: 'Top up…' }).click();
  await dialogOf(page).getByLabel('Window').selectOption('day');
  await dialogOf(page).getByLabel('Requests to add').fill('500');
  await dialogOf(page).getByRole('button', { name: 'Top up' }).click();
  await noticeOf(page)
    .getByText(/has 1,500 requests a day until/)
    .waitFor();
  await page.getByText(/Topped up by 500/).waitFor();
  expect(await audited('Top up key', stand.keys.banned.id)).toContain(PEOPLE.operator);
});

test('an operator tops up until a moment with a reason, which the key shows, and undoes it with one click', async () => {
  const { page } = operator;
  const { id } = stand.keys.fine;
  await page.goto(`/console/keys/${id}`);
  await page.getByRole('button', { name: 'Top up…' }).click();
  const dialog = dialogOf(page);
  await dialog.getByLabel('Window').selectOption('day');
  await dialog.getByLabel('Requests to add').fill('700');
  await dialog.getByLabel('Ends').selectOption('on a date…');
  const end = new Date(Date.now() + 3 * 86_400_000).toISOString().slice(0, 16);
  await dialog.getByLabel('Date and time').fill(end);
  await dialog.getByLabel('Reason').fill('TICKET-12');
  await dialog.getByRole('button', { name: 'Top up' }).click();
  await page.getByText('TICKET-12', { exact: true }).first().waitFor();
  const until = await page
    .getByText(/Topped up by 700/)
    .locator('time')
    .getAttribute('datetime');
  expect(Date.parse(until!)).toBe(await page.evaluate((local) => Date.parse(local), end));
  expect(await audited('Top up key', id)).toContain('TICKET-12');
  await page.getByRole('button', { name: 'Undo the top-up of 700' }).click();
  await noticeOf(page)
    .getByText(/is undone: it has [0-9,]+ requests a day/)
    .waitFor();
  await page.getByText(/Topped up by 700/).waitFor({ state: 'detached' });
  expect(await audited('Undo top-up', id)).toContain(PEOPLE.operator);
});

test('an operator tops up until the end of today in a zone that the dialog names', async () => {
  const { page } = operator;
  await page.goto(`/console/keys/${stand.keys.fine.id}`);
  await page.getByRole('button', { name: 'Top up…' }).click();
  await dialogOf(page).getByLabel('Window').selectOption('day');
  await dialogOf(page).getByLabel('Requests to add').fill('300');
  await dialogOf(page).getByLabel('Ends').selectOption('at the end of today, UTC');
  await dialogOf(page).getByRole('button', { name: 'Top up' }).click();
  const until = await page
    .getByText(/Topped up by 300/)
    .locator('time')
    .getAttribute('datetime');
  expect(until).toContain('T00:00:00');
  await page.getByRole('button', { name: 'Undo the top-up of 300' }).click();
  await page.getByText(/Topped up by 300/).waitFor({ state: 'detached' });
});

test('an operator suspends a key until it is resumed: the list shows it, its caller gets 403, and the audit has the reason', async () => {
  const { page } = operator;
  const { id, key } = stand.keys.fine;
  const answers = async () => {
    const headers = { Authorization: `Bearer ${key}` };
    const each = stand.gateways.map(({ origin }) => fetch(`${origin}/v1/pets`, { headers }));
    return (await Promise.all(each)).map(({ status }) => status);
  };
  await page.goto(`/console/keys/${id}`);
  await more(page, 'Suspend…');
  await dialogOf(page).getByLabel('Reason').fill('An unpaid bill');
  for (const none of ['2099-13-01 10:00', '2099-02-30 10:00', 'soon', ' ']) {
    await dialogOf(page).getByLabel('Until', { exact: true }).fill(none);
    await dialogOf(page).getByRole('button', { name: 'Suspend' }).click();
    await dialogOf(page).getByRole('alert').getByText('Give a date and a time such as').waitFor();
    expect(await answers(), none).toEqual([200, 200]);
  }
  await dialogOf(page).getByRole('button', { name: 'tomorrow 09:00' }).click();
  expect(await dialogOf(page).getByLabel('Until', { exact: true }).inputValue()).toMatch(/^\d{4}-\d\d-\d\d 09:00$/);
  await dialogOf(page).getByLabel('Until', { exact: true }).fill('');
  await dialogOf(page).getByRole('button', { name: 'Suspend' }).click();
  await noticeOf(page).getByText('is suspended until it is resumed.').waitFor();
  await page.getByText('An unpaid bill', { exact: true }).waitFor();
  await eventually(async () => expect(await answers()).toEqual([403, 403]), SPARING);
  await page.goto(`/console/keys?q=${id}`);
  await page.getByRole('table').getByText('Suspended').waitFor();
  expect(await audited('Suspend key', id)).toMatch(new RegExp(`${PEOPLE.operator}[\\s\\S]*An unpaid bill`));
  await page.goto(`/console/keys/${id}`);
  await page.getByRole('button', { name: 'Resume…' }).click();
  await dialogOf(page).getByRole('button', { name: 'Resume' }).click();
  await noticeOf(page).getByText('is resumed.').waitFor();
  await page.getByRole('button', { name: 'Resume…' }).waitFor({ state: 'detached' });
  await eventually(async () => expect(await answers()).toEqual([200, 200]), SPARING);
  expect(await audited('Resume key', id)).toContain(PEOPLE.operator);
});

test('an operator rotates a secret: the new one is shown once and works, and is gone from the page afterwards', async () => {
  const { page } = operator;
  const { id, key: earlier } = stand.keys.fine;
  await page.goto(`/console/keys/${id}`);
  await page.getByRole('button', { name: 'Rotate…' }).click();
  await dialogOf(page).getByRole('button', { name: 'Rotate' }).click();
  await dialogOf(page).getByRole('alert').getByText('Say whether a secret was leaked.').waitFor();
  await dialogOf(page).getByLabel('No: the earlier secrets').check();
  await dialogOf(page).getByLabel('The earlier secrets work for').selectOption('0s');
  await dialogOf(page).getByRole('button', { name: 'Rotate' }).click();
  const secret = await dialogOf(page).getByLabel('Secret', { exact: true }).inputValue();
  const status = async (key: string) =>
    (await fetch(`${stand.gateways[0].origin}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } })).status;
  await eventually(async () => expect([await status(secret), await status(earlier)]).toEqual([200, 401]), SPARING);
  await page.keyboard.press('Escape');
  expect(await dialogOf(page).getByLabel('Secret', { exact: true }).inputValue()).toBe(secret);
  await dialogOf(page).getByRole('button', { name: 'Done' }).click();
  await noticeOf(page).getByText('The earlier secrets have ended.').waitFor();
  expect(await everythingIn(page)).not.toContain(secret);
  await page
    .locator('code', { hasText: secret.slice(-4) })
    .first()
    .waitFor();
  expect(await audited('Rotate secret', id)).toContain(PEOPLE.operator);
});

test('an operator ends one of two secrets, and all earlier ones of a key whose secret was leaked', async () => {
  const { page } = operator;
  const { id } = stand.keys.near;
  await page.goto(`/console/keys/${id}`);
  const secrets = page.getByRole('region', { name: 'Secrets' });
  const rotate = async (isLeaked: boolean) => {
    await page.getByRole('button', { name: 'Rotate…' }).click();
    await dialogOf(page)
      .getByLabel(isLeaked ? 'Yes: they end at once' : 'No: the earlier secrets')
      .check();
    await dialogOf(page).getByRole('button', { name: 'Rotate' }).click();
    const secret = await dialogOf(page).getByLabel('Secret', { exact: true }).inputValue();
    await dialogOf(page).getByRole('button', { name: 'Done' }).click();
    return secret.slice(-4);
  };
  const count = (rows: number) =>
    eventually(async () => expect(await secrets.getByRole('listitem').count()).toBe(rows));
  const second = await rotate(false);
  await count(2);
  await secrets.getByRole('button', { name: `End the secret ${second}` }).click();
  await dialogOf(page).getByText('This cannot be undone.').waitFor();
  await dialogOf(page).getByRole('button', { name: 'End for good' }).click();
  await noticeOf(page).getByText(`The secret …${second}`).waitFor();
  await count(1);
  expect(await audited('End secret', id)).toContain(PEOPLE.operator);
  await page.goto(`/console/keys/${id}`);
  await rotate(false);
  await count(2);
  await rotate(true);
  await noticeOf(page).getByText('The earlier secrets have ended.').waitFor();
  await count(1);
});

test('an edit over a change of somebody else saves nothing at first and keeps what was typed', async () => {
  const { page } = operator;
  const { id } = stand.keys.refused;
  await page.goto(`/console/keys/${id}`);
  await page.getByRole('button', { name: 'Edit…' }).click();
  await dialogOf(page).getByLabel('Notes').fill('Call before noon.');
  await dialogOf(page).getByLabel('A day').fill('4000');
  const other = await admin.context.request.patch(`/admin/keys/${id}`, {
    data: { owner: 'new@vet.example' },
    headers: { Authorization: `Bearer ${stand.tokens.admin}` },
  });
  expect(other.status()).toBe(200);
  await dialogOf(page).getByRole('button', { name: 'Save' }).click();
  await dialogOf(page)
    .getByText(/Someone changed this key meanwhile.*owner is now new@vet\.example/)
    .waitFor();
  expect(await dialogOf(page).getByLabel('Notes').inputValue()).toBe('Call before noon.');
  expect(await dialogOf(page).getByLabel('Owner').inputValue()).toBe('new@vet.example');
  await dialogOf(page).getByRole('button', { name: 'Save' }).click();
  await noticeOf(page).getByText('Vet clinic Berlin is changed.').waitFor();
  expect(await keyReport(id)).toMatchObject({
    owner: 'new@vet.example',
    notes: 'Call before noon.',
    ownLimits: { minute: 30, day: 4000 },
  });
  expect(await audited('Edit key', id)).toMatch(new RegExp(`${PEOPLE.operator}[\\s\\S]*day 4,000`));
});

test('an operator says what may be called with a key, reads it on its screen, and takes it back', async () => {
  const { page } = operator;
  const { id } = stand.keys.refused;
  await page.goto(`/console/keys/${id}`);
  for (const [text, shown] of [
    ['orders:read\norders:write\n', ['orders:read', 'orders:write']],
    ['', undefined],
  ] as const) {
    await page.getByRole('button', { name: 'Edit…' }).click();
    // The fold is open if it has a value.
    if (text !== '') await dialogOf(page).getByText('Who may call what').click();
    await dialogOf(page).getByLabel('Scopes').fill(text);
    await dialogOf(page)
      .getByLabel('Metadata')
      .fill(text === '' ? 'tier=gold' : 'team=blue\ntier=silver');
    await dialogOf(page).getByRole('button', { name: 'Save' }).click();
    const notice =
      text === '' ? 'Now: no scopes, new metadata.' : 'Now: scopes orders:read orders:write, new metadata.';
    await noticeOf(page).getByText(notice).waitFor();
    expect(await keyReport(id)).toMatchObject({
      meta: text === '' ? { tier: 'gold' } : { team: 'blue', tier: 'silver' },
    });
    expect((await keyReport(id)).scopes).toEqual(shown);
    const facts = page.locator('dl.facts', { hasText: 'Own limits' });
    await facts.getByText('orders:write').waitFor({ state: text === '' ? 'detached' : 'visible' });
  }
  expect(await audited('Edit key', id)).toMatch(/scopes[\s\S]*orders:write/);
});

test('an admin creates a key: its secret is shown once and is nowhere in the page afterwards', async () => {
  const { page } = admin;
  await page.goto('/console/keys');
  await page.getByRole('button', { name: 'Create key…' }).click();
  await dialogOf(page).getByLabel('Plan').selectOption('free');
  await dialogOf(page).getByLabel('Name').fill('Made on the console');
  await dialogOf(page).getByText('Who may call what').click();
  await dialogOf(page).getByLabel('Addresses').fill('192.0.2.1, 2001:db8::1 10.0.0.300');
  await dialogOf(page).getByText('Who may call what').click();
  await dialogOf(page).getByRole('button', { name: 'Create key' }).click();
  // The fault is said of the line, and its field is shown again.
  await dialogOf(page)
    .getByRole('alert')
    .getByText(/^Addresses, line 3: must be an IP address/)
    .waitFor();
  await dialogOf(page).getByLabel('Addresses').fill('');
  await dialogOf(page).getByRole('button', { name: 'Create key' }).click();
  const secret = await dialogOf(page).getByLabel('Secret', { exact: true }).inputValue();
  expect(secret).toMatch(/^tg_live_/);
  await dialogOf(page).getByText(`curl -H 'Authorization: Bearer ${secret}' ${stand.gateways[0].origin}/`).waitFor();
  await dialogOf(page).getByRole('button', { name: 'Done' }).click();
  await page.getByRole('heading', { level: 1, name: 'Made on the console' }).waitFor();
  expect(await everythingIn(page)).not.toContain(secret);
  const id = page.url().split('/').at(-1)!;
  expect(await audited('Create key', id)).toContain(PEOPLE.admin);
});

test('an operator revokes a key: the dialog says that it is for good, and every gateway refuses the key', async () => {
  const { page } = operator;
  const { id, key } = stand.keys.retiring;
  await page.goto(`/console/keys/${id}`);
  await more(page, 'Revoke…');
  await dialogOf(page).getByText('This cannot be undone.').waitFor();
  await dialogOf(page).getByRole('button', { name: 'Revoke for good' }).click();
  await noticeOf(page).getByText('Old mobile app is revoked.').waitFor();
  for (const { origin } of stand.gateways) {
    await eventually(async () => {
      const headers = { Authorization: `Bearer ${key}` };
      expect((await fetch(`${origin}/v1/pets`, { headers })).status).toBe(401);
    }, SPARING);
  }
  await page.getByRole('button', { name: 'Edit…' }).waitFor({ state: 'detached' });
  expect(await audited('Revoke key', id)).toContain(PEOPLE.operator);
});

test('an operation that no screen knows has its place in the menu, and a dialog of what it does and asks for', async () => {
  const { page } = operator;
  const { id } = stand.keys.app;
  const pardon = {
    line: 'POST /keys/{id}/suspend',
    role: 'operator',
    action: 'key.pardon',
    effect: 'It is pardoned.',
    fields: PAGE_OPERATIONS.find(({ action }) => action === 'key.suspend')!.fields,
  };
  const known = [
    ...PAGE_OPERATIONS,
    pardon,
    { ...pardon, role: 'admin', action: 'key.crown' },
    { ...pardon, action: 'key.acquit', endsBan: true },
  ];
  const { files } = await buildPage({ words: { ...PAGE_WORDS, operations: { OPERATIONS: known } } });
  // The scripts name each other by the hashes of their content, and the page names the first.
  await page.route('**/console/**', async (route) => {
    const name = new URL(route.request().url()).pathname.slice('/console/'.length);
    if (name.endsWith('.js')) return route.fulfill({ contentType: 'text/javascript', body: String(files.get(name)!) });
    if (!route.request().isNavigationRequest()) return route.continue();
    await route.fulfill({ response: await route.fetch(), body: String(files.get('index.html')!) });
  });
  await page.goto(`/console/keys/${id}`);
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('button', { name: 'Pardon…' }).waitFor();
  // The key is not banned.
  for (const other of ['Crown…', 'Acquit…']) expect(await page.getByRole('button', { name: other }).count()).toBe(0);
  await page.getByRole('button', { name: 'Pardon…' }).click();
  await dialogOf(page).getByText('It is pardoned.').waitFor();
  await dialogOf(page).getByLabel('Until', { exact: true }).fill('in 1 d');
  await dialogOf(page).getByLabel('Reason').fill('Easter');
  await dialogOf(page).getByRole('button', { name: 'Pardon' }).click();
  await noticeOf(page).getByText(': done.').waitFor();
  await page.getByText('Easter', { exact: true }).waitFor();
  await page.unrouteAll();
  await page.reload();
  // It was the operation by which keys are suspended.
  await more(page, 'Resume…');
  await dialogOf(page).getByRole('button', { name: 'Resume' }).click();
  await dialogOf(page).waitFor({ state: 'detached' });
});

test('an operator sees what a key used of a unit, which the address names, and tops it up', async () => {
  const { page } = operator;
  await page.goto(`/console/keys/${stand.keys.app.id}`);
  await page.getByText('month, bytes, shared by the customer').waitFor();
  const bytes = page.getByRole('group', { name: 'Counted in' }).getByRole('button', { name: 'bytes' });
  await bytes.click();
  await page.waitForURL(/[?]unit=bytes$/);
  await page.reload();
  await page.getByRole('group', { name: 'Counted in' }).getByRole('button', { name: 'bytes', pressed: true }).waitFor();
  await page.getByText('Table: Usage by hour').click();
  await page.getByRole('columnheader', { name: 'bytes' }).first().waitFor();
  await page.getByRole('button', { name: 'Top up…' }).click();
  await dialogOf(page).getByLabel('Window').selectOption('bytes-day');
  await dialogOf(page).getByLabel('Amount to add').fill('500');
  await dialogOf(page).getByRole('button', { name: 'Top up' }).click();
  await noticeOf(page).getByText('Acme app has 1,500,500 bytes a day until').waitFor();
});

test('an operator tops up and resets what the keys of a customer share, on the customer and not on a key', async () => {
  const { page } = operator;
  const { id, name } = stand.customer;
  await page.goto(`/console/keys/${stand.keys.app.id}`);
  await page.getByText('minute, shared by the customer').waitFor();
  await page.getByText('in flight, shared by the customer').waitFor();
  await page.getByRole('button', { name: 'Top up…' }).click();
  await dialogOf(page).getByText('on the screen of its customer').waitFor();
  expect(await dialogOf(page).getByLabel('Window').locator('option').allInnerTexts()).toHaveLength(2);
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name }).first().click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByRole('region', { name: 'Keys' }).getByRole('link', { name: 'Web shop' }).waitFor();
  await page.getByRole('button', { name: 'Top up…' }).click();
  await dialogOf(page).getByLabel('Window').selectOption('pet-minute');
  await dialogOf(page).getByLabel('Amount to add').fill('40');
  await dialogOf(page).getByRole('button', { name: 'Top up' }).click();
  await noticeOf(page).getByText(`${name} has 100 requests a minute, pet until`).waitFor();
  expect(await audited('Top up customer', id)).toContain(PEOPLE.operator);
  await page.getByRole('button', { name: 'Reset usage…' }).click();
  await dialogOf(page).getByRole('button', { name: 'Reset usage' }).click();
  await noticeOf(page)
    .getByText(`The usage of ${name} was reset: minute; day; minute, pet; day, bytes; month, bytes.`)
    .waitFor();
});

test('an operator moves a key to a customer and away again: its screen and its list name the customer', async () => {
  const { page } = operator;
  const { id } = stand.keys.near;
  const { id: customerId, name } = stand.customer;
  await page.goto(`/console/keys/${id}`);
  await more(page, 'Move…');
  await dialogOf(page).getByLabel('Customer').fill('acm');
  await page.locator(`#field-customer-list option[value="${customerId}"]`).waitFor({ state: 'attached' });
  await dialogOf(page).getByLabel('Customer').fill(customerId);
  await dialogOf(page).getByRole('button', { name: 'Move' }).click();
  await noticeOf(page).getByText(`Paws & Claws belongs to ${name} now, on the plan team.`).waitFor();
  await page.goto(`/console/keys?customer=${customerId}`);
  await page
    .getByRole('row', { name: /Paws & Claws/ })
    .getByRole('link', { name })
    .waitFor();
  await page.goto(`/console/keys/${id}`);
  await page.getByRole('button', { name: 'Edit…' }).click();
  await dialogOf(page).getByText(`It shares the plan and the limits of ${name}.`).waitFor();
  await dialogOf(page).getByLabel('Notes').fill('of Acme');
  await dialogOf(page).getByRole('button', { name: 'Save' }).click();
  await noticeOf(page).getByText('Paws & Claws is changed. Now: new notes.').waitFor();
  await more(page, 'Move…');
  await dialogOf(page).getByLabel('Customer').fill('');
  await dialogOf(page).getByLabel('Plan').selectOption('business');
  await dialogOf(page).getByRole('button', { name: 'Move' }).click();
  await noticeOf(page).getByText('belongs to no customer now, on the plan business.').waitFor();
  expect(await audited('Move key', id)).toContain(PEOPLE.operator);
});

test('an operator suspends a customer and resumes it: its keys get 403 meanwhile', async () => {
  const { page } = operator;
  const { id, name } = stand.customer;
  const headers = { Authorization: `Bearer ${stand.keys.app.key}` };
  const answers = () =>
    Promise.all(
      stand.gateways.map(async ({ origin }) => (await fetch(`${origin}/v1/pets`, { headers })).status === 403),
    );
  await page.goto(`/console/customers/${id}`);
  await more(page, 'Suspend…');
  await dialogOf(page).getByLabel('Reason').fill('An unpaid bill');
  await dialogOf(page).getByRole('button', { name: 'Suspend' }).click();
  await noticeOf(page).getByText(`${name} is suspended until it is resumed.`).waitFor();
  await page.getByText('An unpaid bill', { exact: true }).waitFor();
  await eventually(async () => expect(await answers()).toEqual([true, true]), SPARING);
  expect(await audited('Suspend customer', id)).toContain(PEOPLE.operator);
  await page.goto(`/console/customers/${id}`);
  await page.getByRole('button', { name: 'Resume…' }).click();
  await dialogOf(page).getByRole('button', { name: 'Resume' }).click();
  await noticeOf(page).getByText(`${name} is resumed.`).waitFor();
  await eventually(async () => expect(await answers()).toEqual([false, false]), SPARING);
});

test('an admin makes a customer with a key, changes its plan, and deletes it: the key ends with it', async () => {
  const { page } = admin;
  await page.goto('/console/customers');
  await page.getByRole('button', { name: 'Create customer…' }).click();
  await dialogOf(page).getByLabel('Plan').selectOption('free');
  await dialogOf(page).getByLabel('Name').fill('Zoo shops');
  await dialogOf(page).getByRole('button', { name: 'Create customer' }).click();
  await page.getByRole('heading', { level: 1, name: 'Zoo shops' }).waitFor();
  const id = page.url().split('/').at(-1)!;
  await page.getByRole('button', { name: 'Create key…' }).click();
  await dialogOf(page).getByLabel('Name').fill('Ticket shop');
  await dialogOf(page).getByRole('button', { name: 'Create key' }).click();
  const secret = await dialogOf(page).getByLabel('Secret', { exact: true }).inputValue();
  await dialogOf(page).getByRole('button', { name: 'Done' }).click();
  await page.getByRole('table', { name: 'Keys' }).getByRole('link', { name: 'Ticket shop' }).waitFor();
  const call = () => fetch(`${stand.gateways[1].origin}/v1/pets`, { headers: { Authorization: `Bearer ${secret}` } });
  expect((await call()).status).toBe(200);
  await page.getByRole('button', { name: 'Edit…' }).click();
  await dialogOf(page).getByLabel('Plan').selectOption('pro');
  await dialogOf(page).getByRole('button', { name: 'Save' }).click();
  await noticeOf(page).getByText('Zoo shops is changed. Now: plan pro.').waitFor();
  await eventually(async () => expect((await call()).headers.get('ratelimit-policy')).toContain('q=300'), SPARING);
  // The id opens the customer wherever it is typed.
  await page.goto('/console/keys');
  await page.getByRole('searchbox', { name: 'Search' }).fill(id);
  await page.getByRole('heading', { level: 1, name: 'Zoo shops' }).waitFor();
  await more(page, 'Delete…');
  await dialogOf(page).getByText('It has 1 key. To keep one, move it first.').waitFor();
  await dialogOf(page)
    .getByLabel(/Revoke its keys/)
    .check();
  await dialogOf(page).getByRole('button', { name: 'Delete for good' }).click();
  await noticeOf(page).getByText(`Zoo shops (${id}) is deleted. 1 key revoked with it.`).waitFor();
  await eventually(async () => expect((await call()).status).toBe(401), SPARING);
  expect(await audited('Delete customer', id)).toContain(PEOPLE.admin);
});

test('an operator sees what the response cache has done, and purges it of one route', async () => {
  const { page } = operator;
  await page.goto('/console/upstreams');
  const cache = page.getByRole('region', { name: 'Response cache' });
  await cache.getByText(/^Misses$/).waitFor();
  expect(await cache.innerText()).toMatch(/Hits\s+0\s+Misses\s+[1-9]/);
  await cache.getByRole('button', { name: 'Purge…' }).click();
  await dialogOf(page).getByLabel('Path').fill('no path');
  await dialogOf(page).getByRole('button', { name: 'Purge' }).click();
  await dialogOf(page)
    .getByRole('alert')
    .getByText(/^Path: must be a path such as/)
    .waitFor();
  await dialogOf(page).getByLabel('Path').fill('');
  await dialogOf(page).getByLabel('Route').fill('/v1/pets');
  await dialogOf(page).getByRole('button', { name: 'Purge' }).click();
  await noticeOf(page).getByText('The stored responses are removed.').waitFor();
  expect(await audited('Purge cache')).toMatch(new RegExp(`${PEOPLE.operator}[\\s\\S]*/v1/pets`));
});

test('a secret that is pasted into the search for customers stays out of the address', async () => {
  const { page } = viewer;
  await page.goto('/console/customers');
  await page.getByRole('searchbox', { name: 'Search' }).fill(stand.keys.shop.key);
  await page.getByText('This looks like the secret of a key. It was not sent.').waitFor();
  expect(page.url()).not.toContain('tg_live_');
  await page.getByRole('searchbox', { name: 'Search' }).fill('acme');
  await page.getByRole('link', { name: stand.customer.name }).waitFor();
});

test('a draft of plans shows a fault at its line, what differs, whom it touches and what it would have refused', async () => {
  const { page } = admin;
  await page.goto('/console/plans/edit');
  const text = page.getByLabel('Text of plans.yaml');
  const before = await readFile(join(stand.folder, 'plans.yaml'), 'utf8');
  // The coloured text stands where the text of the field is, or the caret would be beside it.
  await page.locator('.editor-line', { hasText: 'failed-authentication' }).waitFor();
  const [field, drawn] = await page.evaluate(() => {
    const widths = [...document.querySelectorAll('.editor-line code')].map(
      (line) => line.getBoundingClientRect().width,
    );
    return [document.querySelector('.editor textarea')!.scrollWidth, Math.max(...widths)] as const;
  });
  // The browser rounds the width of each coloured part: 2 px at the end of a line of 253 characters, of 7 px each.
  expect(Math.abs(field - drawn)).toBeLessThan(4);
  await text.fill(before.replace('minute: 60', 'minute: sixty'));
  const fault = page.getByRole('list', { name: 'Faults and warnings' }).getByRole('button').first();
  await fault.getByText('Line 3').waitFor();
  await fault.click();
  expect(
    await text.evaluate((area: HTMLTextAreaElement) => area.value.slice(0, area.selectionStart).split('\n').length),
  ).toBe(3);
  await text.fill(before);
  const form = page.getByRole('complementary', { name: 'Form' });
  // The form changes the text, and nothing else of it.
  await form.getByLabel('a minute').first().fill('5');
  await page.keyboard.press('Tab');
  await eventually(async () => expect(await text.inputValue()).toBe(before.replace('minute: 60', 'minute: 5')));
  await page.getByText('No faults').waitFor();
  await page.getByRole('button', { name: 'Compare' }).click();
  const change = page
    .getByRole('table', { name: /Changes of the draft/ })
    .getByRole('row')
    .nth(1);
  expect((await change.innerText()).replaceAll(/\s+/g, ' ')).toMatch(
    /^free Limit each minute limits\.minute ↓ Lowered 60 5 1\d keys$/,
  );
  const affected = page.getByRole('region', { name: 'Who is affected' });
  await affected.getByRole('button', { name: 'Show them' }).click();
  await affected
    .getByRole('row', { name: /Jo's pet shop/ })
    .getByText('minute 60 → 5')
    .waitFor();
  await page.getByRole('button', { name: 'Simulate' }).click();
  await page.getByLabel('Lines of a log, pasted').check();
  await page.getByLabel('Log lines').fill(stand.printed());
  await page.getByRole('button', { name: 'Run the simulation' }).click();
  await page.getByRole('heading', { name: 'What would have happened' }).waitFor();
  await page.getByText(/^\d+ more refused \(.* better for 0, worse for \d+ keys?\.$/).waitFor();
  await page.getByRole('heading', { name: 'Whom it concerns' }).waitFor();
  await page.getByRole('link', { name: "Jo's pet shop" }).first().waitFor();
  await page.getByRole('button', { name: 'Apply', exact: true }).click();
  const patch = await page.getByRole('region', { name: 'Patch of plans.yaml' }).innerText();
  expect(patch).toContain('-  free: { limits: { minute: 60, day: 1000 } }');
  expect(patch).toContain('+  free: { limits: { minute: 5, day: 1000 } }');
});

test('an admin writes the draft: it comes into force, and the audit says who wrote it', async () => {
  const { page } = admin;
  await page.getByRole('button', { name: 'Write plans.yaml…' }).click();
  await dialogOf(page).getByRole('button', { name: 'Write plans.yaml' }).click();
  await noticeOf(page)
    .getByText(/plans\.yaml is written, version \S+ It is in force/)
    .waitFor();
  expect(await readFile(join(stand.folder, 'plans.yaml'), 'utf8')).toContain('minute: 5,');
  await page.getByRole('row').filter({ hasText: 'free' }).getByText('5', { exact: true }).waitFor();
  expect(await audited('Write plans')).toContain(PEOPLE.admin);
});

test('a write over a change of somebody else writes nothing and leaves the draft', async () => {
  const { page } = admin;
  await page.getByRole('link', { name: 'Edit' }).first().click();
  const text = page.getByLabel('Text of plans.yaml');
  const mine = (await text.inputValue()).replace('minute: 5,', 'minute: 7,');
  await text.fill(mine);
  await page.getByText('No faults').waitFor();
  await page.getByRole('link', { name: /Apply/ }).click();
  await page.getByRole('button', { name: 'Write plans.yaml…' }).click();
  const headers = { Authorization: `Bearer ${stand.tokens.admin}` };
  const file = await admin.context.request.get('/admin/plans/file', { headers });
  const { text: theirs } = (await file.json()) as { text: string };
  const written = await admin.context.request.put('/admin/plans/file', {
    headers: { ...headers, 'If-Match': file.headers().etag! },
    data: { text: theirs.replace('minute: 5,', 'minute: 9,') },
  });
  expect(written.status()).toBe(200);
  await dialogOf(page).getByRole('button', { name: 'Write plans.yaml' }).click();
  await dialogOf(page)
    .getByText(/has changed since you began this draft, so nothing was written/)
    .waitFor();
  await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Keep my draft' }).click();
  expect(await readFile(join(stand.folder, 'plans.yaml'), 'utf8')).toContain('minute: 9,');
  await page.getByRole('link', { name: /^1? ?Edit/ }).click();
  expect(await text.inputValue()).toBe(mine);
});

test('an admin sees who put which plans into force, what differs, and restores a version', async () => {
  const { page } = admin;
  await page.getByRole('button', { name: 'Discard…' }).click();
  await dialogOf(page).getByRole('button', { name: 'Discard the draft' }).click();
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.goto('/console/plans');
  await page.getByRole('link', { name: 'History' }).click();
  const rows = page.getByRole('table', { name: /Versions of plans\.yaml/ }).getByRole('row');
  await eventually(async () => expect(await rows.nth(1).innerText()).toContain('In force'), SPARING);
  await rows.filter({ hasText: PEOPLE.admin }).last().getByRole('link').click();
  // What it changed: it is compared with the version before it, and with another one if that is chosen.
  const difference = page.getByRole('region', { name: /^Difference from/ });
  await difference.getByText(/^\+.*minute: 5,/).waitFor();
  expect(await difference.innerText()).not.toContain('minute: 9');
  const inForce = await page.getByRole('option', { name: /in force/ }).getAttribute('value');
  await page.getByLabel('Compared with').selectOption(inForce!);
  await difference.getByText(/^-.*minute: 9/).waitFor();
  await page
    .getByRole('region', { name: /^Text of plans\.yaml/ })
    .getByText('minute')
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'Restore…' }).click();
  await dialogOf(page).getByRole('region', { name: 'What restoring changes' }).getByText('minute: 5').waitFor();
  await dialogOf(page).getByRole('button', { name: 'Show them' }).click();
  await dialogOf(page)
    .getByRole('row', { name: /Jo's pet shop/ })
    .getByText('minute 9 → 5')
    .waitFor();
  await dialogOf(page).getByRole('button', { name: 'Restore' }).click();
  await noticeOf(page)
    .getByText(/plans\.yaml is version [0-9a-f]{12} again\. It is in force\./)
    .waitFor();
  expect(await readFile(join(stand.folder, 'plans.yaml'), 'utf8')).toContain('minute: 5,');
});

test('nothing on the way broke a rule of the content security policy or threw', () => {
  for (const { violations, errors } of [viewer, operator, admin]) expect([...violations, ...errors]).toEqual([]);
});

async function keyReport(id: string): Promise<{ readonly scopes?: readonly string[] }> {
  const headers = { Authorization: `Bearer ${stand.tokens.viewer}` };
  return (await fetch(`${stand.gateways[0].admin}/admin/keys/${id}`, { headers })).json();
}

/** The page's elements, and what its fields hold, once the dialog is gone. */
async function everythingIn(page: Page): Promise<string> {
  // The browser announces that a dialog is closed some time after it has closed it, and only then does the page remove it.
  await page.locator('dialog').waitFor({ state: 'detached' });
  return page.evaluate(() => {
    const fields = [...document.querySelectorAll<HTMLInputElement>('input, textarea, select')];
    return [document.documentElement.outerHTML, ...fields.map(({ value }) => value)].join('\n');
  });
}
