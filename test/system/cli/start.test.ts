import { execFile } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

import { demoKeys } from '../../../src/cli/start.ts';
import { urlOfListener } from '../../../src/io/listening.ts';
import { atEnd } from '../../support/endings.ts';
import { startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listening.ts';
import { type Running, startProcess, startTollgate, temporaryFolder } from '../../support/processes.ts';
import { testRedis } from '../../support/redis.ts';
import { entriesOf, runCommand as run } from '../../support/run-command.ts';
import { startUpstream } from '../../support/upstream.ts';

const ANY_PORTS = { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0' };
const PLANS = ['free', 'pro', 'business', 'enterprise'];

/** What `tollgate start` printed for the person before it. */
async function greeting(running: Running) {
  const [text] = await running.until(/^Tollgate {3}[\s\S]*Ctrl-C stops it\.$/m);
  const keys = new Map([...text.matchAll(/^ {2}(\w+) +(tg_live_\w{38})$/gm)].map((match) => [match[1]!, match[2]!]));
  const curl = /^ {2}(curl .*)$/m.exec(text)![1]!;
  const origin = /^Tollgate {3}(\S+)$/m.exec(text)![1]!;
  const admin = /^admin +(\S+)/m.exec(text)![1]!;
  const pets = /^pets +(\S+)/m.exec(text)![1]!;
  return { keys, curl, origin, admin, pets };
}

const shell = (line: string) =>
  new Promise<string>((resolve, reject) => {
    execFile('sh', ['-c', line], (error, stdout) => (error === null ? resolve(stdout) : reject(error)));
  });

/** A port that somebody else listens on. */
async function takenPort(): Promise<string> {
  const server = createServer();
  atEnd(() => server.close());
  return String((await listen(server)).port);
}

describe('npm start', () => {
  test('prints a key for each plan and a curl line that works when pasted, and ends on Ctrl-C', async () => {
    const TOLLGATE_DATA = await temporaryFolder();
    const running = startProcess('npm', ['start'], { env: { ...ANY_PORTS, TOLLGATE_DATA } });
    const { keys, curl, origin, admin, pets } = await greeting(running);
    expect([...keys.keys()]).toEqual(PLANS);
    expect(curl).toContain(keys.get('free'));

    const answer = await shell(curl);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r$/m);
    expect(answer).toMatch(/^X-RateLimit-Limit: 60\r$/im);
    expect(answer).toMatch(/^X-RateLimit-Remaining: 59\r$/im);
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toBeInstanceOf(Array);
    expect((await fetch(`${admin}/readyz`)).status).toBe(200);
    expect((await fetch(`${pets}/v1/pets`)).status).toBe(200);
    const enterprise = { headers: { Authorization: `Bearer ${keys.get('enterprise')}` } };
    const told = (await fetch(`${origin}/v1/pets`, enterprise)).headers.get('RateLimit-Policy');
    expect(told).toBe('"minute";q=1000;w=60, "day";q=100000;w=86400');

    // What a terminal does: every process of the group is told.
    process.kill(-running.pid, 'SIGINT');
    expect(await running.exit).toEqual({ code: 0, signal: null });
    // npm may have words of its own.
    expect(running.stderr.split('\n').filter((line) => line !== '' && !line.startsWith('npm'))).toEqual([]);
  });
});

describe('tollgate start', () => {
  test('with REDIS_URL beside a data folder that has keys, warns that those are not used, and how to move them', async () => {
    const TOLLGATE_DATA = await temporaryFolder();
    const REDIS = { REDIS_URL: (await testRedis()).url, KEY_PEPPER: 'a pepper only for the tests' };
    const start = async (store: object) => {
      const running = await startTollgate(['start'], { env: { ...ANY_PORTS, ...store, TOLLGATE_DATA } });
      await greeting(running);
      await running.stop();
      return running.stderr;
    };
    expect(await start(REDIS)).toBe('');
    expect(await start({})).toBe('');
    const commands = ['backup', 'restore'].map(
      (verb) => `\`TOLLGATE_DATA=${TOLLGATE_DATA} tollgate keys ${verb} FILE\``,
    );
    expect(await start(REDIS)).toBe(
      `warning: the keys are in Redis, as REDIS_URL says; those in ${TOLLGATE_DATA} are not used. To move them: ` +
        `${commands[0]} without REDIS_URL, then ${commands[1]} with it and, in KEY_PEPPER, the pepper of ${TOLLGATE_DATA}.\n`,
    );
  });

  test.each(['1', '2'])(
    'prints a link that signs in to the console until the process ends, and no token (WORKERS=%s)',
    async (WORKERS) => {
      const store =
        WORKERS === '2' ? { REDIS_URL: (await testRedis()).url, KEY_PEPPER: 'a pepper only for the tests' } : {};
      const env = { ...ANY_PORTS, ...store, WORKERS, TOLLGATE_DATA: await temporaryFolder() };
      const running = await startTollgate(['start'], { env });
      const { admin } = await greeting(running);
      const [, link, code] =
        /^console +(\S+\/console\/)#code=([\w-]{22,}) {2}\(signs you in on this machine until Tollgate stops\)$/m.exec(
          running.stdout,
        )!;
      expect(link).toBe(`${admin}/console/`);
      const signIn = (one = code) =>
        fetch(`${admin}/admin/session`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify({ code: one }),
        });
      const first = await signIn();
      expect([first.status, await first.json()]).toMatchObject([
        200,
        { name: 'npm start', role: 'admin', via: 'session' },
      ]);
      for (let i = 0; i < 3; i++) expect((await signIn()).status).toBe(200);
      expect((running.stdout + running.stderr).split(code!)).toHaveLength(2);

      // `ADMIN_PORT=0` names no port, so the address is given.
      const made = await run(env, 'console', '--url', admin, '--json');
      expect(made.code).toBe(0);
      const { url, expiresAt } = JSON.parse(made.stdout);
      expect(Date.parse(expiresAt) - Date.now()).toBeLessThanOrEqual(600_000);
      const [, newCode] = /^(?:\S+)\/console\/#code=([\w-]{44})$/.exec(url)!;
      const second = await signIn(newCode);
      const name = expect.stringMatching(/^shell \S+@\S+$/);
      expect([second.status, await second.json()]).toMatchObject([200, { name, role: 'admin', via: 'session' }]);
      const used = await signIn(newCode);
      expect([used.status, ((await used.json()) as { message: string }).message]).toEqual([
        401,
        expect.stringMatching(/^This sign-in link has been used or is too old\. Run `tollgate console` for a new one/),
      ]);
      await running.stop();
      const again = await startTollgate(['start'], { env: { ...env, ADMIN_PORT: new URL(admin).port } });
      await greeting(again);
      expect((await signIn()).status).toBe(401);
    },
  );

  test('whose admin port is not on loopback prints a link that signs in once, and how to make another', async () => {
    const env = { ...ANY_PORTS, ADMIN_HOST: '0.0.0.0', TOLLGATE_DATA: await temporaryFolder() };
    const running = await startTollgate(['start'], { env });
    const { admin } = await greeting(running);
    const [, code] = /#code=([\w-]{44}) {2}\(signs you in once, within 10 minutes\)\n +A new link: .* console$/m.exec(
      running.stdout,
    )!;
    const statuses: number[] = [];
    for (let i = 0; i < 2; i++) {
      const headers = { 'Content-Type': 'application/json' };
      const body = JSON.stringify({ code });
      statuses.push((await fetch(`${admin}/admin/session`, { method: 'POST', headers, body })).status);
    }
    expect(statuses).toEqual([200, 401]);
  });

  test('prints no code if the operator has a token, and `tollgate serve` prints none at all', async () => {
    const env = { ...ANY_PORTS, TOLLGATE_DATA: await temporaryFolder(), ADMIN_TOKEN: 'a-token-of-the-operator' };
    const running = await startTollgate(['start'], { env });
    const { admin } = await greeting(running);
    expect(running.stdout).toContain(`console    ${admin}/console/  (sign in with an admin token)`);
    expect(running.stdout).not.toMatch(/code=|a-token-of-the-operator/);
    const { origin } = await startUpstream();
    const served = await startGateway({ upstream: origin });
    expect((await fetch(`http://127.0.0.1:${served.adminPort}/console/`)).status).toBe(403);
    expect(served.process.stdout).not.toContain('code=');
  });

  test('has the same keys at the next start, in a file for its owner alone', async () => {
    const env = { ...ANY_PORTS, TOLLGATE_DATA: await temporaryFolder() };
    const first = await startTollgate(['start'], { env });
    const { keys, origin } = await greeting(first);
    expect(origin).toMatch(/^http:\/\/127\.0\.0\.1:/);
    const file = join(env.TOLLGATE_DATA, 'demo-keys.json');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(Object.fromEntries(keys));
    first.signal('SIGINT');
    expect(await first.exit).toEqual({ code: 0, signal: null });

    const second = await startTollgate(['start'], { env });
    const again = await greeting(second);
    expect(again.keys).toEqual(keys);
    expect(await shell(again.curl)).toMatch(/^HTTP\/1\.1 200 OK\r$/m);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    second.signal('SIGTERM');
    expect(await second.exit).toEqual({ code: 0, signal: null });
  });

  // Attack: somebody else has the port. A start that goes on without it seems to run.
  test.each(['PORT', 'ADMIN_PORT', 'PETS_PORT'])(
    'with %s in use says so in a sentence and fails (reliability 124)',
    async (name) => {
      const port = await takenPort();
      const TOLLGATE_DATA = await temporaryFolder();
      const running = await startTollgate(['start'], { env: { ...ANY_PORTS, TOLLGATE_DATA, [name]: port } });
      expect(await running.exit).toEqual({ code: 1, signal: null });
      expect(running.stderr).toMatch(new RegExp(`^[^\n]*cannot listen on 127\\.0\\.0\\.1:${port}[^\n]*\n$`, 'i'));
      expect(existsSync(join(TOLLGATE_DATA, 'demo-keys.json'))).toBe(false);
    },
  );

  test('with a port that is none says so, and starts nothing', async () => {
    const { code, stdout, stderr } = await run({ PETS_PORT: 'nine', TOLLGATE_DATA: await temporaryFolder() }, 'start');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^environment: PETS_PORT: .*nine.*\n$/);
  });

  test('says which targets of gateway.yaml its pets stand for, and stands for one upstream alone', async () => {
    const TOLLGATE_DATA = await temporaryFolder();
    const TOLLGATE_CONFIG = join(TOLLGATE_DATA, 'gateway.yaml');
    const env = { ...ANY_PORTS, TOLLGATE_DATA, TOLLGATE_CONFIG };
    const of = (names: readonly string[]) =>
      names.map((name) => `  ${name}: { targets: [http://${name}.internal:9100] }\n`).join('');
    const routes = (names: readonly string[]) =>
      names.map((name) => `  - { path: /${name}, methods: [GET], upstream: ${name} }\n`).join('');
    writeFileSync(TOLLGATE_CONFIG, `upstreams:\n${of(['shop'])}routes:\n${routes(['shop'])}`);
    const running = await startTollgate(['start'], { env });
    await running.until(
      /They stand for http:\/\/shop\.internal:9100 of gateway\.yaml, which `tollgate serve` forwards to/,
    );
    await running.stop();
    writeFileSync(TOLLGATE_CONFIG, `upstreams:\n${of(['shop', 'till'])}routes:\n${routes(['shop', 'till'])}`);
    expect(await run(env, 'start')).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/can stand for one upstream, and there are shop, till\. Run `tollgate serve`/),
    });
  });

  test('where a gateway already owns the store is refused, and its keys are not touched', async () => {
    const { env } = await startGateway({ upstream: (await startUpstream()).origin });
    const running = await startTollgate(['start'], { env: { ...env, ...ANY_PORTS } });
    expect(await running.exit).toEqual({ code: 1, signal: null });
    expect(running.stderr).toMatch(/^Another gateway owns the embedded store/);
    // `serve` has made none either.
    expect(existsSync(join(env.TOLLGATE_DATA!, 'demo-keys.json'))).toBe(false);
    expect(entriesOf((await run(env, 'keys', 'list', '--json')).stdout)).toEqual([]);
  });
});

test.each([
  ['127.0.0.1', 'http://127.0.0.1:80'],
  ['192.0.2.7', 'http://192.0.2.7:80'],
  ['0.0.0.0', 'http://127.0.0.1:80'],
  ['::', 'http://[::1]:80'],
  ['2001:db8::7', 'http://[2001:db8::7]:80'],
])('a gateway on %s is said to be at %s', (host, origin) => {
  expect(urlOfListener(host, 80)).toBe(origin);
});

describe('the demo keys', () => {
  const envWith = async (plans: string) => {
    const folder = await temporaryFolder();
    const file = join(folder, 'plans.yaml');
    writeFileSync(file, plans);
    return { TOLLGATE_DATA: join(folder, 'data'), TOLLGATE_PLANS: file, file };
  };
  const TWO = 'plans: { free: { limits: { minute: 60 } }, big: { limits: { minute: custom } } }\n';
  const secretsOf = async (env: NodeJS.ProcessEnv) => (await demoKeys(env)).map(({ key }) => key);
  const idOf = async (env: NodeJS.ProcessEnv, plan: string): Promise<string> => {
    const listed: { id: string; plan: string }[] = entriesOf((await run(env, 'keys', 'list', '--json')).stdout);
    return listed.find((key) => key.plan === plan)!.id;
  };

  test.each(['null', '[]', '"text"', 'no JSON', '{"free":5,"big":null}', '{"free":"tg_live_short"}'])(
    'are made anew where the file says %s',
    async (text) => {
      const env = await envWith(TWO);
      await demoKeys(env);
      writeFileSync(join(env.TOLLGATE_DATA, 'demo-keys.json'), text);
      const made = await secretsOf(env);
      expect(made.map((secret) => secret.slice(0, 8))).toEqual(['tg_live_', 'tg_live_']);
      expect(await secretsOf(env)).toEqual(made);
    },
  );

  test('that no longer work are replaced, each by itself', async () => {
    const env = await envWith(TWO);
    const [free, big] = await secretsOf(env);
    await run(env, 'keys', 'revoke', await idOf(env, 'free'));
    const [free2, big2] = await secretsOf(env);
    expect(free2).not.toBe(free);
    expect(big2).toBe(big);
    // Rotated without overlap: the kept secret has ended, though its key has not.
    await run(env, 'keys', 'rotate', await idOf(env, 'big'), '--overlap', '0s');
    const [free3, big3] = await secretsOf(env);
    expect(free3).toBe(free2);
    expect(big3).not.toBe(big2);
  });

  test('that the plan has outgrown are replaced: a window became custom, a plan was added', async () => {
    const env = await envWith(TWO);
    const [free, big] = await secretsOf(env);
    writeFileSync(
      env.file,
      'plans: { free: { limits: { minute: 60 } }, big: { limits: { minute: custom, hour: custom } }, new: { limits: { day: 1 } } }\n',
    );
    const after = await secretsOf(env);
    expect(after).toHaveLength(3);
    expect(after[0]).toBe(free);
    expect(after[1]).not.toBe(big);
  });
});
