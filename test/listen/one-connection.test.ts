import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { cutInto } from '../../tools/fuzz/mutate.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// A connection begins with a reader for the simplest requests and goes over to Node's parser with the first other one.
// Attack: where one reader leaves off and the other begins, a byte may be lost, read twice, or belong to the wrong request.

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream(async (request, response, recorded) => {
    await recorded.whole;
    response.setHeader('X-Saw', `${request.method} ${request.url} ${recorded.body.length}`);
    if (request.url?.includes('chunks')) {
      response.write('a');
      response.end('b');
    } else response.end(`${request.method} ${request.url}`);
  });
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=1000000', '--limit', 'day=1000000'));
});

interface Sent {
  readonly method: string;
  readonly bytes: string;
  /** What the upstream says that it saw; null where there is no such route. */
  readonly saw: string | null;
}

function sent(method: string, target: string, body: string | null = null, extra = ''): Sent {
  const fields = ['Host: a', `Authorization: Bearer ${key}`, ...(extra === '' ? [] : [extra])];
  if (body !== null) fields.push(`Content-Length: ${body.length}`);
  return {
    method,
    bytes: `${[`${method} ${target} HTTP/1.1`, ...fields].join('\r\n')}\r\n\r\n${body ?? ''}`,
    saw: target.startsWith('/v1/pets') ? `${method} ${target} ${body?.length ?? 0}` : null,
  };
}

const request = fc.record({
  method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST'),
  target: fc.constantFrom('/v1/pets', '/v1/pets?chunks', '/v1/pets?b=GET%20/', '/v1/none'),
  body: fc.constantFrom('', 'x', 'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n', 'b'.repeat(3_000)),
  extra: fc.constantFrom('', '', '', 'Connection: keep-alive', 'X-High: \xe9', 'Accept: \t*/* '),
});

/** What of the requests is answered: a refused one whose body had not all come ends the connection. */
function answeredOf(all: readonly Sent[], answers: number): readonly Sent[] {
  const mayEnd = all.findIndex(({ saw, method }) => saw === null && method === 'POST');
  return mayEnd === -1 || answers === all.length ? all : all.slice(0, Math.max(answers, mayEnd + 1));
}

test('any requests, in any pieces, are each read once, in their order, and answered in it (reliability 20, 22, 23)', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(request, { minLength: 1, maxLength: 6 }),
      fc.array(fc.nat({ max: 700 })),
      async (made, cuts) => {
        const all = made.map(({ method, target, body, extra }) =>
          sent(method, target, method === 'POST' ? body : null, extra),
        );
        const before = upstream.requests.length;
        const bytes = Buffer.from(all.map((it) => it.bytes).join(''), 'latin1');
        const methods = all.map(({ method }) => method);
        const { responses } = await rawExchange(gateway.port, cutInto(bytes, cuts), { until: all.length, methods });
        const answered = answeredOf(all, responses.length);
        expect(responses.map(({ status }) => status)).toEqual(answered.map(({ saw }) => (saw === null ? 404 : 200)));
        expect(responses.map((it) => it.header('x-saw'))).toEqual(answered.map(({ saw }) => saw));
        expect(upstream.requests.length - before).toBe(answered.filter(({ saw }) => saw !== null).length);
      },
    ),
    { numRuns: 200, seed: 20_261_121 },
  );
});

test('a connection that went over to the other reader stays usable, and so does the next one', async () => {
  for (let i = 0; i < 3; i++) {
    const all = [
      sent('GET', '/v1/pets'),
      sent('POST', '/v1/pets', 'body', 'X-High: \xe9'),
      sent('GET', '/v1/pets?chunks'),
      sent('HEAD', '/v1/pets'),
    ];
    const pieces = all.map(({ bytes }) => bytes);
    const methods = all.map(({ method }) => method);
    const { responses } = await rawExchange(gateway.port, pieces, { until: 4, methods, pauseMs: 20 });
    expect(responses.map((it) => it.header('x-saw'))).toEqual(all.map(({ saw }) => saw));
    expect(responses[2]?.body.toString()).toBe('ab');
  }
});

// Attack: a client sends on and on; what it sends must not be held without a bound, nor parsed ahead.
test('what is sent behind a request that has not been answered is held back, and served one request after the other', async () => {
  const first = sent('GET', '/v1/pets', null, `X-Long: ${'a'.repeat(1_000)}`).bytes;
  // Several times what a connection holds, so that the client has to wait.
  const many = 200;
  const { responses } = await rawExchange(gateway.port, first.repeat(many), { until: many, withinMs: 15_000 });
  expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: many }, () => 200));
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(/^tollgate_connections (\d+)/m.exec(metrics)?.[1]).toBe('0');
  });
});
