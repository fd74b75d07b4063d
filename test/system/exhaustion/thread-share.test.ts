import { createConnection } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { PLANS, startGateway, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

/*
 * One key, or one address, keeps the thread busy that serves all, with requests that cost the gateway more than their
 * client. What is counted is how much of the attacker's work
 * waited for a turn, which a slow machine does not change. How long others wait is held by `test/io/thread-time.test.ts`.
 */

const CONNECTIONS = 200;
const REQUESTS = 30;

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
function flood(request: string, connections: number) {
  const seen = { answers: 0, isOver: false };
  const open = () => {
    if (seen.isOver) return;
    const socket = createConnection({ port: gateway.port, host: '127.0.0.1', noDelay: true });
    atEnd(() => socket.destroy());
    let left = 1;
    socket.setEncoding('latin1').on('data', (text: string) => {
      const answers = text.split('HTTP/1.1 ').length - 1;
      seen.answers += answers;
      left -= answers;
      if (seen.isOver) socket.destroy();
      else if (left <= 0) {
        left = 1;
        socket.write(request);
      }
    });
    socket.on('error', () => {});
    socket.on('close', open);
    socket.write(request);
  };
  for (let i = 0; i < connections; i++) open();
  return seen;
}

/** One request after another of a key. */
async function serve(): Promise<void> {
  for (let i = 0; i < REQUESTS; i++) {
    const answer = await gateway.get('/v1/pets', healthy);
    await answer.arrayBuffer();
    expect(answer.status).toBe(200);
  }
}

const waitsOf = () => metricOf(gateway.adminPort, 'tollgate_thread_waits_total');

describe('While a healthy key is served, the requests of the attacker wait for their turn (reliability 217)', () => {
  test.each([
    ['refusals from memory, of a banned key', () => get('/v1/pets', keyed(attacker))],
    ['/usage, which counts towards no limit', () => get('/usage', keyed(attacker))],
  ])('%s', async (_, request) => {
    const seen = flood(request(), CONNECTIONS);
    await serve();
    await eventually(() => expect(seen.answers).toBeGreaterThan(2 * CONNECTIONS));
    const [answers, waits] = [seen.answers, await waitsOf()];
    await serve();
    await eventually(() => expect(seen.answers).toBeGreaterThan(answers + 2 * CONNECTIONS));
    const more = seen.answers - answers;
    // How many of them arrive together, and so have to wait, depends on how fast this client is.
    expect((await waitsOf()) - waits).toBeGreaterThan(more / 10);
    seen.isOver = true;
    expect(await metricOf(gateway.adminPort, 'tollgate_thread_seconds_total')).toBeGreaterThan(0);
  });
});
