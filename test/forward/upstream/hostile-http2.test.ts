import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { openGateway, type TestGateway } from '../../support/gateway.ts';
import {
  CODE,
  FLAG,
  fieldBlock,
  frame,
  rstStream,
  settings,
  TYPE,
  uint32,
  windowUpdate,
} from '../../support/http2-frames.ts';
import { rawExchange } from '../../support/raw-http.ts';
import type { SeenFrame } from '../../support/raw-http2.ts';
import { type RawHttp2Service, type ServiceConnection, startRawHttp2Service } from '../../support/raw-http2-service.ts';

// What a service can do wrong over HTTP/2. Each test says what the service sends when a request has arrived on a stream; afterwards a
// service that behaves is served as if nothing had been.

type Behaviour = (stream: number, connection: ServiceConnection) => unknown;

const heads = (stream: number, fields: readonly (readonly [string, string])[], flags: number = FLAG.END_HEADERS) =>
  frame(TYPE.HEADERS, flags, stream, fieldBlock(fields));
const head = (stream: number, ...fields: (readonly [string, string])[]) =>
  heads(stream, [[':status', '200'], ...fields]);
const data = (stream: number, text: string, flags = 0) => frame(TYPE.DATA, flags, stream, text);
const last = (stream: number, text = '') => data(stream, text, FLAG.END_STREAM);
const goaway = (stream: number, code: number) =>
  frame(TYPE.GOAWAY, 0, 0, Buffer.concat([uint32(stream), uint32(code)]));
const ok: Behaviour = (stream, { send }) => send(head(stream), last(stream, '{}'));

let service: RawHttp2Service;
let gateway: TestGateway;
let key: string;
let behave: Behaviour = ok;

beforeAll(async () => {
  service = await startRawHttp2Service((seen, connection) => {
    if (seen.type === TYPE.HEADERS) behave(seen.stream, connection);
  });
  gateway = await openGateway({
    upstream: service.origin,
    upstreamSettings: { protocol: 'h2c', responseTimeout: '2s', bodyTimeout: '2s' },
  });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

const get = async () => {
  const response = await gateway.get('/v1/pets', key);
  return { status: response.status, body: await response.text() };
};
const post = async () => (await gateway.get('/v1/pets', key, { method: 'POST', body: '{}' })).status;
/** All requests that the service has got on its connections so far. */
const requests = () => service.connections.flatMap(({ frames }) => frames).filter(({ type }) => type === TYPE.HEADERS);
const framesOf = (type: number): SeenFrame[] =>
  service.connections.flatMap(({ frames }) => frames).filter((it) => it.type === type);

/** The service behaves so for the next request, and well for all that follow. */
const once = (behaviour: Behaviour) => {
  behave = (stream, connection) => {
    behave = ok;
    behaviour(stream, connection);
  };
};

beforeEach(async () => {
  behave = ok;
  expect(await get()).toEqual({ status: 200, body: '{}' });
});

const atServer = async () => {
  expect(await get()).toEqual({ status: 200, body: '{}' });
};

afterAll(async () => {
  // Whatever the service has done, each request has ended, here and in its place at the upstream, and so has each connection but the last
  // and one whose allowance of streams is 0, which ends with its age.
  await eventually(async () => {
    expect(service.open).toBeLessThanOrEqual(2);
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{[^}]*\} 0$/m);
  });
});

describe('GOAWAY', () => {
  test('in the middle of a response lets it end; the next request has another connection (reliability 520)', async () => {
    const before = service.connections.length;
    once((stream, { send }) =>
      send(head(stream), data(stream, 'half'), goaway(stream, CODE.NO_ERROR), last(stream, ' and half')),
    );
    expect(await get()).toEqual({ status: 200, body: 'half and half' });
    await atServer();
    expect(service.connections.length).toBe(before + 1);
  });

  test('with an error in the middle of a response breaks it off (reliability 520)', async () => {
    once((stream, { send }) => send(head(stream), data(stream, 'half'), goaway(stream, CODE.INTERNAL_ERROR)));
    await expect(get()).rejects.toThrow();
    await atServer();
  });

  test.each([CODE.NO_ERROR, CODE.ENHANCE_YOUR_CALM])(
    'of code %i before a stream: a GET is sent once more on another connection, a POST is not (reliability 520)',
    async (code) => {
      const leaves: Behaviour = (stream, { send }) => send(goaway(Math.max(0, stream - 2), code));
      let before = requests().length;
      once(leaves);
      expect(await get()).toEqual({ status: 200, body: '{}' });
      expect(requests().length).toBe(before + 2);
      before = requests().length;
      once(leaves);
      expect(await post()).toBe(502);
      expect(requests().length).toBe(before + 1);
    },
  );
});

test('GOAWAY for some of the requests of a connection: each of the others is sent once more, and those are answered (reliability 575)', async () => {
  const before = requests().length;
  const asked: [number, ServiceConnection][] = [];
  behave = (stream, connection) => {
    if (asked.push([stream, connection]) < 3) return;
    behave = ok;
    const { send } = connection;
    const first = asked[0]![0];
    send(goaway(2 ** 31 - 1, CODE.NO_ERROR), goaway(first, CODE.NO_ERROR), head(first), last(first, 'first'));
  };
  const bodies = (await Promise.all([get(), get(), get()])).map(({ body }) => body);
  expect(bodies.sort()).toEqual(['first', '{}', '{}']);
  expect(requests().length).toBe(before + 5);
});

describe('RST_STREAM', () => {
  test('REFUSED_STREAM: a GET is sent once more, a POST is not (reliability 521)', async () => {
    const refuses: Behaviour = (stream, { send }) => send(rstStream(stream, CODE.REFUSED_STREAM));
    let before = requests().length;
    once(refuses);
    expect(await get()).toEqual({ status: 200, body: '{}' });
    expect(requests().length).toBe(before + 2);
    before = requests().length;
    once(refuses);
    expect(await post()).toBe(502);
    expect(requests().length).toBe(before + 1);
    before = requests().length;
    behave = refuses;
    expect((await get()).status).toBe(502);
    expect(requests().length).toBe(before + 2);
  });

  test.each([CODE.CANCEL, CODE.INTERNAL_ERROR])(
    'of code %i before the head is 502, and nothing is sent twice (reliability 521)',
    async (code) => {
      const before = requests().length;
      once((stream, { send }) => send(rstStream(stream, code)));
      expect((await get()).status).toBe(502);
      expect(requests().length).toBe(before + 1);
    },
  );

  test.each([CODE.NO_ERROR, CODE.CANCEL, CODE.INTERNAL_ERROR, CODE.REFUSED_STREAM])(
    'of code %i in the middle of a response breaks it off (reliability 521, 561)',
    async (code) => {
      once((stream, { send }) => send(head(stream), data(stream, 'half'), rstStream(stream, code)));
      await expect(get()).rejects.toThrow();
      once((stream, { send }) => send(head(stream), rstStream(stream, code)));
      await expect(get()).rejects.toThrow();
    },
  );
});

test('a stream that is never answered is 504 and reset, and others on its connection are served (reliability 522)', async () => {
  const before = service.connections.length;
  let silent = 0;
  once((stream) => {
    silent = stream;
  });
  const late = get();
  await eventually(() => expect(silent).toBeGreaterThan(0));
  await atServer();
  expect((await late).status).toBe(504);
  await eventually(() => {
    const reset = framesOf(TYPE.RST_STREAM).find(({ stream }) => stream === silent);
    expect(reset?.payload.readUInt32BE(0)).toBe(CODE.CANCEL);
  });
  expect(service.connections.length).toBe(before);
});

test('a connection that falls silent for good is left for another one (reliability 522)', async () => {
  const before = service.connections.length;
  behave = (stream, connection) => connection.number > before && ok(stream, connection);
  expect((await get()).status).toBe(504);
  await eventually(async () => expect(await get()).toEqual({ status: 200, body: '{}' }));
});

/** A head in a HEADERS frame and CONTINUATION frames. */
function longHead(stream: number, fields: readonly (readonly [string, string])[]): Buffer[] {
  const block = fieldBlock([[':status', '200'], ...fields]);
  const pieces: Buffer[] = [];
  for (let at = 0; at < block.length; at += 16_000) {
    const isLast = at + 16_000 >= block.length;
    const type = at === 0 ? TYPE.HEADERS : TYPE.CONTINUATION;
    pieces.push(frame(type, isLast ? FLAG.END_HEADERS : 0, stream, block.subarray(at, at + 16_000)));
  }
  return pieces;
}

test.each<[string, (stream: number) => Buffer[]]>([
  ['a field of 60 KB', (stream) => longHead(stream, [['x-a', 'a'.repeat(60_000)]])],
  [
    '2,000 fields',
    (stream) =>
      longHead(
        stream,
        Array.from({ length: 2_000 }, (_, i) => [`x-${i}`, 'a'] as const),
      ),
  ],
  [
    'CONTINUATION without end',
    (stream) => [
      frame(TYPE.HEADERS, 0, stream, fieldBlock([[':status', '200']])),
      ...Array.from({ length: 1_000 }, () =>
        frame(TYPE.CONTINUATION, 0, stream, fieldBlock([['x-a', 'b'.repeat(1_000)]])),
      ),
    ],
  ],
])('a head that is too large is 502: %s (reliability 523)', async (_, bytes) => {
  once((stream, { send }) => send(...bytes(stream)));
  expect((await get()).status).toBe(502);
  await atServer();
});

test.each<[string, (stream: number) => Buffer[]]>([
  ['no :status', (stream) => [heads(stream, [['x-a', 'b']]), last(stream)]],
  [
    ':status behind a field',
    (stream) => [
      heads(stream, [
        ['x-a', 'b'],
        [':status', '200'],
      ]),
      last(stream),
    ],
  ],
  [':status twice', (stream) => [head(stream, [':status', '201']), last(stream)]],
  [':status abc', (stream) => [heads(stream, [[':status', 'abc']]), last(stream)]],
  [':path', (stream) => [head(stream, [':path', '/']), last(stream)]],
  ['101', (stream) => [heads(stream, [[':status', '101']]), last(stream)]],
  ['capital letters in a name', (stream) => [head(stream, ['X-A', 'b']), last(stream)]],
  ['Transfer-Encoding', (stream) => [head(stream, ['transfer-encoding', 'chunked']), last(stream, '0\r\n\r\n')]],
  ['Connection', (stream) => [head(stream, ['connection', 'x-a']), last(stream)]],
  ['two lengths', (stream) => [head(stream, ['content-length', '2'], ['content-length', '2']), last(stream, '{}')]],
  ['a length that is none', (stream) => [head(stream, ['content-length', 'two']), last(stream, '{}')]],
  ['DATA before the head', (stream) => [data(stream, '{}'), head(stream), last(stream)]],
  ['an index that does not exist', (stream) => [frame(TYPE.HEADERS, FLAG.END_HEADERS, stream, Buffer.of(0xff, 0x7f))]],
])('a head with %s is 502 (reliability 524)', async (_, bytes) => {
  once((stream, { send }) => send(...bytes(stream)));
  expect((await get()).status).toBe(502);
  await atServer();
});

test.each<[string, (stream: number) => Buffer[]]>([
  ['shorter than its length', (stream) => [head(stream, ['content-length', '10']), last(stream, 'half')]],
  [
    'longer than its length',
    (stream) => [head(stream, ['content-length', '2']), data(stream, 'much more'), last(stream)],
  ],
  [
    'with trailers that have a pseudo-header',
    (stream) => [
      head(stream),
      data(stream, '{}'),
      heads(stream, [[':status', '200']], FLAG.END_HEADERS | FLAG.END_STREAM),
    ],
  ],
  [
    'with trailers that do not end it',
    (stream) => [head(stream), data(stream, '{}'), heads(stream, [['x-a', 'b']]), data(stream, '{}')],
  ],
  ['in a frame that is too large', (stream) => [head(stream), data(stream, 'a'.repeat(20_000))]],
])('a body that is %s breaks off (reliability 524)', async (_, bytes) => {
  once((stream, { send }) => send(...bytes(stream)));
  await expect(get()).rejects.toThrow();
  await atServer();
});

test.each<[string, string, string]>([
  ['a blank in its name', 'x a', 'b'],
  ['a line break in its value', 'x-a', 'b\r\nx-b: c'],
  ['a NUL in its value', 'x-a', 'b\0c'],
])('a field with %s reaches no client (reliability 524)', async (_, name, value) => {
  once((stream, { send }) => send(head(stream, [name, value], ['x-c', 'd']), last(stream)));
  const { status, headers } = await gateway.get('/v1/pets', key);
  expect(status).toBe(200);
  expect([...headers.keys()].filter((it) => /^x[- ][abc]/.test(it))).toEqual(['x-c']);
});

test('a body on HEAD reaches no client (reliability 524)', async () => {
  once((stream, { send }) => send(head(stream), last(stream, 'HTTP/1.1 200 OK\r\n\r\n')));
  const response = await gateway.get('/v1/pets', key, { method: 'HEAD' }).catch(() => null);
  expect((await response?.text()) ?? '').toBe('');
  await atServer();
});

test('a connection that is closed breaks all its streams off, each once (reliability 525)', async () => {
  const waiting: number[] = [];
  behave = (stream, { socket }) => {
    if (waiting.push(stream) === 3) socket.resetAndDestroy();
  };
  const statuses = await Promise.all([post(), post(), post()]);
  expect(statuses).toEqual([502, 502, 502]);
  expect(waiting).toHaveLength(3);
  behave = ok;
  await atServer();
});

test('a connection that ends within a body that has no length breaks it off (reliability 525)', async () => {
  once((stream, { send, socket }) => {
    send(head(stream), data(stream, 'half'));
    socket.end();
  });
  await expect(get()).rejects.toThrow();
  await atServer();
});

test('PUSH_PROMISE ends the connection: the gateway takes no pushes (reliability 526)', async () => {
  once((stream, { send }) =>
    send(
      frame(
        TYPE.PUSH_PROMISE,
        FLAG.END_HEADERS,
        stream,
        Buffer.concat([
          uint32(2),
          fieldBlock([
            [':method', 'GET'],
            [':path', '/'],
            [':scheme', 'http'],
            [':authority', 'a'],
          ]),
        ]),
      ),
    ),
  );
  expect((await get()).status).toBe(502);
  await atServer();
});

const settingsOf = (payload: Buffer, flags = 0) => frame(TYPE.SETTINGS, flags, 0, payload);

test.each<[string, (stream: number) => Buffer[]]>([
  ['DATA on stream 0', () => [data(0, '{}')]],
  ['HEADERS on stream 0', () => [head(0)]],
  ['HEADERS on a stream that the gateway has not opened', (stream) => [head(stream + 2)]],
  ['HEADERS on a stream of its own', () => [head(2)]],
  ['DATA on a stream that the gateway has not opened', (stream) => [data(stream + 2, '{}')]],
  ['RST_STREAM of a stream that the gateway has not opened', (stream) => [rstStream(stream + 2, CODE.CANCEL)]],
  ['RST_STREAM of three bytes', (stream) => [frame(TYPE.RST_STREAM, 0, stream, 'abc')]],
  ['CONTINUATION without a head', (stream) => [frame(TYPE.CONTINUATION, FLAG.END_HEADERS, stream)]],
  [
    'PING within a head',
    (stream) => [
      heads(stream, [[':status', '200']], 0),
      frame(TYPE.PING, 0, 0, Buffer.alloc(8)),
      frame(TYPE.CONTINUATION, FLAG.END_HEADERS, stream),
    ],
  ],
  ['SETTINGS of five bytes', () => [settingsOf(Buffer.alloc(5))]],
  ['SETTINGS that acknowledge and set', () => [settingsOf(Buffer.alloc(6), FLAG.ACK)]],
  ['SETTINGS on a stream', (stream) => [frame(TYPE.SETTINGS, 0, stream)]],
  ['SETTINGS that allow pushes', () => [settings(2, 1)]],
  ['SETTINGS with a window beyond all bounds', () => [settings(4, 2 ** 31)]],
  ['SETTINGS with frames of one byte', () => [settings(5, 1)]],
  ['WINDOW_UPDATE by nothing', () => [windowUpdate(0, 0)]],
  ['WINDOW_UPDATE beyond all bounds', () => [windowUpdate(0, 2 ** 31 - 1)]],
  ['PING of seven bytes', () => [frame(TYPE.PING, 0, 0, Buffer.alloc(7))]],
  ['GOAWAY of four bytes', () => [frame(TYPE.GOAWAY, 0, 0, Buffer.alloc(4))]],
  ['padding that is longer than its frame', (stream) => [frame(TYPE.HEADERS, 4 | FLAG.PADDED, stream, '\xffa')]],
  [
    'a table of fields that is larger than allowed',
    (stream) => [frame(TYPE.HEADERS, 4, stream, '\x3f\xff\xff\x03\x88')],
  ],
  ['HTTP/1.1', () => [Buffer.from('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')]],
  ['half a head, and then the end', (stream) => [heads(stream, [[':status', '200']], 0)]],
  ['half a frame, and then the end', (stream) => [head(stream).subarray(0, 5)]],
])('a connection on which a service sends %s is 502 and left (reliability 576)', async (what, bytes) => {
  const before = service.connections.length;
  once((stream, { send, socket }) => {
    send(...bytes(stream));
    if (what.endsWith('the end')) socket.end();
  });
  expect((await get()).status).toBe(502);
  await atServer();
  expect(service.connections.length).toBe(before + 1);
});

test.each<[string, (stream: number) => Buffer[]]>([
  ['DATA', (stream) => [data(stream, 'more')]],
  ['a head', (stream) => [head(stream)]],
  ['RST_STREAM', (stream) => [rstStream(stream, CODE.INTERNAL_ERROR)]],
  ['WINDOW_UPDATE', (stream) => [windowUpdate(stream, 1)]],
])('%s behind the end of a response changes nothing of it (reliability 577)', async (_, bytes) => {
  once((stream, { send }) => send(head(stream), last(stream, 'whole'), ...bytes(stream)));
  expect(await get()).toEqual({ status: 200, body: 'whole' });
  await atServer();
});

describe('interim responses', () => {
  const early = (stream: number, flags: number = FLAG.END_HEADERS) =>
    heads(
      stream,
      [
        [':status', '103'],
        ['link', '</a>'],
      ],
      flags,
    );

  test('in thousands come to an end, of which a client gets eight at most (reliability 578)', async () => {
    const storm = (stream: number) => Buffer.concat(Array.from({ length: 5_000 }, () => early(stream)));
    once((stream, { send }) => send(storm(stream), head(stream), last(stream, 'behind')));
    const { responses } = await rawExchange(
      gateway.port,
      `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nSec-Fetch-Mode: navigate\r\n\r\n`,
    );
    expect(responses.map(({ status }) => status)).toEqual([...Array.from({ length: 8 }, () => 103), 200]);
    // Without a response behind them the request has its deadline all the same.
    once((stream, { send }) => send(storm(stream)));
    const late = get();
    await atServer();
    expect((await late).status).toBe(504);
  });

  test('that end a stream are no response (reliability 578)', async () => {
    once((stream, { send }) => send(early(stream, FLAG.END_HEADERS | FLAG.END_STREAM)));
    expect((await get()).status).toBe(502);
    await atServer();
  });
});

describe('a service that takes nothing', () => {
  test('because its windows are 0: the upload is 504, its stream is reset, and requests without a body are served (reliability 579)', async () => {
    once((stream, { send }) => send(settings(4, 0), head(stream), last(stream, '{}')));
    await atServer();
    const before = framesOf(TYPE.RST_STREAM).length;
    behave = (stream, connection) => isUpload(stream, connection) || ok(stream, connection);
    const upload = post();
    await atServer();
    expect(await upload).toBe(504);
    await eventually(() => expect(framesOf(TYPE.RST_STREAM).length).toBe(before + 1));
    // It is allowed to take bodies again.
    behave = (stream, connection) => {
      connection.send(settings(4, 65_535));
      ok(stream, connection);
    };
    expect(await post()).toBe(200);
  });

  /** Whether the request has a body, which has not ended. */
  const isUpload = (stream: number, { frames }: ServiceConnection) =>
    frames.some((it) => it.type === TYPE.HEADERS && it.stream === stream && (it.flags & FLAG.END_STREAM) === 0);
});

test('an allowance of streams that ends while requests run lets them end, and the next has another connection (reliability 527)', async () => {
  const before = service.connections.length;
  once((stream, { send }) => send(settings(3, 0), head(stream), last(stream, 'whole')));
  expect(await get()).toEqual({ status: 200, body: 'whole' });
  await atServer();
  expect(service.connections.length).toBe(before + 1);
});

test.each<[string, (stream: number) => Buffer]>([
  ['WINDOW_UPDATE', () => windowUpdate(0, 1)],
  ['GOAWAY', () => goaway(2 ** 31 - 1, CODE.NO_ERROR)],
  ['RST_STREAM of a stream that has ended', (stream) => rstStream(stream - 2, CODE.CANCEL)],
])(
  'a flood of %s holds nobody up: the request ends by its deadline, others are served (reliability 580)',
  async (_, one) => {
    // The stream before it has ended.
    await atServer();
    once((stream, { send }) => {
      send(head(stream), data(stream, 'half'));
      send(Buffer.concat(Array.from({ length: 20_000 }, () => one(stream))));
    });
    const late = get().catch(() => 'broken off');
    await atServer();
    expect(await late).toBe('broken off');
    await atServer();
  },
);

test('a head that is small on the line and large in memory is 502 (reliability 523)', async () => {
  once((stream, { send }) => {
    const literal = Buffer.concat([Buffer.of(0x40), fieldBlock([['x-a', 'a'.repeat(3_000)]]).subarray(1)]);
    const repeated = Buffer.alloc(10_000, 0xbe);
    send(frame(TYPE.HEADERS, FLAG.END_HEADERS, stream, Buffer.concat([Buffer.of(0x88), literal, repeated])));
  });
  expect((await get()).status).toBe(502);
  await atServer();
});

test.each<[string, (stream: number) => Buffer]>([
  ['PING', () => frame(TYPE.PING, 0, 0, Buffer.alloc(8))],
  ['SETTINGS', () => settings()],
  ['acknowledgements of PING', () => frame(TYPE.PING, FLAG.ACK, 0, Buffer.alloc(8))],
  ['PRIORITY', (stream) => frame(TYPE.PRIORITY, 0, stream, Buffer.from([0, 0, 0, 0, 1]))],
  ['frames of an unknown type', (stream) => frame(0x55, 0, stream, 'abc')],
  ['empty DATA', (stream) => data(stream, '')],
])('a flood of %s ends the connection (reliability 526, 580)', async (_, flood) => {
  let flooded: ServiceConnection | null = null;
  once((stream, connection) => {
    flooded = connection;
    connection.send(head(stream), ...Array.from({ length: 20_000 }, () => flood(stream)));
  });
  await expect(get()).rejects.toThrow();
  await eventually(() => expect(flooded!.socket.destroyed).toBe(true));
  await atServer();
});

test.each<[string, number, Buffer | null]>([
  ['HTTP/1.1', 502, Buffer.from('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')],
  ['a frame other than SETTINGS', 502, frame(TYPE.PING, 0, 0, Buffer.alloc(8))],
  ['nothing', 504, null],
])('a service that begins with %s gets no request: %i (reliability 581)', async (_, status, first) => {
  const other = await startRawHttp2Service(() => {}, { first });
  const own = await openGateway({
    upstream: other.origin,
    upstreamSettings: { protocol: 'h2c', connectTimeout: '500ms' },
  });
  const { key: ownKey } = await own.createKey('endless');
  expect((await own.get('/v1/pets', ownKey)).status).toBe(status);
  expect(other.connections.flatMap(({ frames }) => frames).filter(({ type }) => type === TYPE.HEADERS)).toEqual([]);
  await eventually(() => expect(other.open).toBe(0));
});

describe('streams that a service allows', () => {
  test('one at a time: each request that runs has a connection, at most maxConnections (reliability 527)', async () => {
    const waiting: (() => void)[] = [];
    const narrow = await startRawHttp2Service(
      ({ type, stream }, connection) => {
        if (type === TYPE.HEADERS) waiting.push(() => ok(stream, connection));
      },
      { first: settings(3, 1) },
    );
    const own = await openGateway({
      upstream: narrow.origin,
      upstreamSettings: { protocol: 'h2c', maxConnections: 3, fairShare: 1 },
    });
    const { key: ownKey } = await own.createKey('enterprise', '--limit', 'minute=1000', '--limit', 'day=1000');
    const all = Array.from({ length: 5 }, async () => (await own.get('/v1/pets', ownKey)).status);
    await eventually(() => expect(waiting).toHaveLength(3));
    expect(narrow.connections).toHaveLength(3);
    for (let answered = 0; answered < 5; answered++) {
      await eventually(() => expect(waiting.length).toBeGreaterThan(answered));
      waiting[answered]!();
    }
    expect(await Promise.all(all)).toEqual([200, 200, 200, 200, 200]);
    expect(narrow.connections).toHaveLength(3);
  });

  test('none: 502 (reliability 527)', async () => {
    const closed = await startRawHttp2Service(() => {}, { first: settings(3, 0) });
    const own = await openGateway({ upstream: closed.origin, upstreamSettings: { protocol: 'h2c' } });
    const { key: ownKey } = await own.createKey('endless');
    expect((await own.get('/v1/pets', ownKey)).status).toBe(502);
  });
});
