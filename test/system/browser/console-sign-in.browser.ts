import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PEOPLE, type Stand, startStand } from '../../../tools/console/stand.ts';
import { CLIENT, OpenIdProvider } from '../../admin/openid-provider.ts';
import { STORES, startWithAdmin } from '../../admin/operator.ts';
import { startTollgate } from '../../support/processes.ts';
import { ROOM } from '../../support/room.ts';
import { launchBrowser, signIn, visit } from './console-visit.ts';

// Who comes in, and until when.

let browser: Browser;
let stand: Stand;

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand()]);
});
afterAll(async () => {
  await browser?.close();
  await stand?.close();
});

const formOf = (page: Page) => page.getByRole('heading', { name: 'Sign in' });

test('the token of each role signs in, and the page says who is signed in with which role', async () => {
  for (const role of ['viewer', 'operator', 'admin'] as const) {
    const { context, page } = await visit(browser, stand.gateways[0].admin, null);
    await page.goto('/console/');
    await signIn(page, stand.tokens[role]);
    await page.getByRole('button', { name: `${PEOPLE[role]} ${role}` }).waitFor();
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
    expect(await page.evaluate(() => document.cookie)).toBe('');
    await context.close();
  }
});

test('a wrong token is refused in words and is not kept in the field', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, null);
  await page.goto('/console/keys');
  await signIn(page, 'not-the-token-of-anybody');
  await page.getByRole('alert').getByText('This is not an admin token.').waitFor();
  expect(await page.getByLabel('Admin token').inputValue()).toBe('');
  await context.close();
});

test('the link of npm start signs in again and again on loopback, and its code stays neither in the address nor in the history', async () => {
  const start = await startTollgate(['start'], { env: { PORT: '0', ADMIN_PORT: '0' } });
  const [, link, code] = await start.until(/console\s+(http\S+#code=(\S+))/, { withinMs: 30_000 });
  const { context, page } = await visit(browser, new URL(link!).origin, null);
  await page.goto(link!);
  await page.getByRole('heading', { name: 'Now' }).waitFor();
  const session = await context.newCDPSession(page);
  const { entries } = await session.send('Page.getNavigationHistory');
  expect([page.url(), ...entries.map(({ url }) => url)].join()).not.toContain(code);
  await context.close();

  const second = await visit(browser, new URL(link!).origin, null);
  await second.page.goto(link!);
  await second.page.getByRole('heading', { name: 'Now' }).waitFor();
  expect(second.page.url()).not.toContain(code);
  await second.context.close();
  await start.stop();
});

test('a session that ends under an open page shows the sign-in form, and who signs in again is where they were', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.operator);
  await page.goto(`/console/keys/${stand.keys.near.id}`);
  await page.getByRole('meter').first().waitFor();
  await endSession(context);
  await page.getByText('Your session has ended.').waitFor();
  await signIn(page, stand.tokens.operator);
  await page.getByRole('heading', { level: 1, name: 'Paws & Claws' }).waitFor();
  await context.close();
});

test('a draft of plans is still there after the session has ended and somebody has signed in again', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
  await page.goto('/console/plans/edit');
  await page.getByText('No faults').waitFor();
  const text = page.getByLabel('Text of plans.yaml');
  const draft = `${await text.inputValue()}# mine\n`;
  await endSession(context);
  await text.fill(draft);
  await page.getByText('Your session has ended.').waitFor();
  await signIn(page, stand.tokens.admin);
  await page.getByText('No faults').waitFor();
  expect(await text.inputValue()).toBe(draft);
  await context.close();
});

test('signing out asks before it loses a draft of plans, and loses nothing if the answer is no', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
  await page.goto('/console/plans/edit');
  await page.getByText('No faults').waitFor();
  const text = page.getByLabel('Text of plans.yaml');
  const draft = `${await text.inputValue()}# mine\n`;
  await text.fill(draft);
  const signOut = async () => {
    await page.getByRole('button', { name: PEOPLE.admin }).click();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('dialog').getByText('Your changes are in no file yet').waitFor();
  };
  await signOut();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('dialog').waitFor({ state: 'detached' });
  expect(await text.inputValue()).toBe(draft);
  expect((await context.request.get('/admin/session')).status()).toBe(200);
  await signOut();
  await page.getByRole('button', { name: 'Sign out and lose it' }).click();
  await formOf(page).waitFor();
  expect((await context.request.get('/admin/session')).status()).toBe(401);
  await context.close();
});

test('a stream of live data ends with the session, and the page asks to sign in', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.viewer);
  await page.goto('/console/live');
  await page.getByText('No request yet.').waitFor();
  await endSession(context);
  await page.getByText('Your session has ended.').waitFor();
  await context.close();
});

test('signing out everywhere ends the sessions on the other gateway too, and those of nobody else', async () => {
  const [a, b] = stand.gateways;
  const here = await visit(browser, a.admin, stand.tokens.viewer);
  const there = await visit(browser, b.admin, stand.tokens.viewer);
  const other = await visit(browser, b.admin, stand.tokens.admin);
  for (const { page } of [here, there, other]) {
    await page.goto('/console/');
    await page.getByRole('heading', { name: 'Gateways' }).waitFor();
  }
  await here.page.getByRole('button', { name: PEOPLE.viewer }).click();
  await here.page.getByRole('button', { name: 'Sign out everywhere' }).click();
  await formOf(here.page).waitFor();
  await formOf(there.page).waitFor();
  expect((await here.context.request.get('/admin/session')).status()).toBe(401);
  expect((await there.context.request.get('/admin/session')).status()).toBe(401);
  expect((await other.context.request.get('/admin/session')).status()).toBe(200);
  for (const { context } of [here, there, other]) await context.close();
});

test('too many wrong tokens are answered with how long to wait, and the right token still passes', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, null);
  await page.goto('/console/');
  await page.getByLabel('Admin token').waitFor();
  const wrong = () => context.request.post('/admin/session', { data: { token: 'a-guess-of-an-attacker' } });
  await Promise.all(Array.from({ length: 11 }, wrong));
  await signIn(page, 'a-guess-of-an-attacker');
  await page.getByText(/Too many wrong admin tokens have come\. Retry after \d+ s\./).waitFor();
  await signIn(page, stand.tokens.viewer);
  await page.getByRole('heading', { name: 'Now' }).waitFor();
  await context.close();
});

// Last, because the file of the tokens changes.
test('a token that is removed from the file ends the sessions that it began', async () => {
  const { context, page } = await visit(browser, stand.gateways[0].admin, stand.tokens.operator);
  await page.goto('/console/');
  await page.getByRole('heading', { name: 'Gateways' }).waitFor();
  const { viewer, admin } = stand.tokens;
  const listed = `- { name: vera, role: viewer, token: ${viewer} }\n- { name: ada, role: admin, token: ${admin} }\n`;
  await writeFile(join(stand.folder, 'tokens.yaml'), listed, { mode: 0o600 });
  await page.getByText('Your session has ended.').waitFor({ timeout: 30_000 * ROOM });
  await signIn(page, stand.tokens.operator);
  await page.getByRole('alert').waitFor();
  await context.close();
});

/** Ends the session of a profile as another client of the same person would. */
async function endSession(context: BrowserContext): Promise<void> {
  const [cookie] = await context.cookies();
  const response = await fetch(`${stand.gateways[0].admin}/admin/session`, {
    method: 'DELETE',
    headers: {
      Cookie: `${cookie!.name}=${cookie!.value}`,
      'Sec-Fetch-Site': 'same-origin',
      'Content-Type': 'application/json',
    },
  });
  expect(response.status).toBe(200);
}

test('a person signs in at an OpenID provider on another site, is where they were, and the code stays neither in the address nor in the history', async () => {
  const provider = await OpenIdProvider.start();
  const gateway = await startWithAdmin(await STORES['the embedded store']!(), {
    admin: {
      oidc: `{ name: Example, issuer: '${provider.issuer}', clientId: ${CLIENT.id}, roles: { support: operator } }`,
    },
  });
  // The provider is on 127.0.0.1, which is another site.
  const { context, page, errors, violations } = await visit(browser, `http://localhost:${gateway.adminPort}`, null);
  await page.goto('/console/keys?q=paws');
  await page.getByRole('button', { name: 'Sign in with Example' }).click();
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
  expect(new URL(page.url())).toMatchObject({ pathname: '/console/keys', search: '?q=paws' });
  await page.getByRole('button', { name: 'jo@example.com operator' }).waitFor();
  const session = await context.newCDPSession(page);
  const { entries } = await session.send('Page.getNavigationHistory');
  expect([page.url(), ...entries.map(({ url }) => url)].filter((url) => url.includes('code='))).toEqual([]);
  expect((await context.cookies()).map(({ name }) => name)).toEqual(['tollgate']);

  await context.clearCookies();
  provider.account = { sub: 'u-2', email: 'al@example.com', groups: ['other'] };
  await page.goto('/console/');
  await page.getByRole('button', { name: 'Sign in with Example' }).click();
  await page.getByRole('alert').getByText('The claim "groups" of your account at the provider gives no role').waitFor();
  expect([errors, violations]).toEqual([[], []]);
  await context.close();
});

test('a link with the response to a sign-in of somebody else signs nobody in, and leads nowhere else (reliability 505)', async () => {
  const provider = await OpenIdProvider.start();
  const gateway = await startWithAdmin(await STORES['the embedded store']!(), {
    admin: { oidc: `{ issuer: '${provider.issuer}', clientId: ${CLIENT.id}, roles: { support: operator } }` },
  });
  const origin = `http://localhost:${gateway.adminPort}`;
  const { context, page } = await visit(browser, origin, null);
  const attacker = await context.request.post(`${origin}/admin/session/oidc`, { headers: { Origin: origin } });
  const back = provider.consent((await attacker.json()).url);
  await context.clearCookies();
  await page.goto('/console/');
  for (const more of ['', '&return=https://evil.example', '&redirect_uri=//evil.example']) {
    await page.goto(back + more);
    await page.getByRole('alert').getByText('This sign-in did not begin in this browser').waitFor();
    expect(page.url()).toBe(`${origin}/console/`);
  }
  await context.close();
});
