import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { launchChromium } from '../../../tools/console/chromium.ts';
import type { EmbeddedStand, Stand } from '../../../tools/console/stand.ts';
import { eventually } from '../../support/conditions.ts';
import { ROOM } from '../../support/room.ts';

// How the tests visit the console.

/** A name that resolves to this machine in the browser of the tests, as one that an attacker has rebound would. */
export const REBOUND = 'rebound.example';

export function launchBrowser(): Promise<Browser> {
  return launchChromium(`--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`);
}

/** A signed-in person with a browser profile of their own. */
export interface Visit {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What the Content Security Policy has stopped so far, as the browser reports it to the page and on its console. */
  readonly violations: readonly string[];
  /** Exceptions that the page did not catch. */
  readonly errors: readonly string[];
}

/** A profile at the console of a gateway. @param token signs in without the form; null: nobody is signed in */
export async function visit(
  browser: Browser,
  admin: string,
  token: string | null,
  options: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, baseURL: admin, ...options });
  context.setDefaultTimeout(3_000 * ROOM);
  const violations: string[] = [];
  const errors: string[] = [];
  await context.exposeBinding('cspViolated', (_source, text: string) => violations.push(text));
  await context.addInitScript(() => {
    document.addEventListener(
      'securitypolicyviolation',
      ({ violatedDirective, blockedURI, sourceFile, lineNumber }) => {
        const report = (window as unknown as { cspViolated(text: string): void }).cspViolated;
        report(`${document.URL}: ${violatedDirective} ${blockedURI} at ${sourceFile}:${lineNumber}`);
      },
    );
  });
  context.on('console', (message) => {
    if (/content security policy|trusted ?(types|html|script)/i.test(message.text())) violations.push(message.text());
  });
  context.on('weberror', (error) => errors.push(String(error.error().stack ?? error.error())));
  if (token !== null) {
    const response = await context.request.post('/admin/session', { data: { token } });
    if (!response.ok()) throw new Error(`The sign-in was refused: ${await response.text()}`);
  }
  return { context, page: await context.newPage(), violations, errors };
}

/** Signs in with the form. */
export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Admin token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

export interface Screen {
  readonly name: string;
  /** Below `/console`. */
  readonly path: string;
  /** Resolves when the screen shows its data. */
  readonly shown: (page: Page) => Promise<unknown>;
}

/** Every screen, and what it shows of a stand with callers. */
export function screensOf({ keys, customer, refusedRequestId }: Stand | EmbeddedStand): readonly Screen[] {
  const link = (name: string) => (page: Page) => page.getByRole('link', { name }).first().waitFor();
  const table = (caption: string | RegExp) => (page: Page) =>
    page.getByRole('table', { name: caption }).getByRole('row').nth(1).waitFor();
  return [
    { name: 'now', path: '/', shown: link("Jo's pet shop") },
    { name: 'keys', path: '/keys', shown: link('Paws & Claws') },
    { name: 'key', path: `/keys/${keys.banned.id}`, shown: (page) => page.getByRole('meter').first().waitFor() },
    { name: 'customers', path: '/customers', shown: link(customer.name) },
    {
      name: 'customer',
      path: `/customers/${customer.id}`,
      shown: (page) => page.getByRole('meter').first().waitFor(),
    },
    { name: 'plans', path: '/plans', shown: table('The plans in force') },
    {
      name: 'plans: edit',
      path: '/plans/edit',
      shown: (page) => page.getByText('No faults').waitFor(),
    },
    { name: 'plans: history', path: '/plans/history', shown: table(/Versions of plans/) },
    { name: 'explain', path: `/explain/${refusedRequestId()}`, shown: (page) => page.locator('.sentence').waitFor() },
    {
      name: 'traffic',
      path: '/traffic',
      // A gateway without a past reports its first minute when that is over.
      shown: (page) =>
        page.getByRole('table', { name: 'Requests by route' }).or(page.getByText('Nothing is known')).first().waitFor(),
    },
    { name: 'live', path: '/live', shown: table('Requests, newest first') },
    { name: 'upstreams', path: '/upstreams', shown: table('Targets of store') },
    { name: 'retiring', path: '/retiring', shown: link('Old mobile app') },
    { name: 'audit', path: '/audit', shown: table('Changes, newest first') },
  ];
}

/** Waits until the stand has a caller in every state. */
export async function untilDriven(stand: Stand | EmbeddedStand): Promise<void> {
  const headers = { Authorization: `Bearer ${stand.tokens.viewer}` };
  await eventually(
    async () => {
      const response = await fetch(`${stand.gateways[0].admin}/admin/now`, { headers });
      const { consumers: keys } = (await response.json()) as { consumers: readonly { id: string; state: string }[] };
      const isBanned = keys.some(({ id, state }) => id === stand.keys.banned.id && state === 'banned');
      return isBanned && stand.refusedRequestId() !== '';
    },
    { withinMs: 60_000, everyMs: 100 },
  );
  await fetch(`${stand.gateways[0].origin}/v1/pets/1`, {
    headers: { Authorization: `Bearer ${stand.keys.retiring.key}` },
  });
}

/** Opens one of the actions in the menu More of the screen of a key or a customer. */
export async function more(page: Page, action: string): Promise<void> {
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('button', { name: action }).click();
}
