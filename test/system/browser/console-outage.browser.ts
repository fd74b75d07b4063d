import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stand, startStand } from '../../../tools/console/stand.ts';
import { ROOM } from '../../support/room.ts';
import { launchBrowser, screensOf, untilDriven, type Visit, visit } from './console-visit.ts';

// Redis is killed while every screen is open, and comes back. One story: each test begins where the one before it ended.

/** On the screen Now with how long it has been. */
const AWAY = /The store (is|has been) away/;

let browser: Browser;
let stand: Stand;
let callers: { stop(): Promise<void> };
let admin: Visit;
/** By the name of the screen. */
const pages = new Map<string, Page>();
let dialogs: { create: Page; topUp: Page; edit: Page };
const draft = '# typed before the outage\n';

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand()]);
  callers = stand.drive();
  await untilDriven(stand);
  admin = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
  const open = async (path: string) => {
    const page = await admin.context.newPage();
    await page.goto(`/console${path}`);
    return page;
  };
  for (const { name, path, shown } of screensOf(stand)) {
    const page = await open(path);
    await shown(page);
    pages.set(name, page);
  }
  const [create, topUp, edit] = [
    await open('/keys'),
    await open(`/keys/${stand.keys.near.id}`),
    await open(`/keys/${stand.keys.fine.id}`),
  ];
  await create.getByRole('button', { name: 'Create key…' }).click();
  await create.getByRole('dialog').getByLabel('Plan').selectOption('pro');
  await create.getByRole('dialog').getByLabel('Name').fill('Typed before');
  await topUp.getByRole('button', { name: 'Top up…' }).click();
  await topUp.getByLabel('Window').selectOption('day');
  await topUp.getByLabel('Requests to add').fill('77');
  await edit.getByRole('button', { name: 'Edit…' }).click();
  await edit.getByRole('dialog').getByLabel('Notes').fill('Typed before');
  dialogs = { create, topUp, edit };
  await pages.get('plans: edit')!.getByLabel('Text of plans.yaml').pressSequentially(draft);
  await pages.get('audit')!.getByLabel('Actor').pressSequentially('ada');
});
afterAll(async () => {
  await callers?.stop();
  await browser?.close();
  await stand?.close();
});

test('while Redis is away, the screens with live data say so and keep what they showed', async () => {
  await stand.redis.kill();
  for (const name of ['now', 'upstreams', 'live', 'key']) await pages.get(name)!.getByText(AWAY).first().waitFor();
  await pages.get('now')!.getByText('cannot reach it').waitFor();
  await pages
    .get('now')!
    .getByText(/2 gateways when they were seen last/)
    .first()
    .waitFor();
  expect(await pages.get('now')!.getByRole('heading', { name: 'Gateways' }).count()).toBe(1);
  await pages.get('upstreams')!.getByRole('table', { name: 'Targets of store' }).waitFor();
  expect(await pages.get('live')!.getByRole('row').count()).toBeGreaterThan(1);
  expect(await pages.get('key')!.getByRole('meter').count()).toBeGreaterThan(1);
});

test('while Redis is away, a screen that is opened says so in place of its data', async () => {
  for (const [name, link] of [
    ['retiring', 'Retiring routes'],
    ['audit', 'Audit'],
    ['keys', 'Keys'],
  ] as const) {
    const page = await admin.context.newPage();
    await page.goto(`/console/${name}`);
    await page.getByRole('link', { name: link, exact: true }).waitFor();
    await page.getByRole('alert').getByText(AWAY).waitFor();
    await page.getByText('This page tries again by itself.').waitFor();
    pages.set(`${name}, opened in the outage`, page);
  }
  // What needs no store is there.
  const plans = await admin.context.newPage();
  await plans.goto('/console/plans');
  await plans.getByRole('table', { name: 'The plans in force' }).waitFor();
  await plans.close();
});

test('while Redis is away, a change is refused in words, and its dialog keeps what was typed', async () => {
  const { create, topUp, edit } = dialogs;
  for (const [page, action] of [
    [create, 'Create key'],
    [topUp, 'Top up'],
    [edit, 'Save'],
  ] as const) {
    await page.getByRole('dialog').getByRole('button', { name: action, exact: true }).click();
    await page.getByRole('dialog').getByRole('alert').waitFor();
  }
  expect(await create.getByRole('dialog').getByLabel('Name').inputValue()).toBe('Typed before');
  expect(await create.getByRole('dialog').getByLabel('Plan').inputValue()).toBe('pro');
  expect(await topUp.getByLabel('Requests to add').inputValue()).toBe('77');
  expect(await topUp.getByLabel('Window').inputValue()).toBe('day');
  expect(await edit.getByRole('dialog').getByLabel('Notes').inputValue()).toBe('Typed before');
});

test('when Redis is back, every screen recovers by itself and nothing typed is lost', async () => {
  await stand.redis.launchAgain({ keepData: true });
  for (const page of pages.values())
    await expect.poll(() => page.getByText(AWAY).count(), { timeout: 30_000 * ROOM }).toBe(0);
  for (const { name, shown } of screensOf(stand)) {
    await shown(pages.get(name)!);
    const opened = pages.get(`${name}, opened in the outage`);
    if (opened !== undefined) await shown(opened);
  }
  expect(await pages.get('plans: edit')!.getByLabel('Text of plans.yaml').inputValue()).toContain(draft);
  expect(await pages.get('audit')!.getByLabel('Actor').inputValue()).toBe('ada');
});

test('when Redis is back, the change that was refused goes through by the same button, once', async () => {
  const { create, topUp, edit } = dialogs;
  await create.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await create.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
  await create.getByRole('heading', { level: 1, name: 'Typed before' }).waitFor();
  await topUp.getByRole('dialog').getByRole('button', { name: 'Top up' }).click();
  await topUp.getByText(/has 100,077 requests a day/).waitFor();
  await edit.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await edit.getByText('Zoo of the North is changed.').waitFor();
  expect([...admin.violations, ...admin.errors]).toEqual([]);
});
