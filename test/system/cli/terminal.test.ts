import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import {
  type Running,
  startProcess,
  startTollgate,
  TOLLGATE_IN_SHELL,
  temporaryFolder,
} from '../../support/processes.ts';
import { testRedis } from '../../support/redis.ts';

// Real processes on a real terminal: `script` of Debian's bsdutils, which every Debian has, runs a program in one.

const ANY_PORTS = { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0' };

/** Starts `tollgate ARGS` in a terminal. What it prints is in `stdout`; what is written to it is typed. */
async function inTerminal(
  args: string,
  {
    env = {},
    columns = 80,
  }: { readonly env?: Readonly<Record<string, string | undefined>>; readonly columns?: number } = {},
): Promise<Running> {
  const TOLLGATE_DATA = await temporaryFolder();
  const command = `stty cols ${columns} rows 24; exec ${TOLLGATE_IN_SHELL} ${args}`;
  const environment = { ...ANY_PORTS, TOLLGATE_DATA, TERM: 'xterm', ...env };
  return startProcess('script', ['-qec', command, '/dev/null'], { env: environment });
}

const CTRL_C = '\x03';
const COLOUR = /\x1b\[\d+m/g;

/** The rows that the terminal got, without colours. */
const rowsOf = ({ stdout }: Running) => stdout.replaceAll(COLOUR, '').split(/[\r\n]+/);

async function greeting(running: Running) {
  const [text] = await running.until(/^Tollgate {3}[\s\S]*Ctrl-C stops it\./m);
  const key = (plan: string) => new RegExp(`^ {2}${plan} +(tg_live_\\w{38})`, 'm').exec(text)![1]!;
  return { origin: /^Tollgate {3}(\S+)/m.exec(text)![1]!, key };
}

const get = (url: string, key: string) => fetch(url, { headers: { Authorization: `Bearer ${key}` } });

describe('on a terminal tollgate start', () => {
  test('prints a row for each request, says what to do about a refusal, and ends on Ctrl-C with a sum', async () => {
    const running = await inTerminal('start');
    const { origin, key } = await greeting(running);
    expect((await get(`${origin}/v1/pets?secret=1`, key('free'))).status).toBe(200);
    await running.until(/200\S* GET .*\/v1\/pets .*free, 59 left/);
    await fetch(`${origin}/v1/pets`);
    await running.until(/401\S* GET .*missing API key/);
    await running.until(/No valid key came/);
    const statuses = new Set<number>();
    for (let i = 0; i < 71; i++) statuses.add((await get(`${origin}/v1/pets`, key('free'))).status);
    expect(statuses).toContain(429);
    await running.until(/429\S* GET .*minute quota of plan free, again in \d+ s/);
    await running.until(/tollgate now/);
    await running.until(/bans lift key_/);
    running.write(CTRL_C);
    expect(await running.exit).toEqual({ code: 0, signal: null });
    const rows = rowsOf(running);
    expect(rows.filter((row) => row.startsWith('Stopped after '))).toEqual([
      expect.stringMatching(/^Stopped after \d+ s, 73 requests: 60 ok, 13 refused\.$/),
    ]);
    const requests = rows.filter((row) => /^\d\d:\d\d:\d\d \d{3} /.test(row));
    expect(requests.length).toBeGreaterThan(10);
    for (const row of requests) expect(row.length, row).toBeLessThan(80);
    expect(running.stdout).toContain('\x1b[32m200\x1b[39m');
    expect(running.stdout).not.toMatch(/"msg"|secret/);
  });

  test('prints the demo keys again when requests have moved them off the screen', async () => {
    const running = await inTerminal('start');
    const { origin, key } = await greeting(running);
    for (let i = 0; i < 40; i++) await get(`${origin}/v1/pets`, key('pro'));
    const [reminder] = await running.until(/Demo keys for http[\s\S]*enterprise +tg_live_\w{38}/);
    for (const plan of ['free', 'pro', 'business', 'enterprise']) expect(reminder).toContain(key(plan));
  });

  test.each(['1', '2'])(
    'prints rows and no control character of a client, however it sends them (WORKERS=%s)',
    async (WORKERS) => {
      const store =
        WORKERS === '2' ? { REDIS_URL: (await testRedis()).url, KEY_PEPPER: 'a pepper only for the tests' } : {};
      const running = await inTerminal('start', { env: { ...store, WORKERS, NO_COLOR: '1' }, columns: 120 });
      const { origin, key } = await greeting(running);
      const { port } = new URL(origin);
      const hostile = [
        '\x1b[2J',
        '\x1b]8;;http://evil\x07',
        '\u202e',
        '漢字',
        '😀',
        '%1b%5b31m',
        '\u009b31m',
        '\x08',
        '\r',
      ];
      for (const text of hostile) {
        const head = `GET /v1/pets/${text} HTTP/1.1\r\nHost: a\r\nX-Field: ${text}\r\nUser-Agent: ${text}\r\nConnection: close\r\nAuthorization: Bearer ${key('pro')}\r\n\r\n`;
        await new Promise((resolve) => {
          const socket = connect(Number(port), '127.0.0.1', () => socket.end(head));
          socket
            .on('error', () => {})
            .on('close', resolve)
            .resume();
        });
      }
      expect((await get(`${origin}/v1/pets/1`, key('pro'))).status).toBe(200);
      await running.until(/ 200 GET .*\/v1\/pets\/1 /);
      running.write(CTRL_C);
      expect(await running.exit).toEqual({ code: 0, signal: null });
      expect(running.stdout).toMatch(/^Stopped after .* requests?: /m);
      expect(running.stdout.replaceAll(/[\r\n]/g, '')).not.toMatch(/\p{Cc}|\p{Cf}/u);
    },
  );
});

describe('the log is JSON', () => {
  test('on a terminal with --json', async () => {
    const running = await inTerminal('start --json');
    const { origin, key } = await greeting(running);
    await get(`${origin}/v1/pets`, key('free'));
    const [line] = await running.until(/^\{"level":30.*"msg":"request"\}/m);
    expect(JSON.parse(line)).toMatchObject({ path: '/v1/pets', status: 200 });
    expect(line).not.toContain('retryAtMs');
    running.write(CTRL_C);
    expect(await running.exit).toEqual({ code: 0, signal: null });
    expect(running.stdout).not.toContain('Stopped after');
  });

  test('in a pipe, whatever FORCE_COLOR and TERM say', async () => {
    const env = { ...ANY_PORTS, FORCE_COLOR: '1', TERM: 'xterm' };
    const running = await startTollgate(['start'], { env });
    const { origin, key } = await greeting(running);
    await get(`${origin}/v1/pets`, key('free'));
    const [line] = await running.until(/^\{"level":30.*"msg":"request"\}/m);
    expect(line).not.toContain('retryAtMs');
    expect(running.stdout).not.toContain('\x1b');
  });
});
