import { createConnection } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { PLANS, startGateway, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

/*
 * One key, or one address, keeps the thread busy that serves all, with requests that cost the gateway more than their
 * client. How long others wait for it is counted in answers to the attacker, which a slow machine does not change: without
 * turns a request waits at each of its steps for what is readable on all connections of the attacker.
 */

const CONNECTIONS = 200;
const DEPTH = 8;
const REQUESTS = 60;

let gateway: TestGateway;
let healthy: string;
let attacker: string;

beforeAll(async () => {
  const upstream = await startUpstream();
  const plans = PLANS.replace('first: 1m', 'first: 1h').replace(
    'small: { limits: { minute: 3,',
    'small: { limits: { minute: 1,',
  );
  gateway = await startGateway({ upstream: upstream.origin, plans });
  healthy = (await gateway.createKey('endless')).key;
  attacker = (await gateway.createKey('small')).key;
  for (let i = 0; i < 12; i++) await gateway.get('/v1/pets', attacker);
});

const get = (path: string, fields: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
const keyed = (key: string) => `Authorization: Bearer ${key}\r\n`;

/** Sends the same request again and again on many connections, and counts the answers. */
function flood(request: string, connections: number, depth: number) {
  const seen = { answers: 0, isOver: false };
  const block = request.repeat(depth);
  const open = () => {
    if (seen.isOver) return;
    const socket = createConnection({ port: gateway.port, host: '127.0.0.1', noDelay: true });
    atEnd(() => socket.destroy());
    let left = depth;
    socket.setEncoding('latin1').on('data', (text: string) => {
      const answers = text.split('HTTP/1.1 ').length - 1;
      seen.answers += answers;
      left -= answers;
      if (seen.isOver) socket.destroy();
      else if (left <= 0) {
        left = depth;
        socket.write(block);
      }
    });
    socket.on('error', () => {});
    socket.on('close', open);
    socket.write(block);
  };
  for (let i = 0; i < connections; i++) open();
  return seen;
}

/** One request after another of a key on a connection of its own. @returns the answers to the attacker meanwhile, by request */
async function served(seen: { readonly answers: number }): Promise<number[]> {
  const waits: number[] = [];
  for (let i = 0; i < REQUESTS; i++) {
    const before = seen.answers;
    const answer = await gateway.get('/v1/pets', healthy);
    await answer.arrayBuffer();
    expect(answer.status).toBe(200);
    waits.push(seen.answers - before);
  }
  return waits.toSorted((a, b) => a - b);
}

describe('A healthy key waits for fewer answers than the attacker has connections (reliability 218)', () => {
  test.each([
    ['refusals from memory, of a banned key', () => get('/v1/pets', keyed(attacker)), DEPTH],
    ['/usage, which counts towards no limit', () => get('/usage', keyed(attacker)), DEPTH],
    ['requests without a key of one address', () => get('/v1/pets', ''), 1],
  ])('%s', async (_, request, depth) => {
    const seen = flood(request(), CONNECTIONS, depth);
    await eventually(() => expect(seen.answers).toBeGreaterThan(2 * CONNECTIONS));
    const waits = await served(seen);
    seen.isOver = true;
    expect(waits[REQUESTS / 2]).toBeLessThan(CONNECTIONS);
  });

  test('and the gateway says what the attacker had of the thread', async () => {
    expect(await metricOf(gateway.adminPort, 'tollgate_thread_waits_total')).toBeGreaterThan(0);
    expect(await metricOf(gateway.adminPort, 'tollgate_thread_seconds_total')).toBeGreaterThan(0);
  });
});
