import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { freePort } from '../support/free-port.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { startTollgate } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { paced } from '../support/room.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';
import { asking, HANDSHAKE, logged, WEBSOCKET_ROUTES } from '../support/web-sockets.ts';

const WARN = 40;
const INFO = 30;

/** The access line of the request with this id. */
const lineOf = (gateway: TestGateway, id: string) =>
  eventually(() => logged(gateway, 'request').find(({ requestId }) => requestId === id) ?? false);

/** The lines of the duration metric that count requests. */
async function durationCounts({ adminPort }: TestGateway): Promise<string[]> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  return [...text.matchAll(/^tollgate_request_duration_seconds_count(.*)$/gm)].map(([, told]) => told!);
}

const withId = (id: string, init: RequestInit = {}): RequestInit => ({ ...init, headers: { 'X-Request-Id': id } });

describe('a forwarded request is told with its upstream and the target that served it', () => {
  let gateway: TestGateway;
  let key: string;
  let targets: readonly string[];

  beforeAll(async () => {
    const started = await Promise.all(
      ['one', 'other'].map((name) => startUpstream((_request, response) => response.end(name))),
    );
    targets = started.map(({ origin }) => origin);
    gateway = await openGateway({ upstream: targets.join(', ') });
    ({ key } = await gateway.createKey('endless'));
  });

  /** Which target answered. */
  const targetOf = (text: string) => targets[text === 'one' ? 0 : 1];

  test('in the access line: of each request its own, whoever reads its head', async () => {
    const asks: Record<string, () => Promise<string>> = {
      // The gateway's own reader.
      fast: async () => (await gateway.get('/v1/pets', key, withId('fast'))).text(),
      'fast-again': async () => (await gateway.get('/v1/pets', key, withId('fast-again'))).text(),
      'whole-body': async () =>
        (await gateway.get('/v1/pets', key, withId('whole-body', { method: 'POST', body: '{}' }))).text(),
      // Node's: a body in chunks, in a second write.
      chunked: async () => {
        const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: chunked\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`;
        const { responses } = await rawExchange(gateway.port, [head, '1\r\na\r\n0\r\n\r\n'], { pauseMs: 20 });
        return responses[0]!.body.toString();
      },
    };
    const taken = new Set<unknown>();
    for (const [id, ask] of Object.entries(asks)) {
      const target = targetOf(await ask());
      expect(await lineOf(gateway, id)).toMatchObject({ level: INFO, status: 200, upstream: 'store', target });
      taken.add(target);
    }
    expect(taken.size).toBe(2);
  });

  test('in the duration metric, where requests that were not forwarded have `none`', async () => {
    const answers = await Promise.all(
      Array.from({ length: 10 }, async () => (await gateway.get('/v1/pets', key)).text()),
    );
    expect(new Set(answers.map(targetOf))).toEqual(new Set(targets));
    expect((await gateway.get('/v1/none', key)).status).toBe(404);
    const counts = await durationCounts(gateway);
    for (const target of targets) {
      for (const part of ['total', 'upstream', 'gateway']) {
        expect(counts.join('\n')).toContain(`{part="${part}",upstream="store",target="${target}"} `);
      }
    }
    expect(counts.join('\n')).toContain('{part="total",upstream="none",target="none"} ');
    expect(counts.join('\n')).not.toContain('{part="upstream",upstream="none"');
  });

  test('a request that was not forwarded has neither', async () => {
    await gateway.get('/v1/none', key, withId('not-forwarded'));
    expect(await lineOf(gateway, 'not-forwarded')).toMatchObject({
      level: INFO,
      status: 404,
      upstream: null,
      target: null,
    });
  });
});

describe('a request that its upstream failed: the line says where and why, at level warn, and the client learns neither', () => {
  const CAUSES = /127\.0\.0\.1|ECONN|SSH|store|within/;

  /** Asks for a path under its id and holds the answer to the promise that it names nothing inside. */
  async function ask(gateway: TestGateway, key: string, path: string, id: string): Promise<number> {
    const answer = await gateway.get(path, key, withId(id));
    expect(JSON.stringify([[...answer.headers], await answer.text()])).not.toMatch(CAUSES);
    return answer.status;
  }

  test('502 upstream_unavailable: a target that refuses connections, for a request and for a WebSocket', async () => {
    const origin = `http://127.0.0.1:${await freePort()}`;
    const gateway = await openGateway({ upstream: origin, routes: WEBSOCKET_ROUTES });
    const { key } = await gateway.createKey('endless');
    expect(await ask(gateway, key, '/v1/pets', 'plain')).toBe(502);
    const upgrade = asking(key, '/v1/live', `X-Request-Id: upgrade\r\n${HANDSHAKE}`);
    const { responses } = await rawExchange(gateway.port, upgrade, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([502]);
    expect(responses[0]!.body.toString()).not.toMatch(CAUSES);
    const told = { level: WARN, status: 502, upstream: 'store', target: origin };
    for (const id of ['plain', 'upgrade']) {
      expect(await lineOf(gateway, id)).toMatchObject({ ...told, cause: expect.stringContaining('ECONNREFUSED') });
    }
  });

  test('502 upstream_unavailable: of two targets it is the last that was taken', async () => {
    const refused = `http://127.0.0.1:${await freePort()}`;
    const broken = await startRawUpstream((socket) => socket.end('SSH-2.0-OpenSSH_9.2p1\r\n'));
    const gateway = await openGateway({ upstream: `${refused}, ${broken.origin}` });
    const { key } = await gateway.createKey('endless');
    expect(await ask(gateway, key, '/v1/pets', 'second')).toBe(502);
    const line = await lineOf(gateway, 'second');
    expect(line).toMatchObject({ level: WARN, upstream: 'store', target: broken.origin, cause: expect.any(String) });
  });

  test('504 upstream_timeout, and LOG_LEVEL warn: of all requests those with a 5xx have a line', async () => {
    const upstream = await startUpstream((request, response) => {
      if (!request.url?.includes('hold')) response.end('{}');
    });
    const gateway = await openGateway({
      upstream: upstream.origin,
      upstreamSettings: { responseTimeout: `${paced(500)}ms`, maxConnections: 1, maxQueue: 0, fairShare: 1 },
    });
    const { key } = await gateway.createKey('endless');
    await gateway.process.stop();
    // It does not say which port it has, so it gets the one that it had.
    const [PORT, ADMIN_PORT] = [String(gateway.port), String(gateway.adminPort)];
    const process = await startTollgate(['serve'], { env: { ...gateway.env, PORT, ADMIN_PORT, LOG_LEVEL: 'warn' } });
    const quiet = { ...gateway, process };
    await eventually(async () => expect((await fetch(`http://127.0.0.1:${ADMIN_PORT}/readyz`)).status).toBe(200));
    expect(await ask(quiet, key, '/v1/pets', 'well')).toBe(200);
    expect(await ask(quiet, key, '/v1/none', 'no-route')).toBe(404);
    expect((await quiet.get('/v1/pets', undefined, withId('no-key'))).status).toBe(401);
    const late = ask(quiet, key, '/v1/pets?hold', 'late');
    await eventually(() => expect(upstream.requests.some(({ url }) => url?.includes('hold'))).toBe(true));
    expect(await ask(quiet, key, '/v1/pets', 'too-many')).toBe(503);
    expect(await late).toBe(504);
    const told = { level: WARN, upstream: 'store' };
    expect(await lineOf(quiet, 'late')).toMatchObject({
      ...told,
      status: 504,
      target: upstream.origin,
      cause: `no head within ${paced(500)} ms`,
    });
    // There was no connection for it, so no target either.
    expect(await lineOf(quiet, 'too-many')).toMatchObject({ ...told, code: 'overloaded', target: null });
    expect(logged(quiet, 'request').map(({ requestId }) => requestId)).toEqual(['too-many', 'late']);
  });
});
