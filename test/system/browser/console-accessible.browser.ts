import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stand, startStand } from '../../../tools/console/stand.ts';
import { ROOM } from '../../support/room.ts';
import { launchBrowser, screensOf, untilDriven, type Visit, visit } from './console-visit.ts';

// The console by keyboard, by screen reader, on a phone, magnified, in the dark and without motion (WCAG 2.2 AA).

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WIDE = { width: 1280, height: 900 };
const PHONE = { width: 320, height: 800 };
/** What a window of 1280 by 1024 pixels has at a zoom of 400 %. */
const MAGNIFIED = { width: 320, height: 256 };

let browser: Browser;
let stand: Stand;
let callers: { stop(): Promise<void> };
let admin: Visit;

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand({ firstBan: '1h' })]);
  callers = stand.drive();
  await untilDriven(stand);
  // axe needs what the policy forbids. That the page needs nothing of it is the guarantee of another file.
  admin = await visit(browser, stand.gateways[0].admin, stand.tokens.admin, {
    bypassCSP: true,
    reducedMotion: 'reduce',
  });
});
afterAll(async () => {
  await callers?.stop();
  await browser?.close();
  await stand?.close();
});

/** What axe finds in the page, light and dark, wide and narrow, and how far the page scrolls sideways where it is narrow. */
async function faultsOf(page: Page, what: string): Promise<string[]> {
  const faults: string[] = [];
  if (await page.evaluate(() => !('axe' in window))) await page.evaluate(AXE);
  for (const viewport of [WIDE, PHONE]) {
    await page.setViewportSize(viewport);
    // The buttons of a dialog cover what can be scrolled away from under them.
    await page.evaluate(() => document.querySelector('dialog[open]')?.scrollTo(0, 100_000));
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      // The other rules do not depend on colours.
      const violations = await page.evaluate(async (colorScheme) => {
        const { run } = (window as unknown as { axe: typeof axe }).axe;
        const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
        const runOnly = colorScheme === 'light' ? tags : { type: 'rule' as const, values: ['color-contrast'] };
        const found = await run(document, { runOnly, resultTypes: ['violations'] });
        return found.violations.flatMap(({ id, nodes }) =>
          nodes.slice(0, 3).map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
        );
      }, colorScheme);
      faults.push(...violations.map((text) => `${what}, ${viewport.width} px, ${colorScheme}: ${text}`));
    }
  }
  for (const viewport of [PHONE, MAGNIFIED]) {
    await page.setViewportSize(viewport);
    const beyond = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      const dialog = document.querySelector('dialog[open]');
      return Math.max(scrollWidth - clientWidth, dialog === null ? 0 : dialog.scrollWidth - dialog.clientWidth);
    });
    if (beyond > 0) faults.push(`${what} scrolls sideways by ${beyond} px at ${viewport.width}x${viewport.height}`);
  }
  await page.setViewportSize(WIDE);
  return faults;
}

test('no screen has a fault that axe finds, light or dark, at 1280 and 320 px, and none scrolls sideways', async () => {
  const { page } = admin;
  const faults: string[] = [];
  for (const { name, path, shown } of screensOf(stand)) {
    await page.goto(`/console${path}`);
    await shown(page);
    // Hundreds of rows that are alike would only take time.
    if (name === 'live') await page.getByRole('button', { name: 'Pause' }).click();
    faults.push(...(await faultsOf(page, name)));
  }
  expect(faults).toEqual([]);
});

test('the steps of a draft of plans have no such fault either', async () => {
  const { page } = admin;
  const faults: string[] = [];
  await page.goto('/console/plans/edit');
  await page.getByText('No faults').waitFor();
  const text = page.getByLabel('Text of plans.yaml');
  const before = await text.inputValue();
  await text.fill(before.replace('minute: 60', 'minute: sixty'));
  await page.getByRole('list', { name: 'Faults and warnings' }).waitFor();
  faults.push(...(await faultsOf(page, 'an edit with a fault')));
  await text.fill(before.replace('minute: 60', 'minute: 5'));
  await page.getByText('No faults').waitFor();
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.getByRole('table', { name: /Changes of the draft/ }).waitFor();
  await page.getByRole('button', { name: 'Show them' }).first().click();
  faults.push(...(await faultsOf(page, 'compare')));
  await page.getByRole('button', { name: 'Simulate' }).click();
  await page.getByLabel('Lines of a log, pasted').check();
  await page.getByLabel('Log lines').fill(aFewRequests());
  await page.getByRole('button', { name: 'Run the simulation' }).click();
  await page.getByRole('heading', { name: 'What would have happened' }).waitFor();
  faults.push(...(await faultsOf(page, 'simulate')));
  await page.getByRole('button', { name: 'Apply', exact: true }).click();
  await page.getByRole('region', { name: 'Patch of plans.yaml' }).waitFor();
  faults.push(...(await faultsOf(page, 'apply')));
  await page.getByRole('button', { name: 'Write plans.yaml…' }).click();
  faults.push(...(await faultsOf(page, 'write')));
  await confirm(page, 'Write plans.yaml');
  expect(faults).toEqual([]);
});

test('the history of plans has no such fault either', async () => {
  const { page } = admin;
  const faults: string[] = [];
  await page.goto('/console/plans/history');
  const versions = page.getByRole('table', { name: /Versions of plans\.yaml/ }).getByRole('row');
  await versions.nth(2).waitFor();
  faults.push(...(await faultsOf(page, 'the history')));
  await versions.nth(2).getByRole('link').click();
  await page.getByText('It is the first version that is kept.').waitFor();
  const inForce = await page.getByRole('option', { name: /in force/ }).getAttribute('value');
  await page.getByLabel('Compared with').selectOption(inForce!);
  await page.getByRole('region', { name: /^Difference from/ }).waitFor();
  faults.push(...(await faultsOf(page, 'a version')));
  await page.getByRole('button', { name: 'Restore…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Show them' }).first().click();
  faults.push(...(await faultsOf(page, 'restore')));
  await confirm(page, 'Restore');
  expect(faults).toEqual([]);
});

test('no empty state, no error and no menu has such a fault', async () => {
  const { page } = admin;
  const faults: string[] = [];
  for (const [path, text] of [
    ['/nowhere', 'There is no such screen'],
    ['/keys/key_0000000000000000', 'There is no'],
    ['/customers/cus_0000000000000000', 'There is no'],
    ['/keys?q=zzz', 'No key'],
    ['/customers?q=zzz', 'No customer'],
    ['/explain', 'Why was a request refused?'],
    ['/explain/never-seen', 'No refusal with this id is known.'],
    ['/plans/history/000000000000', 'No version'],
  ] as const) {
    await page.goto(`/console${path}`);
    await page.getByText(text).first().waitFor();
    faults.push(...(await faultsOf(page, path)));
  }
  await page.getByRole('button', { name: /^Find anything/ }).click();
  await page.getByRole('combobox', { name: 'Find' }).fill('pet');
  await page.getByRole('option', { name: /Jo's pet shop/ }).waitFor();
  faults.push(...(await faultsOf(page, 'the finder')));
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: /admin$/ }).click();
  await page.getByRole('button', { name: 'Sign out', exact: true }).waitFor();
  faults.push(...(await faultsOf(page, 'the account menu')));
  await page.keyboard.press('Escape');
  expect(faults).toEqual([]);
});

test('no dialog has such a fault, nor the sign-in form', async () => {
  const { page } = admin;
  const faults: string[] = [];
  const look = async (opener: string | RegExp, what: string) => {
    await page.getByRole('button', { name: opener }).first().click();
    await page.getByRole('dialog').getByRole('button').first().waitFor();
    faults.push(...(await faultsOf(page, what)));
    await page.keyboard.press('Escape');
    await page.locator('dialog').waitFor({ state: 'detached' });
  };
  await page.goto('/console/keys');
  await look('Create key…', 'create');
  await page.getByRole('checkbox', { name: 'Select row 1', exact: true }).check();
  faults.push(...(await faultsOf(page, 'a selection')));
  await look('Suspend…', 'suspend several');
  await page.goto(`/console/keys/${stand.keys.banned.id}`);
  await page.getByRole('meter').first().waitFor();
  for (const name of ['Edit…', 'Lift the ban…', 'Top up…', 'Reset usage…']) await look(name, name);
  for (const name of ['Move…', 'Suspend…', 'Revoke…']) {
    await page.getByRole('button', { name: 'More' }).click();
    faults.push(...(await faultsOf(page, `the menu before ${name}`)));
    await look(name, name);
  }
  await page.getByRole('button', { name: 'Rotate…' }).click();
  await page.getByRole('dialog').getByLabel('No: the earlier secrets').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
  await page.getByRole('dialog').getByLabel('Secret', { exact: true }).waitFor();
  faults.push(...(await faultsOf(page, 'a new secret')));
  await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
  const stranger = await visit(browser, stand.gateways[0].admin, null, { bypassCSP: true });
  await stranger.page.goto('/console/');
  await stranger.page.getByLabel('Admin token').waitFor();
  faults.push(...(await faultsOf(stranger.page, 'sign-in')));
  await stranger.context.close();
  expect(faults).toEqual([]);
});

test('with the keyboard alone, an operator signs in, reaches Lift, confirms, and the focus is not lost', async () => {
  const { context, page } = await visit(browser, stand.gateways[1].admin, null);
  await page.goto('/console/');
  await page.getByLabel('Admin token').waitFor();
  await tabTo(page, 'Admin token');
  await page.keyboard.type(stand.tokens.operator);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: "Lift the ban of Jo's pet shop" }).waitFor();
  await tabTo(page, "Lift the ban of Jo's pet shop");
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  expect(await focused(page)).toBe("Lift the ban of Jo's pet shop");
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await tabTo(page, 'Lift the ban');
  await page.keyboard.press('Enter');
  await page.getByText("The ban of Jo's pet shop is lifted.").waitFor();
  await page.locator('dialog').waitFor({ state: 'detached' });
  // Its button goes with the row; the focus is at the heading then, and not at the top of the page.
  await page.getByRole('button', { name: "Lift the ban of Jo's pet shop" }).waitFor({ state: 'detached' });
  await expect.poll(() => focused(page), { timeout: 15_000 * ROOM }).toBe('Now');
  await context.close();
});

test('the focus stays where it is while live data come in', async () => {
  const { page } = admin;
  await page.goto('/console/');
  const chart = page.getByRole('img', { name: /Requests by verdict/ });
  await chart.waitFor();
  await chart.focus();
  await page.keyboard.press('ArrowLeft');
  await page.getByText('Table: Requests by verdict').focus();
  const name = await focused(page);
  const figure = page.locator('figure.chart .legend');
  const before = await figure.innerText();
  await expect.poll(() => figure.innerText(), { timeout: 15_000 * ROOM }).not.toBe(before);
  expect(await focused(page)).toBe(name);
  await page.goto('/console/live');
  const caller = page
    .getByRole('table', { name: /Requests/ })
    .getByRole('link')
    .first();
  await caller.focus();
  const row = await focused(page);
  await page.getByText(/[1-9]\d* waiting/).waitFor();
  expect(await focused(page)).toBe(row);
  await page.getByText('Held while the focus is in the table').waitFor();
});

test('with reduced motion asked for, nothing moves by itself', async () => {
  const { page } = admin;
  await page.goto('/console/');
  await page.getByRole('heading', { name: 'Gateways' }).waitFor();
  const moving = await page.evaluate(() => {
    const probe = Object.assign(document.createElement('span'), { className: 'spinner' });
    document.body.append(probe);
    const running = document.getAnimations().filter(({ effect }) => Number(effect?.getComputedTiming().duration) > 10);
    probe.remove();
    return running.length;
  });
  expect(moving).toBe(0);
});

/** Confirms the open dialog by the button of this name. */
async function confirm(page: Page, name: string): Promise<void> {
  await page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
  await page.locator('dialog').waitFor({ state: 'detached' });
}

/** Lines of the log of the stand. */
function aFewRequests(): string {
  const lines = stand.printed().split('\n');
  return lines
    .filter((line) => line.endsWith('"msg":"request"}'))
    .slice(0, 300)
    .join('\n');
}

/** The name of the element that has the focus. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const { activeElement: element } = document;
    const label = element instanceof HTMLInputElement ? element.labels?.[0]?.textContent : null;
    return (label ?? element?.getAttribute('aria-label') ?? element?.textContent ?? '').trim();
  });
}

/** Presses Tab until the element of this name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    if ((await focused(page)) === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not reach "${name}"`);
}
