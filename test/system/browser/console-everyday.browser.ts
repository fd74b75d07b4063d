import { execFile } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stand, startStand } from '../../../tools/console/stand.ts';
import { eventually } from '../../support/conditions.ts';
import { launchBrowser, more, visit } from './console-visit.ts';

// What people use every day: the keyboard outside of fields and in menus, lists with selected rows and kept filters, and commands.

let browser: Browser;
let stand: Stand;

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand()]);
});
afterAll(async () => {
  await browser?.close();
  await stand?.close();
});

test('g and a letter go to a screen, ? lists every screen with its letter, and no letter in a field is a key', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.viewer);
  await page.goto('/console/audit');
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
  // Again, because a letter that comes late is no shortcut.
  await eventually(async () => {
    await page.keyboard.press('g');
    await page.keyboard.press('k');
    expect(await page.getByRole('heading', { level: 1, name: 'Keys' }).count()).toBe(1);
  });
  await page.keyboard.press('k');
  await page.keyboard.press('?');
  const list = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  const screens = await page.getByRole('navigation', { name: 'Screens' }).getByRole('link').allInnerTexts();
  const listed = await list.getByRole('term').allInnerTexts();
  expect(listed.slice(0, screens.length)).toEqual(screens.map((text) => text.split('\n')[0]!.trim()));
  const letters = await list.locator('dd').filter({ hasText: /^g./ }).allInnerTexts();
  expect(new Set(letters).size).toBe(screens.length);
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  await page.keyboard.press('Escape');
  await page.getByRole('searchbox').or(page.getByRole('textbox')).first().focus();
  await page.keyboard.type('ga?');
  expect(new URL(page.url()).pathname).toBe('/console/keys');
  expect(await list.count()).toBe(0);
  await context.close();
});

test('the shortcuts without Ctrl can be switched off, and the list is in the menu of the name', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.viewer);
  await page.goto('/console/audit');
  const account = page.getByRole('button', { name: 'viewer' });
  await account.click();
  await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
  await page.getByRole('checkbox').uncheck();
  await page.getByRole('button', { name: 'Close' }).click();
  expect(await account.evaluate((button) => button === document.activeElement)).toBe(true);
  await account.blur();
  for (const key of ['g', 'k', '?', '/']) await page.keyboard.press(key);
  expect(new URL(page.url()).pathname).toBe('/console/audit');
  expect(await page.getByRole('dialog').count()).toBe(0);
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog', { name: 'Find anything' }).waitFor();
  await context.close();
});

test('the arrow keys go through a menu, whose last entry, apart and red, ends the key for good', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
  await page.goto(`/console/keys/${stand.keys.near.id}`);
  const more = page.getByRole('button', { name: 'More' });
  await page.getByRole('meter').first().waitFor();
  await more.focus();
  await page.keyboard.press('ArrowDown');
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  await expect.poll(focused).toBe('Rotate the secret…');
  await page.keyboard.press('ArrowUp');
  expect(await focused()).toBe('Revoke…');
  const colourOf = (name: string) => page.getByRole('button', { name }).evaluate((one) => getComputedStyle(one).color);
  expect(await colourOf('Revoke…')).not.toBe(await colourOf('Move…'));
  await page.keyboard.press('Home');
  expect(await focused()).toBe('Rotate the secret…');
  await page.keyboard.press('Escape');
  expect(await more.evaluate((button) => button === document.activeElement)).toBe(true);
  await context.close();
});

test('a change is shown as a command with curl, which is not made until a shell runs it, and which has no token', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.operator);
  const { id } = stand.keys.near;
  await page.goto(`/console/keys/${id}`);
  await page.getByRole('meter').first().waitFor();
  await more(page, 'Suspend…');
  const dialog = page.getByRole('dialog');
  const reason = "it's `late` $HOME";
  await dialog.getByLabel('Reason').fill(reason);
  await dialog.getByRole('button', { name: 'As curl' }).click();
  const command = await dialog.getByRole('textbox', { name: 'The same for a shell' }).inputValue();
  expect(command).not.toContain(stand.tokens.operator);
  const suspended = async () => {
    const response = await context.request.get(`/admin/keys/${id}`);
    return (await response.json()).suspended;
  };
  expect(await suspended()).toBeUndefined();
  const env = { ...process.env, TOLLGATE_TOKEN: stand.tokens.operator };
  await promisify(execFile)('sh', ['-c', command], { env });
  expect(await suspended()).toMatchObject({ reason });
  await context.close();
});

test('rows that are selected are changed together, what fails of some is named, and they are saved as a file', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.operator);
  await page.goto('/console/keys?q=Shop%202');
  const table = page.getByRole('table', { name: 'Keys' });
  await table.getByRole('link', { name: 'Shop 29' }).waitFor();
  const selected = page.getByRole('region', { name: 'Selected' });
  const selectAll = () => page.getByRole('checkbox', { name: 'Select all that are shown' }).check();
  await selectAll();
  const rows = (await table.getByRole('row').count()) - 1;
  expect(rows).toBeGreaterThan(10);
  await selected.getByText(`${rows} keys selected`).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    selected.getByRole('button', { name: 'Download as CSV' }).click(),
  ]);
  const lines = (await text(await download.createReadStream())).trim().split('\r\n');
  expect(lines).toHaveLength(rows + 1);
  await selected.getByRole('button', { name: 'Suspend…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Reason').fill('All at once');
  await dialog.getByRole('button', { name: 'Suspend', exact: true }).click();
  await page.getByText(`Suspend: done for ${rows} of ${rows} keys.`).waitFor();
  await expect.poll(() => table.getByText('Suspended').count()).toBe(rows);
  expect(await selected.count()).toBe(0);
  await table.getByRole('checkbox').nth(1).check();
  await selected.getByText('1 key selected').waitFor();
  await selected.getByRole('button', { name: 'Lift…' }).click();
  await dialog.getByRole('button', { name: 'Lift', exact: true }).click();
  await dialog.getByText('done for 0 of 1 key. Not for:').waitFor();
  await dialog.getByRole('button', { name: 'Done' }).click();
  await selectAll();
  await selected.getByRole('button', { name: 'Resume…' }).click();
  await dialog.getByRole('button', { name: 'Resume', exact: true }).click();
  await expect.poll(() => table.getByText('Suspended').count()).toBe(0);
  await context.close();
});

test('filters are kept by a name, found again on the same screen, and forgotten', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.viewer);
  await page.goto('/console/keys?q=Shop');
  await page.getByLabel('Plan').selectOption('pro');
  await page.waitForURL(/q=Shop&plan=pro$/);
  const menu = page.getByRole('button', { name: 'Saved filters' });
  await menu.click();
  await page.getByLabel('Name of these filters').fill('Shops that pay');
  await page.getByRole('button', { name: 'Save these filters' }).click();
  await page.goto('/console/audit');
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
  expect(await menu.count()).toBe(0);
  await page.goto('/console/keys');
  await menu.click();
  await page.getByRole('button', { name: 'Shops that pay', exact: true }).click();
  await page.waitForURL(/q=Shop&plan=pro$/);
  await menu.click();
  await page.getByRole('button', { name: 'Forget Shops that pay' }).click();
  await page.getByRole('button', { name: 'Clear filters' }).click();
  await menu.waitFor({ state: 'detached' });
  await context.close();
});

test('a request is copied as a command with curl, without a key, a query and a body', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.viewer);
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: stand.gateways[0].admin });
  await page.goto('/console/live');
  await page.getByText('No request yet.').waitFor();
  const { origin } = stand.gateways[1];
  const button = page.getByRole('button', { name: 'Copy as curl' }).first();
  // Other gateways take part within a second or two.
  await eventually(async () => {
    await fetch(`${origin}/v1/pets?limit=3`, { headers: { Authorization: `Bearer ${stand.keys.near.key}` } });
    await button.waitFor({ timeout: 1_000 });
  });
  await button.click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  expect(command).toMatch(/^curl 'http:\/\/[^ ']+:\d+\/v1\/pets' -H "Authorization: Bearer \$TOLLGATE_KEY"$/);
  const { stdout } = await promisify(execFile)('sh', ['-c', command], {
    env: { ...process.env, TOLLGATE_KEY: stand.keys.near.key },
  });
  expect(JSON.parse(stdout)).toBeTypeOf('object');
  await context.close();
});
