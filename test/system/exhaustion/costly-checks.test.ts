import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { startUpstream } from '../../support/upstream.ts';

// What requests of one key may take of the thread that serves all, on a route with `validate`.

const MIB = 1024 * 1024;
/** RE2JS leaves its automaton for it, and tries 500 instructions at each character. */
const PATTERN = '^.+@.{1,255}$';
const DESCRIPTION = {
  openapi: '3.1.0',
  info: { title: 'Attacked', version: '1' },
  paths: {
    '/a': {
      get: { parameters: [{ name: 'q', in: 'query', schema: { type: 'string', pattern: PATTERN } }], responses: {} },
      post: {
        requestBody: {
          content: {
            'application/json': {
              schema: {
                type: 'object',
                properties: { texts: { type: 'array', items: { type: 'string', pattern: PATTERN } } },
              },
            },
          },
        },
        responses: {},
      },
    },
  },
};
/** No turn of the event loop may take longer than this, in milliseconds of the processor, beside what it takes anyway. */
const MAX_TURN_MS = 50;
/** For a machine that is busy with other tests. */
const PATIENT = { withinMs: 60_000 };

const repeated = (unit: string, bytes = MIB) => `{"x":[${`${unit},`.repeat((bytes - 20) / (unit.length + 1))}0]}`;
/** A text without a period, so that each character leads to another state of an automaton. */
function mixed(length: number, seed = 0): string {
  let state = seed;
  const next = () => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff;
    return 'a@b1'[(state >> 16) % 4];
  };
  return Array.from({ length }, next).join('');
}

const LISTS = repeated('['.repeat(60) + ']'.repeat(60));
const BODIES = {
  'lists within lists': LISTS,
  'objects within objects': repeated(`${'{"":'.repeat(60)}0${'}'.repeat(60)}`),
  'empty objects': repeated('{}'),
  'many names': `{${Array.from({ length: 90_000 }, (_, i) => `"k${i}":0`).join()}}`,
  'lists of 64 KiB, which are checked at once': repeated('[[[[[[[[[[0]]]]]]]]]]', 64 * 1024),
  'texts for a costly pattern': JSON.stringify({ texts: Array.from({ length: 60 }, (_, i) => mixed(16_383, i)) }),
  'short texts for a costly pattern': JSON.stringify({ texts: Array.from({ length: 600 }, (_, i) => mixed(100, i)) }),
};

interface Started {
  readonly gateway: TestGateway;
  /** @returns the status of the response */
  readonly send: (line: string, body?: string) => Promise<number | undefined>;
}

async function start(options: string): Promise<Started> {
  const file = join(await temporaryFolder(), 'openapi.json');
  await writeFile(file, JSON.stringify(DESCRIPTION));
  const upstream = await startUpstream(async (_request, response, { whole }) => {
    if (await whole) response.end('ok');
  });
  const gateway = await startGateway({
    upstream: upstream.origin,
    routes: `\n  - { path: /a, methods: [GET, POST], upstream: store, validate: ${file} }\n  - { path: /b, methods: [GET, POST], upstream: store }`,
    env: { NODE_OPTIONS: `${options} --disable-warning=ExperimentalWarning` },
  });
  const { key } = await gateway.createKey('endless');
  const send = (line: string, body = '') =>
    rawExchange(
      gateway.port,
      `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
        `${body === '' ? '' : `Content-Length: ${body.length}\r\n`}\r\n${body}`,
      PATIENT,
    ).then(({ responses }) => responses[0]?.status);
  return { gateway, send };
}

/** The longest turn since it was last asked, in milliseconds of the processor. */
async function longestTurnMs({ process: running }: TestGateway): Promise<number> {
  const before = running.stderr.length;
  process.kill(running.pid, 'SIGUSR2');
  return eventually(() => {
    const [, ms] = /longest turn ([0-9.]+) ms/.exec(running.stderr.slice(before)) ?? [];
    expect(ms).toBeDefined();
    return Number(ms);
  });
}

describe('no turn of the event loop takes long, whatever is to be checked', () => {
  let gateway: TestGateway;
  let send: Started['send'];
  let usualMs: number;
  const times = (count: number, line: string, body?: string) =>
    Promise.all(Array.from({ length: count }, () => send(line, body)));

  beforeAll(async () => {
    ({ gateway, send } = await start(`--import ${join(import.meta.dirname, '../../support/longest-turn.ts')}`));
    // What comes once: code that is compiled, the heap that grows.
    await times(8, 'POST /a', '{"texts":["a@b"]}');
    await longestTurnMs(gateway);
    await times(8, 'POST /b', LISTS);
    usualMs = await longestTurnMs(gateway);
  });

  test.each(Object.entries(BODIES))('eight bodies at once: %s (reliability 208)', async (_what, body) => {
    const statuses = await times(8, 'POST /a', body);
    expect(await longestTurnMs(gateway)).toBeLessThan(MAX_TURN_MS + usualMs);
    for (const status of statuses) expect([200, 400]).toContain(status);
  });

  test('thirty queries for a pattern without an automaton (reliability 207)', async () => {
    const statuses = await times(30, `GET /a?q=${mixed(8_000)}`);
    expect(await longestTurnMs(gateway)).toBeLessThan(MAX_TURN_MS + usualMs);
    expect(new Set(statuses)).toEqual(new Set([400]));
    expect(await send('GET /a?q=someone.else@example.com')).toBe(200);
  });
});

test.each(['lists within lists', 'objects within objects', 'empty objects'] as const)(
  'sixteen bodies of %s do not end a gateway with little memory (reliability 209)',
  async (kind) => {
    const { send } = await start('--max-old-space-size=128');
    const statuses = await Promise.all(Array.from({ length: 16 }, () => send('POST /a', BODIES[kind])));
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(await send('GET /b')).toBe(200);
  },
);
