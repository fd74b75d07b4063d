import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../support/conditions.ts';
import { askHttp2, metricsOf, openHttp2, startEncrypted } from '../../../support/encrypted.ts';
import {
  CODE,
  FLAG,
  fieldBlock,
  frame,
  PREFACE,
  pseudo,
  settings,
  TYPE,
  uint32,
} from '../../../support/http2-frames.ts';
import { openRawSession } from '../../../support/raw-http2.ts';
import { startUpstream, type Upstream } from '../../../support/upstream.ts';

// A client that says GOAWAY, and what it sends behind it.

let upstream: Upstream;
let it: Awaited<ReturnType<typeof startEncrypted>>;
let key: string;
let release: () => void;
let answered: Promise<void>;

beforeAll(async () => {
  upstream = await startUpstream(async (request, response) => {
    if (request.url?.includes('hold')) await answered;
    response.end('{}');
  });
  it = await startEncrypted({ upstream: upstream.origin, listen: { maxConnectionsPerAddress: 64 } });
  ({ key } = await it.gateway.createKey('endless'));
});

const WHOLE = FLAG.END_HEADERS | FLAG.END_STREAM;
const goaway = (code = 0) => frame(TYPE.GOAWAY, 0, 0, Buffer.concat([uint32(0), uint32(code)]));
const get = (stream: number, path: string, authorization = `Bearer ${key}`) =>
  frame(TYPE.HEADERS, WHOLE, stream, fieldBlock([...pseudo(path), ['authorization', authorization]]));

/** No session, socket, stream or request is left. */
async function expectNothingLeft(): Promise<void> {
  await eventually(
    async () => {
      const metrics = await metricsOf(it.gateway);
      expect(metrics).toMatch(/^tollgate_connections 0$/m);
      expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
      expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 0$/m);
    },
    { withinMs: 8_000 },
  );
  expect(it.gateway.process.stderr).toBe('');
}

// Attack: 129 bytes keep a session, its stream and its socket for ever; 10,000 of them shut everybody else out.
test.each([
  ['DATA on stream 0', frame(TYPE.DATA, 0, 0, 'x')],
  ['a PING of five bytes', frame(TYPE.PING, 0, 0, 'short')],
  ['a field block that cannot be unpacked', frame(TYPE.HEADERS, WHOLE, 3, '\xff\xff\xff\xff\xff\xff')],
  ['a frame of an unknown type that is too long', frame(0x42, 0, 0, Buffer.alloc(20_000))],
  ['WINDOW_UPDATE by nothing', frame(TYPE.WINDOW_UPDATE, 0, 0, uint32(0))],
  ['another GOAWAY, with an error', goaway(CODE.PROTOCOL_ERROR)],
  ['nothing more', Buffer.alloc(0)],
])('after GOAWAY with an open stream, %s: nothing of the session is left (reliability 147)', async (_, broken) => {
  for (const authorization of [`Bearer ${key}`, 'Bearer nothing']) {
    const first = Buffer.concat([PREFACE, settings(), get(1, '/v1/pets', authorization), goaway(), broken]);
    await Promise.all(Array.from({ length: 20 }, () => openRawSession(it.gateway.port, { ca: it.ca, first })));
  }
  await expectNothingLeft();
});

test('a client that says GOAWAY still gets the answer that it waits for', async () => {
  ({ promise: answered, resolve: release } = Promise.withResolvers<void>());
  const first = Buffer.concat([PREFACE, settings(), get(1, '/v1/pets?hold'), goaway()]);
  const session = await openRawSession(it.gateway.port, { ca: it.ca, first });
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight 1$/m));
  // For longer than a session may be still that waits for nothing.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  expect(session.closed).toBe(false);
  release();
  await eventually(() => expect(session.isAnswered(1)).toBe(true));
  await expectNothingLeft();
});

test('streams of one address beyond maxConnectionsPerAddress are refused, and those of another are served (reliability 151)', async () => {
  ({ promise: answered, resolve: release } = Promise.withResolvers<void>());
  const held = Array.from({ length: 64 }, (_, i) => get(2 * i + 1, '/v1/pets?hold'));
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  session.send(...held);
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight 64$/m));
  session.send(get(201, '/v1/pets'));
  await eventually(() => expect(session.resetOf(201)).toBe(CODE.REFUSED_STREAM));
  release();
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight 0$/m));
  session.send(get(203, '/v1/pets'));
  await eventually(() => expect(session.isAnswered(203)).toBe(true));
  session.socket.destroy();
  await expectNothingLeft();
});

// Attack: streams whose requests never become whole take every slot, and those of others are refused.
test('streams that bring no request make room for those that do, the oldest first (reliability 151)', async () => {
  const begun = (stream: number) => frame(TYPE.HEADERS, FLAG.END_HEADERS, stream, fieldBlock(pseudo('/v1/pets')));
  const idle = await openRawSession(it.gateway.port, { ca: it.ca });
  idle.send(...Array.from({ length: 64 }, (_, i) => begun(2 * i + 1)));
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  session.send(get(1, '/v1/pets'));
  await eventually(() => expect(session.isAnswered(1)).toBe(true));
  await eventually(() => expect(idle.resetOf(1)).toBe(CODE.CANCEL));
  expect(idle.resetOf(127)).toBeNull();
  for (const { socket } of [idle, session]) socket.destroy();
  await expectNothingLeft();
});

test('a session whose address has spent its failed attempts ends with its 429', async () => {
  const strict = await startEncrypted({
    upstream: upstream.origin,
    plans: 'plans: { free: { limits: { minute: 1 } } }\nfailed-authentication: { minute: 2 }\n',
  });
  const session = await openHttp2(strict.gateway.port, strict.ca);
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await askHttp2(session, { path: '/v1/pets' })).status);
  expect(statuses).toEqual([401, 401, 429]);
  await eventually(() => expect(session.closed).toBe(true));
});
