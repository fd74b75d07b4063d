import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stand, startStand } from '../../../tools/console/stand.ts';
import { launchBrowser, visit } from './console-visit.ts';

// What the keyboard does outside of fields, and in menus.

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
  await page.keyboard.press('g');
  await page.keyboard.press('k');
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
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
