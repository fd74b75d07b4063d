import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { offerSignIn, takeSignIn } from '../../src/operations/sign-in-links.ts';
import { openStore } from '../../src/serve/open-store.ts';
import { openWithAdmin, STORES } from '../admin/operator.ts';
import { freePort } from '../support/free-port.ts';
import { openGateway } from '../support/gateway.ts';
import { runCommand as run } from '../support/run-command.ts';
import { startUpstream } from '../support/upstream.ts';

const signIn = async (adminPort: number, code: string) => {
  const response = await fetch(`http://127.0.0.1:${adminPort}/admin/session`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ code }),
  });
  return { status: response.status, name: ((await response.json()) as { name?: string }).name };
};
const codeIn = (text: string) => /#code=(\S+)/.exec(text)![1]!;

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: Record<string, string>;
  beforeEach(async () => {
    env = await STORES[name]!();
  });

  test('`tollgate console` prints a link that signs in once at the gateway that runs on the store', async () => {
    const gateway = await openWithAdmin(env);
    const { code, stdout, stderr } = await run({ ...env, ADMIN_PORT: String(gateway.adminPort) }, 'console');
    expect([code, stdout, stderr]).toEqual([
      0,
      expect.stringMatching(`^http://127.0.0.1:${gateway.adminPort}/console/#code=[\\w-]{44}\\n$`),
      expect.stringMatching(/^This link signs in once, within 10 minutes, as an admin\. Gateways on \S.* take it\.\n$/),
    ]);
    const link = codeIn(stdout);
    expect(await signIn(gateway.adminPort, link)).toEqual({ status: 200, name: expect.stringMatching(/^shell \S+@/) });
    expect((await signIn(gateway.adminPort, link)).status).toBe(401);
    expect((await signIn(gateway.adminPort, 'x'.repeat(44))).status).toBe(401);
    expect(gateway.process.stdout + gateway.process.stderr).not.toContain(link);
  });

  test('a link that nobody uses is still there when the gateway starts, and is used up for every later gateway', async () => {
    const { code, stdout, stderr } = await run({ ...env, ADMIN_PORT: String(await freePort()) }, 'console');
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^warning: No gateway answers at /m)]);
    const first = await openWithAdmin(env);
    expect((await signIn(first.adminPort, codeIn(stdout))).status).toBe(200);
    await first.process.stop();
    const second = await openWithAdmin(env);
    expect((await signIn(second.adminPort, codeIn(stdout))).status).toBe(401);
  });

  test('of two sign-ins at once with one code, one succeeds; without the pepper or without the store none does', async () => {
    const store = await openStore(env, { missingStore: 'make' });
    const [keys, random] = [store.keys, randomBytes];
    const sources = { keys, peppers: store.peppers, random };
    const code = await offerSignIn('jo', sources);
    const taken = await Promise.all([1, 2, 3].map(() => takeSignIn(code, sources)));
    expect(taken.toSorted()).toEqual(['jo', null, null]);
    const other = { keys, peppers: ['another pepper'], random };
    expect(await takeSignIn(await offerSignIn('jo', other), sources)).toBeNull();
    const nowhere = { keys: { reserve: async (_: string, id: string) => id }, peppers: store.peppers, random };
    const forged = await offerSignIn('jo', nowhere);
    for (let i = 0; i < 2; i++) expect(await takeSignIn(forged, sources)).toBeNull();
    // During a change of the pepper.
    const both = { keys, peppers: ['a newer pepper', ...store.peppers], random };
    expect(await takeSignIn(await offerSignIn('jo', sources), both)).toBe('jo');
    await store.close();
  });
});

test('a code that was not made with the pepper costs the store nothing', async () => {
  const keys = {
    reserve: async () => {
      throw new Error('the store was asked');
    },
  };
  for (const code of ['', 'x', 'x'.repeat(44), 'x'.repeat(1_000)]) {
    expect(await takeSignIn(code, { keys, peppers: ['a pepper'], random: randomBytes })).toBeNull();
  }
});

test('where the console is off the command makes no link and says how it is switched on', async () => {
  const { origin } = await startUpstream();
  const gateway = await openGateway({ upstream: origin });
  const { code, stdout, stderr } = await gateway.command('console', '--url', `http://127.0.0.1:${gateway.adminPort}`);
  expect([code, stdout, stderr]).toEqual([
    1,
    '',
    expect.stringMatching(/^The console of .* is off\. Set ADMIN_TOKEN or /),
  ]);
});

test('--url must be an address', async () => {
  expect(await run({}, 'console', '--url', 'here')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^--url must be /),
  });
});
