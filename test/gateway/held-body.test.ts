import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { HeldBodies, HeldBody, type HeldResult } from '../../src/gateway/held-body.ts';
import { HeldBytesBudget } from '../../src/io/held-bytes.ts';
import { type GatewaySetup, startGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream } from '../support/upstream.ts';

const MIB = 1024 * 1024;

async function held(budget: HeldBytesBudget, maxBytes: number, bytes: number, ends = true) {
  const source = new PassThrough({ highWaterMark: 80 * MIB });
  const { promise, resolve } = Promise.withResolvers<HeldResult>();
  const body = new HeldBody(source as unknown as IncomingMessage, maxBytes, budget, null, resolve);
  source.write(Buffer.alloc(bytes));
  if (ends) source.end();
  else source.destroy();
  return { body, result: await promise };
}

test('all bodies that are held together have a bound, and give their memory back (reliability 174)', async () => {
  const budget = new HeldBytesBudget();
  const first = await held(budget, 64 * MIB, 63 * MIB);
  expect(first.result.kind).toBe('whole');
  expect((await held(budget, 64 * MIB, 2 * MIB)).result.kind).toBe('no_room');
  first.body.release();
  first.body.release();
  const all = await held(budget, 64 * MIB, 64 * MIB);
  expect(all.result.kind).toBe('whole');
  expect((await held(budget, 64 * MIB, 1)).result.kind).toBe('no_room');
});

test('a body beyond its own bound takes no memory, nor one whose client left', async () => {
  const budget = new HeldBytesBudget();
  const large = await held(budget, 10, 11);
  expect(large.result.kind).toBe('too_large');
  const gone = await held(budget, MIB, 0, false);
  expect(gone.result.kind).toBe('gone');
  for (const { body } of [large, gone]) body.release();
  expect(budget.take(64 * MIB)).toBe(true);
});

test('consumers that hold all that they may leave room for a fifth (reliability 345)', () => {
  const bodies = new HeldBodies();
  const mibOf = (consumerId: string) => {
    const memory = bodies.of(consumerId, 16 * MIB);
    let count = 0;
    while (memory.take(MIB)) count++;
    return count;
  };
  expect(['key_1', 'key_2', 'key_3', 'key_4', 'key_5', 'key_6'].map(mibOf)).toEqual([16, 16, 16, 8, 4, 2]);
  bodies.of('key_1', 16 * MIB).release(16 * MIB);
  expect(mibOf('key_6')).toBe(8);
});

const DESCRIPTION = `
openapi: 3.0.3
info: { title: Texts, version: '1' }
paths:
  /a:
    post:
      requestBody: { required: true, content: { application/json: { schema: { type: string } } } }
      responses: { 200: { description: ok } }
`;

/** For a machine that is busy with other tests. */
const PATIENT = { withinMs: 20_000 };

/** A gateway that checks bodies of JSON, before a service that answers when it has the whole body. */
async function start(upstreamSettings: GatewaySetup['upstreamSettings'] = {}) {
  const file = join(await temporaryFolder(), 'openapi.yaml');
  writeFileSync(file, DESCRIPTION);
  const upstream = await startUpstream(async (_request, response, { whole }) => {
    if (await whole) response.end('ok');
  });
  const gateway = await startGateway({
    upstream: upstream.origin,
    upstreamSettings,
    listen: { drainTimeout: '1s' },
    routes: `\n  - { path: /a, methods: [POST], upstream: store, validate: ${file} }`,
  });
  const head = (key: string) =>
    `POST /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;
  return { upstream, gateway, head };
}

test('a body in chunks of one byte takes the memory of its bytes (reliability 192)', async () => {
  const { upstream, gateway, head } = await start();
  const { key } = await gateway.createKey('endless');
  const rssBytes = () =>
    Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.process.pid}/status`, 'utf8'))?.[1]) * 1024;
  const before = rssBytes();
  const body = `"${'x'.repeat(200_000)}"`;
  // As many of one byte as a body may have, and the rest in the smallest of which it may have any number.
  const pieces = [...body.slice(0, 4_900), ...(body.slice(4_900).match(/.{1,58}/g) ?? [])];
  const chunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('');
  const { responses } = await rawExchange(
    gateway.port,
    `${head(key)}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
    PATIENT,
  );
  expect(responses[0]?.status).toBe(200);
  expect(upstream.requests.at(-1)!.body.toString()).toBe(body);
  // As objects of their own, 200,000 chunks took 100 MB.
  expect(rssBytes() - before).toBeLessThan(50 * MIB);
});

test('one consumer holds at most its share of the memory, and another one is served (reliability 193)', async () => {
  // A twentieth of 64 MiB has room for three bodies of 1 MiB.
  const { gateway, head } = await start({ fairShare: 0.05 });
  const greedy = await gateway.createKey('endless');
  const other = await gateway.createKey('endless');
  const unfinished = `${head(greedy.key)}Content-Length: ${MIB}\r\n\r\n"${'x'.repeat(MIB - 10)}`;
  const refused = Promise.race([1, 2, 3, 4].map(() => rawExchange(gateway.port, unfinished, PATIENT)));
  expect((await refused).responses.map(({ status }) => status)).toEqual([503]);
  const text = `"${'x'.repeat(100_000)}"`;
  const { responses } = await rawExchange(
    gateway.port,
    `${head(other.key)}Content-Length: ${text.length}\r\n\r\n${text}`,
    PATIENT,
  );
  expect(responses[0]?.status).toBe(200);
});
