import {
  CODE,
  FLAG,
  fieldBlock,
  frame,
  PREFACE,
  pseudo,
  rstStream,
  settings,
  TYPE,
  windowUpdate,
} from '../../support/http2-frames.ts';
import type { RawSession } from '../../support/raw-http2.ts';

type ErrorName =
  | 'PROTOCOL_ERROR'
  | 'FLOW_CONTROL_ERROR'
  | 'STREAM_CLOSED'
  | 'FRAME_SIZE_ERROR'
  | 'REFUSED_STREAM'
  | 'COMPRESSION_ERROR';

/**
 * What the gateway did: it sent a frame, or it closed the connection. `SETTINGS` is the first frame of the session, `200` an
 * answer with this status, `DATA 1` a DATA frame with one octet, `PING ACK` an answer to `ping()` with its payload.
 */
export type Outcome =
  | `GOAWAY ${ErrorName | 'INTERNAL_ERROR'}`
  | `RST_STREAM ${ErrorName}`
  | `DATA ${number}`
  | 'SETTINGS'
  | 'SETTINGS ACK'
  | 'PING ACK'
  | '200'
  | 'closed';

/** A frame to send, or a condition to wait for before the next step. */
export type Step = Buffer | ((session: RawSession) => boolean);

export interface Http2Case {
  /** Group, section and number in h2spec 2.6, whose `http2` group counts the sections of RFC 7540. */
  readonly id: string;
  /** Where the rule stands: in RFC 9113 or 7541, or in RFC 7540 if RFC 9113 has dropped it. */
  readonly rfc: string;
  readonly what: string;
  /** What the client does after both sides have sent and acknowledged their first SETTINGS. */
  readonly send: (path: string) => readonly Step[];
  /** Each of these outcomes conforms. */
  readonly expect: readonly Outcome[];
  /** Only where the gateway does something else: what it does instead, and why. */
  readonly differs?: { readonly outcome: Outcome; readonly because: string };
  /** The session begins with the first step of `send`: no preface is sent before it. */
  readonly bare?: true;
  /** How many complete requests reach the upstream. Left out where this depends on timing. */
  readonly forwarded?: number;
  /** A field that the upstream must receive. */
  readonly field?: readonly [name: string, value: string];
  /** The gateway closes the connection although the client did nothing wrong. */
  readonly closes?: true;
}

/** `listen.http2.maxStreams` of the gateway under test. */
export const MAX_STREAMS = 10;

export const PING_PAYLOAD = Buffer.from('tollgate');

const { END_HEADERS, END_STREAM, PADDED } = FLAG;
const { CANCEL } = CODE;
const WHOLE = END_HEADERS | END_STREAM;
/** PING defines none of these flags. */
const UNDEFINED_FLAGS = 0x16;
const UNKNOWN_TYPE = 0x16;
const INITIAL_WINDOW_SIZE = 4;
const MAX_WINDOW = 2 ** 31 - 1;

const ping = (flags = 0, payload = PING_PAYLOAD) => frame(TYPE.PING, flags, 0, payload);
const goaway = (code: number, stream = 0) =>
  frame(TYPE.GOAWAY, 0, stream, Buffer.concat([Buffer.alloc(4), Buffer.of(0, 0, 0, code)]));

/** The exclusive bit, the stream that this one depends on, and its weight minus one (RFC 7540 section 6.3). */
const dependency = (on: number, weight = 255, exclusive = false) => {
  const bytes = Buffer.alloc(5, weight);
  bytes.writeUInt32BE(exclusive ? on + 2 ** 31 : on);
  return bytes;
};
const priority = (stream: number, ...how: Parameters<typeof dependency>) =>
  frame(TYPE.PRIORITY, 0, stream, dependency(...how));

type Field = readonly [name: string, value: string];

const get = (path: string, ...more: Field[]) => fieldBlock([...pseudo(path), ...more]);
const post = (path: string, ...more: Field[]) => fieldBlock([...pseudo(path, 'POST'), ...more]);
/** By default the frame holds the whole request. */
const headers = (block: Buffer, flags: number = WHOLE, stream = 1) => frame(TYPE.HEADERS, flags, stream, block);
const continuation = (block: Buffer, flags: number = END_HEADERS, stream = 1) =>
  frame(TYPE.CONTINUATION, flags, stream, block);
const data = (flags: number = END_STREAM, payload: Buffer | string = 'test', stream = 1) =>
  frame(TYPE.DATA, flags, stream, payload);
/** A long field without a meaning. */
const filler = (i = 0) => fieldBlock([[`x-filler-${i}`, 'x'.repeat(4_000)]]);
const padded = (length: number, payload: Buffer | string, padding = '') =>
  Buffer.concat([Buffer.of(length), Buffer.from(payload), Buffer.from(padding)]);

const of = (type: number, stream: number) => (seen: { type: number; stream: number }) =>
  seen.type === type && seen.stream === stream;
/** The gateway has sent the whole answer of a stream. */
const answered =
  (stream = 1) =>
  (session: RawSession) =>
    session.frames.some((seen) => seen.stream === stream && seen.type <= 1 && (seen.flags & END_STREAM) !== 0);
/** The gateway has acknowledged this many SETTINGS frames, including the one of the preface. */
const acknowledged = (count: number) => (session: RawSession) =>
  session.frames.filter((seen) => of(TYPE.SETTINGS, 0)(seen) && (seen.flags & FLAG.ACK) !== 0).length >= count;
const hasData = (session: RawSession) => session.frames.some(of(TYPE.DATA, 1));

const OK: readonly Outcome[] = ['200'];
const PONG: readonly Outcome[] = ['PING ACK'];
/** The server should send GOAWAY before it closes the connection, but need not (RFC 9113 section 5.4.1). */
const connectionError = (...names: ErrorName[]): Outcome[] => [
  ...names.map((name): Outcome => `GOAWAY ${name}`),
  'closed',
];
/** The server may treat a stream error as a connection error (RFC 9113 section 5.4.1). */
const streamError = (...names: ErrorName[]): Outcome[] => [
  ...names.map((name): Outcome => `RST_STREAM ${name}`),
  ...connectionError(...names),
];

// The octets of field representations (RFC 7541 sections 5.2 and 6).

/** This bit of a string's first octet says that the string is in Huffman code. */
const HUFFMAN = 0x80;
const NAME = Buffer.concat([Buffer.of(6), Buffer.from('x-test')]);
const HUFFMAN_NAME = Buffer.of(HUFFMAN | 5, 0xf2, 0xb2, 0x4a, 0x84, 0xff);
const VALUE = Buffer.concat([Buffer.of(4), Buffer.from('test')]);
const HUFFMAN_VALUE = Buffer.of(HUFFMAN | 3, 0x49, 0x50, 0x9f);
/** `user-agent` is entry 58 of the static table. A prefix of four bits holds at most 14; the next octet has the rest. */
const USER_AGENT_OF_7_BITS = 0x80 | 58;
const USER_AGENT_OF_6_BITS = Buffer.of(0x40 | 58);
const userAgentOf4Bits = (pattern: number) => Buffer.of(pattern | 15, 58 - 15);
/** Dynamic table size updates: 31 in a prefix of five bits, then the rest in octets of seven bits, lowest first. */
const TABLE_OF_128 = Buffer.of(0x3f, 0x61);
const TABLE_OF_4096 = Buffer.of(0x3f, 0xe1, 0x1f);
const TABLE_OF_4097 = Buffer.of(0x3f, 0xe2, 0x1f);

/** A request whose field block ends with these octets. */
const withEnd =
  (...octets: (Buffer | number)[]) =>
  (path: string) => [
    headers(Buffer.concat([get(path), ...octets.map((it) => (typeof it === 'number' ? Buffer.of(it) : it))])),
  ];

const DISCARDED =
  'RFC 9113 §5.1 lets a server discard frames on a closed stream, and nghttp2 does; by RFC 7540 they were an error';
const CODE_OF_NODE =
  'Node destroys the session with this code at each protocol error that nghttp2 reports; to h2spec the closed connection is enough';
const NO_DEPENDENCIES = 'RFC 9113 §5.3.2 has dropped dependencies, and nghttp2 ignores PRIORITY';

type Sent = Http2Case['send'];
type Further = Pick<Http2Case, 'differs' | 'bare' | 'forwarded' | 'field' | 'closes'>;

function row(
  id: string,
  rfc: string,
  what: string,
  expect: readonly Outcome[],
  send: Sent,
  more: Further = {},
): Http2Case {
  return { id, rfc, what, expect, send, ...more };
}

/** A request that is answered, having reached the upstream once. */
const served = (id: string, rfc: string, what: string, send: Sent) => row(id, rfc, what, OK, send, { forwarded: 1 });

/** What every HTTP/2 endpoint has to accept. */
const GENERIC: readonly Http2Case[] = [
  row(
    'generic/1/1',
    '9113 §3.4',
    'a client preface is answered with one',
    ['SETTINGS'],
    () => [PREFACE, settings(INITIAL_WINDOW_SIZE, 65_535)],
    { bare: true },
  ),
  row('generic/2/1', '9113 §5.1', 'PRIORITY on an idle stream', PONG, () => [priority(1, 0), ping()]),
  row(
    'generic/2/2',
    '9113 §5.1',
    'WINDOW_UPDATE on a half-closed stream lets one octet through',
    ['DATA 1'],
    (path) => [settings(INITIAL_WINDOW_SIZE, 0), headers(get(path)), windowUpdate(1, 1)],
    { forwarded: 1 },
  ),
  row(
    'generic/2/3',
    '9113 §5.1',
    'PRIORITY on a half-closed stream',
    ['DATA 1'],
    (path) => [settings(INITIAL_WINDOW_SIZE, 0), headers(get(path)), priority(1, 0), windowUpdate(1, 1)],
    { forwarded: 1 },
  ),
  row('generic/2/4', '9113 §5.1', 'RST_STREAM on a half-closed stream', [...PONG, 'closed'], (path) => [
    headers(get(path)),
    rstStream(1, CANCEL),
    ping(),
  ]),
  row(
    'generic/2/5',
    '9113 §5.1',
    'PRIORITY on a closed stream',
    PONG,
    (path) => [headers(get(path)), answered(), priority(1, 0), ping()],
    { forwarded: 1 },
  ),
  served('generic/3.1/1', '9113 §6.1', 'a body in one DATA', (path) => [headers(post(path), END_HEADERS), data()]),
  served('generic/3.1/2', '9113 §6.1', 'a body in two DATA', (path) => [
    headers(post(path), END_HEADERS),
    data(0),
    data(),
  ]),
  served('generic/3.1/3', '9113 §6.1', 'DATA with padding', (path) => [
    headers(post(path), END_HEADERS),
    data(END_STREAM | PADDED, padded(5, 'test', '\0\0\0\0\0')),
  ]),
  served('generic/3.2/1', '9113 §6.2', 'HEADERS', (path) => [headers(get(path))]),
  served('generic/3.2/2', '9113 §6.2', 'HEADERS with padding', (path) => [
    headers(padded(8, get(path), '\0'.repeat(8)), WHOLE | PADDED),
  ]),
  served('generic/3.2/3', '9113 §6.2', 'HEADERS with a priority', (path) => [
    headers(Buffer.concat([dependency(0), get(path)]), WHOLE | FLAG.PRIORITY),
  ]),
  served('generic/3.3/1', '9113 §6.3', 'PRIORITY with the weight 1', (path) => [priority(1, 0, 0), headers(get(path))]),
  served('generic/3.3/2', '9113 §6.3', 'PRIORITY with the weight 256', (path) => [
    priority(1, 0, 255),
    headers(get(path)),
  ]),
  served('generic/3.3/3', '9113 §6.3', 'PRIORITY that depends on another stream', (path) => [
    priority(3, 1, 0),
    headers(get(path)),
  ]),
  served('generic/3.3/4', '9113 §6.3', 'PRIORITY with the exclusive bit', (path) => [
    priority(1, 0, 0, true),
    headers(get(path)),
  ]),
  served('generic/3.3/5', '9113 §6.3', 'PRIORITY on an idle stream closes none below it', (path) => [
    priority(3, 0),
    headers(get(path)),
  ]),
  row(
    'generic/3.4/1',
    '9113 §6.4',
    'RST_STREAM on an open stream',
    [...PONG, 'closed'],
    (path) => [headers(get(path), END_HEADERS), rstStream(1, CANCEL), ping()],
    { forwarded: 0 },
  ),
  row('generic/3.5/1', '9113 §6.5', 'SETTINGS with all six parameters', ['SETTINGS ACK'], () => [
    settings(1, 4_096, 2, 1, 3, 100, INITIAL_WINDOW_SIZE, 65_535, 5, 16_384, 6, 100),
  ]),
  row('generic/3.7/1', '9113 §6.7', 'PING', PONG, () => [ping()]),
  row('generic/3.8/1', '9113 §6.8', 'GOAWAY, then PING', [...PONG, 'closed'], () => [goaway(0), ping()], {
    closes: true,
  }),
  row('generic/3.9/1', '9113 §6.9', 'WINDOW_UPDATE of the connection', PONG, () => [windowUpdate(0, 1), ping()]),
  served('generic/3.9/2', '9113 §6.9', 'WINDOW_UPDATE of a stream', (path) => [headers(get(path)), windowUpdate(1, 1)]),
  served('generic/3.10/1', '9113 §6.10', 'a block that goes on in one CONTINUATION', (path) => [
    headers(get(path).subarray(0, 5), END_STREAM),
    continuation(get(path).subarray(5)),
  ]),
  served('generic/3.10/2', '9113 §6.10', 'a block that goes on in two CONTINUATION', (path) => [
    headers(get(path).subarray(0, 5), END_STREAM),
    continuation(get(path).subarray(5, 10), 0),
    continuation(get(path).subarray(10)),
  ]),
  served('generic/4/1', '9113 §8.1', 'a GET', (path) => [headers(get(path))]),
  served('generic/4/2', '9113 §8.1', 'a HEAD', (path) => [headers(fieldBlock(pseudo(path, 'HEAD')))]),
  served('generic/4/3', '9113 §8.1', 'a POST', (path) => [headers(post(path), END_HEADERS), data()]),
  served('generic/4/4', '9113 §8.1', 'a POST with trailers', (path) => [
    headers(post(path, ['trailer', 'x-test']), END_HEADERS),
    data(0),
    headers(fieldBlock([['x-test', 'ok']])),
  ]),
  row('generic/5/1', '7541 §6.1', 'an indexed field', OK, withEnd(USER_AGENT_OF_7_BITS), {
    forwarded: 1,
    field: ['user-agent', ''],
  }),
  ...(
    [
      ['2', '§6.2.1', 'with incremental indexing, indexed name', [USER_AGENT_OF_6_BITS, VALUE], 'user-agent'],
      ['3', '§6.2.1', 'the same in Huffman code', [USER_AGENT_OF_6_BITS, HUFFMAN_VALUE], 'user-agent'],
      ['4', '§6.2.1', 'with incremental indexing, new name', [0x40, NAME, VALUE], 'x-test'],
      ['5', '§6.2.1', 'the same in Huffman code', [0x40, HUFFMAN_NAME, HUFFMAN_VALUE], 'x-test'],
      ['6', '§6.2.2', 'without indexing, indexed name', [userAgentOf4Bits(0), VALUE], 'user-agent'],
      ['7', '§6.2.2', 'the same in Huffman code', [userAgentOf4Bits(0), HUFFMAN_VALUE], 'user-agent'],
      ['8', '§6.2.2', 'without indexing, new name', [0, NAME, VALUE], 'x-test'],
      ['9', '§6.2.2', 'the same in Huffman code', [0, HUFFMAN_NAME, HUFFMAN_VALUE], 'x-test'],
      ['10', '§6.2.3', 'never indexed, indexed name', [userAgentOf4Bits(0x10), VALUE], 'user-agent'],
      ['11', '§6.2.3', 'the same in Huffman code', [userAgentOf4Bits(0x10), HUFFMAN_VALUE], 'user-agent'],
      ['12', '§6.2.3', 'never indexed, new name', [0x10, NAME, VALUE], 'x-test'],
      ['13', '§6.2.3', 'the same in Huffman code', [0x10, HUFFMAN_NAME, HUFFMAN_VALUE], 'x-test'],
    ] as const
  ).map(
    ([number, section, what, octets, name]): Http2Case => ({
      id: `generic/5/${number}`,
      rfc: `7541 ${section}`,
      what: `a literal field ${what}`,
      send: withEnd(...octets),
      expect: OK,
      forwarded: 1,
      field: [name, 'test'],
    }),
  ),
  served('generic/5/14', '7541 §6.3', 'a dynamic table size update', (path) => [
    headers(Buffer.concat([TABLE_OF_128, get(path)])),
  ]),
  served('generic/5/15', '7541 §6.3', 'two dynamic table size updates', (path) => [
    headers(Buffer.concat([TABLE_OF_128, TABLE_OF_4096, get(path)])),
  ]),
];

/** Prefaces, frames and streams. */
const FRAMES_AND_STREAMS: readonly Http2Case[] = [
  row(
    'http2/3.5/1',
    '9113 §3.4',
    'SETTINGS is the first frame of the gateway',
    ['SETTINGS'],
    () => [PREFACE, settings(INITIAL_WINDOW_SIZE, 65_535)],
    { bare: true },
  ),
  row(
    'http2/3.5/2',
    '9113 §3.4',
    'a preface that is none',
    connectionError('PROTOCOL_ERROR'),
    () => [Buffer.from('NO PREFACE OF ANY KIND\r\n\r\n')],
    { bare: true, differs: { outcome: 'GOAWAY INTERNAL_ERROR', because: CODE_OF_NODE } },
  ),
  row('http2/4.1/1', '9113 §4.1', 'a frame of an unknown type is ignored', PONG, () => [
    frame(UNKNOWN_TYPE, 0, 0, Buffer.alloc(8)),
    ping(),
  ]),
  row('http2/4.1/2', '9113 §4.1', 'undefined flags are ignored', PONG, () => [ping(UNDEFINED_FLAGS)]),
  row('http2/4.1/3', '9113 §4.1', 'the reserved bit is ignored', PONG, () => [
    frame(TYPE.PING, UNDEFINED_FLAGS, 2 ** 31, PING_PAYLOAD),
  ]),
  served('http2/4.2/1', '9113 §4.2', 'DATA of 16,384 octets', (path) => [
    headers(post(path), END_HEADERS),
    data(END_STREAM, 'x'.repeat(16_384)),
  ]),
  row(
    'http2/4.2/2',
    '9113 §4.2',
    'DATA of 16,385 octets',
    streamError('FRAME_SIZE_ERROR'),
    (path) => [headers(post(path), END_HEADERS), data(END_STREAM, 'x'.repeat(16_385))],
    { forwarded: 0 },
  ),
  row(
    'http2/4.2/3',
    '9113 §4.2',
    'HEADERS of more than 16,384 octets',
    connectionError('FRAME_SIZE_ERROR'),
    (path) => [headers(Buffer.concat([get(path), filler(0), filler(1), filler(2), filler(3), filler(4)]))],
    { forwarded: 0 },
  ),
  row(
    'http2/4.3/1',
    '9113 §4.3',
    'a block that ends in the middle of a field',
    connectionError('COMPRESSION_ERROR'),
    () => [headers(Buffer.of(0x40))],
    { forwarded: 0 },
  ),
  row(
    'http2/4.3/2',
    '9113 §4.3',
    'PRIORITY in the middle of a block',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), 0), priority(1, 0), continuation(filler())],
    { forwarded: 0 },
  ),
  row(
    'http2/4.3/3',
    '9113 §4.3',
    'HEADERS of another stream in the middle of a block',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), 0), headers(get(path), WHOLE, 3), continuation(filler())],
    { forwarded: 0 },
  ),
  row('http2/5.1/1', '9113 §5.1', 'DATA on an idle stream', streamError('PROTOCOL_ERROR', 'STREAM_CLOSED'), () => [
    data(),
  ]),
  row('http2/5.1/2', '9113 §5.1', 'RST_STREAM on an idle stream', connectionError('PROTOCOL_ERROR'), () => [
    rstStream(1, CANCEL),
  ]),
  row('http2/5.1/3', '9113 §5.1', 'WINDOW_UPDATE on an idle stream', connectionError('PROTOCOL_ERROR'), () => [
    windowUpdate(1, 100),
  ]),
  row(
    'http2/5.1/4',
    '9113 §5.1',
    'CONTINUATION on an idle stream',
    connectionError('PROTOCOL_ERROR'),
    (path) => [continuation(get(path))],
    { forwarded: 0 },
  ),
  row('http2/5.1/5', '9113 §5.1', 'DATA on a half-closed stream', streamError('STREAM_CLOSED'), (path) => [
    headers(get(path)),
    data(),
  ]),
  row('http2/5.1/6', '9113 §5.1', 'HEADERS on a half-closed stream', streamError('STREAM_CLOSED'), (path) => [
    headers(get(path)),
    headers(get(path)),
  ]),
  row(
    'http2/5.1/7',
    '9113 §5.1',
    'CONTINUATION on a half-closed stream',
    streamError('STREAM_CLOSED', 'PROTOCOL_ERROR'),
    (path) => [headers(get(path)), continuation(get(path))],
  ),
  row(
    'http2/5.1/8',
    '9113 §5.1',
    'DATA after RST_STREAM',
    streamError('STREAM_CLOSED'),
    (path) => [headers(get(path), END_HEADERS), rstStream(1, CANCEL), data(), ping()],
    { differs: { outcome: 'PING ACK', because: DISCARDED }, forwarded: 0 },
  ),
  row(
    'http2/5.1/9',
    '9113 §5.1',
    'HEADERS after RST_STREAM',
    streamError('STREAM_CLOSED'),
    (path) => [headers(get(path), END_HEADERS), rstStream(1, CANCEL), headers(get(path)), ping()],
    { differs: { outcome: 'PING ACK', because: DISCARDED } },
  ),
  row(
    'http2/5.1/10',
    '9113 §5.1',
    'CONTINUATION after RST_STREAM',
    streamError('STREAM_CLOSED', 'PROTOCOL_ERROR'),
    (path) => [headers(get(path), END_HEADERS), rstStream(1, CANCEL), continuation(filler())],
  ),
  row(
    'http2/5.1/11',
    '9113 §5.1',
    'DATA on a closed stream',
    streamError('STREAM_CLOSED'),
    (path) => [headers(get(path)), answered(), data(), ping()],
    { differs: { outcome: 'PING ACK', because: DISCARDED }, forwarded: 1 },
  ),
  row(
    'http2/5.1/12',
    '9113 §5.1',
    'HEADERS on a closed stream',
    connectionError('STREAM_CLOSED'),
    (path) => [headers(get(path)), answered(), headers(get(path)), ping()],
    { differs: { outcome: 'PING ACK', because: DISCARDED }, forwarded: 1 },
  ),
  row(
    'http2/5.1/13',
    '9113 §5.1',
    'CONTINUATION on a closed stream',
    connectionError('STREAM_CLOSED', 'PROTOCOL_ERROR'),
    (path) => [headers(get(path)), answered(), continuation(filler())],
    { forwarded: 1 },
  ),
  row(
    'http2/5.1.1/1',
    '9113 §5.1.1',
    'a request on a stream with an even number',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), WHOLE, 2)],
    { forwarded: 0 },
  ),
  row(
    'http2/5.1.1/2',
    '9113 §5.1.1',
    'a request on a stream with a lower number than the one before',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), WHOLE, 5), headers(get(path), WHOLE, 3), ping()],
    {
      differs: {
        outcome: 'PING ACK',
        because:
          'a stream that was skipped is closed (RFC 9113 §5.1.1), and nghttp2 discards frames on a closed stream',
      },
    },
  ),
  row(
    'http2/5.1.2/1',
    '9113 §5.1.2',
    'one stream more than the gateway allows at a time',
    streamError('PROTOCOL_ERROR', 'REFUSED_STREAM'),
    (path) => [
      settings(INITIAL_WINDOW_SIZE, 0),
      ...Array.from({ length: MAX_STREAMS + 1 }, (_, i) => headers(get(path), WHOLE, 2 * i + 1)),
    ],
  ),
  row(
    'http2/5.3.1/1',
    '7540 §5.3.1',
    'HEADERS that depend on their own stream',
    streamError('PROTOCOL_ERROR'),
    (path) => [headers(Buffer.concat([dependency(1), get(path)]), WHOLE | FLAG.PRIORITY)],
  ),
  row(
    'http2/5.3.1/2',
    '7540 §5.3.1',
    'PRIORITY that depends on its own stream',
    streamError('PROTOCOL_ERROR'),
    () => [priority(1, 1), ping()],
    { differs: { outcome: 'PING ACK', because: NO_DEPENDENCIES } },
  ),
  row(
    'http2/5.4.1/1',
    '9113 §5.4.1',
    'after a connection error the connection is closed',
    connectionError('PROTOCOL_ERROR'),
    () => [frame(TYPE.PING, 0, 3, PING_PAYLOAD)],
  ),
  row('http2/5.4.1/2', '9113 §5.4.1', 'a connection error is told', ['GOAWAY PROTOCOL_ERROR'], () => [
    frame(TYPE.PING, 0, 3, PING_PAYLOAD),
  ]),
  row('http2/5.5/1', '9113 §5.5', 'an extension frame is ignored', PONG, () => [
    frame(UNKNOWN_TYPE, 0, 0, Buffer.alloc(8)),
    ping(),
  ]),
  row(
    'http2/5.5/2',
    '9113 §5.5',
    'an extension frame in the middle of a block',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), END_STREAM), frame(UNKNOWN_TYPE, 0, 0, Buffer.alloc(8))],
    { forwarded: 0 },
  ),
];

/** Each type of frame. */
const FRAME_TYPES: readonly Http2Case[] = [
  row('http2/6.1/1', '9113 §6.1', 'DATA on stream 0', connectionError('PROTOCOL_ERROR'), () => [
    data(END_STREAM, 'test', 0),
  ]),
  row('http2/6.1/2', '9113 §6.1', 'DATA behind the end of a request', streamError('STREAM_CLOSED'), (path) => [
    headers(post(path)),
    data(),
  ]),
  row(
    'http2/6.1/3',
    '9113 §6.1',
    'DATA with more padding than payload',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(post(path, ['content-length', '4']), END_HEADERS), data(END_STREAM | PADDED, padded(6, 'test'))],
    { forwarded: 0 },
  ),
  row(
    'http2/6.2/1',
    '9113 §6.2',
    'HEADERS without END_HEADERS, then PRIORITY',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), 0), priority(1, 0), continuation(filler())],
    { forwarded: 0 },
  ),
  row(
    'http2/6.2/2',
    '9113 §6.2',
    'HEADERS without END_HEADERS, then HEADERS of another stream',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), 0), headers(get(path), WHOLE, 3), continuation(filler())],
    { forwarded: 0 },
  ),
  row(
    'http2/6.2/3',
    '9113 §6.2',
    'HEADERS on stream 0',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), WHOLE, 0)],
    { forwarded: 0 },
  ),
  row(
    'http2/6.2/4',
    '9113 §6.2',
    'HEADERS with more padding than payload',
    streamError('PROTOCOL_ERROR'),
    (path) => [headers(padded(get(path).length + 2, get(path)), WHOLE | PADDED)],
    { forwarded: 0 },
  ),
  row(
    'http2/6.3/1',
    '9113 §6.3',
    'PRIORITY on stream 0',
    connectionError('PROTOCOL_ERROR'),
    () => [priority(0, 0), ping()],
    {
      differs: {
        outcome: 'PING ACK',
        because: 'nghttp2 ignores PRIORITY, although RFC 9113 §6.3 still demands the error',
      },
    },
  ),
  row('http2/6.3/2', '9113 §6.3', 'PRIORITY of four octets', streamError('FRAME_SIZE_ERROR'), (path) => [
    headers(get(path)),
    frame(TYPE.PRIORITY, 0, 1, Buffer.of(0x80, 0, 0, 1)),
  ]),
  row('http2/6.4/1', '9113 §6.4', 'RST_STREAM on stream 0', connectionError('PROTOCOL_ERROR'), () => [
    rstStream(0, CANCEL),
  ]),
  row('http2/6.4/2', '9113 §6.4', 'RST_STREAM on an idle stream', connectionError('PROTOCOL_ERROR'), () => [
    rstStream(1, CANCEL),
  ]),
  row('http2/6.4/3', '9113 §6.4', 'RST_STREAM of three octets', streamError('FRAME_SIZE_ERROR'), (path) => [
    headers(get(path)),
    frame(TYPE.RST_STREAM, 0, 1, Buffer.alloc(3)),
  ]),
  row('http2/6.5/1', '9113 §6.5', 'SETTINGS with ACK and a payload', connectionError('FRAME_SIZE_ERROR'), () => [
    frame(TYPE.SETTINGS, FLAG.ACK, 0, Buffer.alloc(1)),
  ]),
  row('http2/6.5/2', '9113 §6.5', 'SETTINGS on a stream', connectionError('PROTOCOL_ERROR'), () => [
    frame(TYPE.SETTINGS, 0, 1, Buffer.of(0, 3, 0, 0, 0, 100)),
  ]),
  row('http2/6.5/3', '9113 §6.5', 'SETTINGS of three octets', streamError('PROTOCOL_ERROR', 'FRAME_SIZE_ERROR'), () => [
    frame(TYPE.SETTINGS, 0, 0, Buffer.of(0, 3, 0)),
  ]),
  row('http2/6.5.2/1', '9113 §6.5.2', 'ENABLE_PUSH that is neither 0 nor 1', connectionError('PROTOCOL_ERROR'), () => [
    settings(2, 2),
  ]),
  row(
    'http2/6.5.2/2',
    '9113 §6.5.2',
    'INITIAL_WINDOW_SIZE beyond the greatest window',
    connectionError('FLOW_CONTROL_ERROR'),
    () => [settings(INITIAL_WINDOW_SIZE, MAX_WINDOW + 1)],
  ),
  row('http2/6.5.2/3', '9113 §6.5.2', 'MAX_FRAME_SIZE below 16,384', connectionError('PROTOCOL_ERROR'), () => [
    settings(5, 16_383),
  ]),
  row('http2/6.5.2/4', '9113 §6.5.2', 'MAX_FRAME_SIZE beyond 16,777,215', connectionError('PROTOCOL_ERROR'), () => [
    settings(5, 2 ** 24),
  ]),
  row('http2/6.5.2/5', '9113 §6.5.2', 'an unknown parameter is ignored', PONG, () => [settings(0xff, 1), ping()]),
  row(
    'http2/6.5.3/1',
    '9113 §6.5.3',
    'of two values of one parameter the last holds',
    ['DATA 1'],
    (path) => [
      settings(INITIAL_WINDOW_SIZE, 100, INITIAL_WINDOW_SIZE, 1),
      acknowledged(2),
      headers(get(path)),
      hasData,
    ],
    { forwarded: 1 },
  ),
  row('http2/6.5.3/2', '9113 §6.5.3', 'SETTINGS are acknowledged at once', ['SETTINGS ACK'], () => [settings(2, 0)]),
  row('http2/6.7/1', '9113 §6.7', 'PING comes back with its payload', PONG, () => [ping()]),
  row(
    'http2/6.7/2',
    '9113 §6.7',
    'PING with ACK is not answered',
    PONG,
    () => [ping(FLAG.ACK, Buffer.alloc(8, 'x')), ping()],
    {
      differs: {
        outcome: 'GOAWAY INTERNAL_ERROR',
        because: 'Node takes an acknowledgement of a PING that it did not send for a protocol error',
      },
    },
  ),
  row('http2/6.7/3', '9113 §6.7', 'PING on a stream', connectionError('PROTOCOL_ERROR'), () => [
    frame(TYPE.PING, 0, 1, PING_PAYLOAD),
  ]),
  row('http2/6.7/4', '9113 §6.7', 'PING of six octets', connectionError('FRAME_SIZE_ERROR'), () => [
    ping(0, Buffer.alloc(6)),
  ]),
  row('http2/6.8/1', '9113 §6.8', 'GOAWAY on a stream', connectionError('PROTOCOL_ERROR'), () => [goaway(0, 1)]),
  row('http2/6.9/1', '9113 §6.9', 'WINDOW_UPDATE of the connection by 0', connectionError('PROTOCOL_ERROR'), () => [
    windowUpdate(0, 0),
  ]),
  row('http2/6.9/2', '9113 §6.9', 'WINDOW_UPDATE of a stream by 0', streamError('PROTOCOL_ERROR'), (path) => [
    headers(get(path), END_HEADERS),
    windowUpdate(1, 0),
  ]),
  row('http2/6.9/3', '9113 §6.9', 'WINDOW_UPDATE of three octets', connectionError('FRAME_SIZE_ERROR'), () => [
    frame(TYPE.WINDOW_UPDATE, 0, 0, Buffer.of(0, 0, 1)),
  ]),
  row(
    'http2/6.9.1/1',
    '9113 §6.9.1',
    'an answer keeps within a window of one octet',
    ['DATA 1'],
    (path) => [settings(INITIAL_WINDOW_SIZE, 1), acknowledged(2), headers(get(path)), hasData],
    { forwarded: 1 },
  ),
  row(
    'http2/6.9.1/2',
    '9113 §6.9.1',
    'a window of the connection that overflows',
    ['GOAWAY FLOW_CONTROL_ERROR'],
    () => [windowUpdate(0, MAX_WINDOW), windowUpdate(0, MAX_WINDOW)],
  ),
  row(
    'http2/6.9.1/3',
    '9113 §6.9.1',
    'a window of a stream that overflows',
    ['RST_STREAM FLOW_CONTROL_ERROR'],
    (path) => [headers(get(path), END_HEADERS), windowUpdate(1, MAX_WINDOW), windowUpdate(1, MAX_WINDOW)],
    {
      differs: {
        outcome: 'GOAWAY FLOW_CONTROL_ERROR',
        because: 'RFC 9113 §5.4.1 lets a server treat a stream error as a connection error, and nghttp2 does',
      },
    },
  ),
  row(
    'http2/6.9.2/1',
    '9113 §6.9.2',
    'a new INITIAL_WINDOW_SIZE holds for streams that are there',
    ['DATA 1'],
    (path) => [
      settings(INITIAL_WINDOW_SIZE, 0),
      acknowledged(2),
      headers(get(path)),
      settings(INITIAL_WINDOW_SIZE, 1),
      hasData,
    ],
    { forwarded: 1 },
  ),
  row(
    'http2/6.9.2/2',
    '9113 §6.9.2',
    'a window that has become negative is filled up first',
    ['DATA 1'],
    (path) => [
      settings(INITIAL_WINDOW_SIZE, 3),
      acknowledged(2),
      headers(get(path)),
      hasData,
      settings(INITIAL_WINDOW_SIZE, 2),
      acknowledged(3),
      windowUpdate(1, 2),
    ],
    { forwarded: 1 },
  ),
  row(
    'http2/6.9.2/3',
    '9113 §6.9.2',
    'INITIAL_WINDOW_SIZE beyond the greatest window',
    connectionError('FLOW_CONTROL_ERROR'),
    () => [settings(INITIAL_WINDOW_SIZE, MAX_WINDOW + 1)],
  ),
  served('http2/6.10/1', '9113 §6.10', 'a block that goes on in two long CONTINUATION', (path) => [
    headers(get(path), END_STREAM),
    continuation(filler(), 0),
    continuation(filler()),
  ]),
  row(
    'http2/6.10/2',
    '9113 §6.10',
    'CONTINUATION without END_HEADERS, then DATA',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(post(path), 0), continuation(filler(), 0), data()],
    { forwarded: 0 },
  ),
  row(
    'http2/6.10/3',
    '9113 §6.10',
    'CONTINUATION on stream 0',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), END_STREAM), continuation(filler(), END_HEADERS, 0)],
    { forwarded: 0 },
  ),
  row(
    'http2/6.10/4',
    '9113 §6.10',
    'CONTINUATION behind HEADERS with END_HEADERS',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path)), continuation(filler())],
  ),
  row(
    'http2/6.10/5',
    '9113 §6.10',
    'CONTINUATION behind CONTINUATION with END_HEADERS',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(get(path), END_STREAM), continuation(filler()), continuation(filler())],
  ),
  row(
    'http2/6.10/6',
    '9113 §6.10',
    'CONTINUATION behind DATA',
    connectionError('PROTOCOL_ERROR'),
    (path) => [headers(post(path), 0), data(), continuation(filler(), 0), continuation(filler(), END_HEADERS, 0)],
    { forwarded: 0 },
  ),
];

const [METHOD, SCHEME, AUTHORITY] = pseudo('');
const pathField = (path: string): Field => [':path', path];

/** Error codes and HTTP messages. */
const MESSAGES: readonly Http2Case[] = [
  row('http2/7/1', '9113 §7', 'GOAWAY with an unknown code', [...PONG, 'closed'], () => [goaway(0xff), ping()], {
    closes: true,
  }),
  row(
    'http2/7/2',
    '9113 §7',
    'RST_STREAM with an unknown code',
    [...PONG, 'closed'],
    (path) => [headers(post(path), END_HEADERS), rstStream(1, 0xff), ping()],
    { forwarded: 0 },
  ),
  row(
    'http2/8.1/1',
    '9113 §8.1',
    'trailers that do not end the stream',
    streamError('PROTOCOL_ERROR'),
    (path) => [headers(post(path), END_HEADERS), data(0), headers(fieldBlock([['x-test', 'ok']]), END_HEADERS)],
    { forwarded: 0 },
  ),
  row(
    'http2/8.1.2.1/3',
    '9113 §8.1',
    'a pseudo-header field in trailers',
    streamError('PROTOCOL_ERROR'),
    (path) => [headers(post(path), END_HEADERS), data(0), headers(fieldBlock([[':method', 'POST']]), END_HEADERS)],
    { forwarded: 0 },
  ),
  ...(
    [
      ['8.1.2/1', '§8.2.1', 'an upper-case name', (path) => [...pseudo(path), ['X-TEST', 'ok']]],
      ['8.1.2.1/1', '§8.3', 'an unknown pseudo-header field', (path) => [...pseudo(path), [':test', 'ok']]],
      ['8.1.2.1/2', '§8.3', 'a pseudo-header field of answers', (path) => [...pseudo(path), [':status', '200']]],
      ['8.1.2.1/4', '§8.3', 'a pseudo-header field behind another', (path) => [['x-test', 'ok'], ...pseudo(path)]],
      ['8.1.2.2/1', '§8.2.2', 'Connection', (path) => [...pseudo(path), ['connection', 'keep-alive']]],
      [
        '8.1.2.2/2',
        '§8.2.2',
        'TE with more than trailers',
        (path) => [...pseudo(path), ['trailers', 'test'], ['te', 'trailers, deflate']],
      ],
      ['8.1.2.3/1', '§8.3.1', 'an empty :path', () => pseudo('')],
      ['8.1.2.3/2', '§8.3.1', 'no :method', (path) => [SCHEME!, AUTHORITY!, pathField(path)]],
      ['8.1.2.3/3', '§8.3.1', 'no :scheme', (path) => [METHOD!, AUTHORITY!, pathField(path)]],
      ['8.1.2.3/4', '§8.3.1', 'no :path', () => [METHOD!, SCHEME!, AUTHORITY!]],
      ['8.1.2.3/5', '§8.3.1', ':method twice', (path) => [...pseudo(path), METHOD!]],
      ['8.1.2.3/6', '§8.3.1', ':scheme twice', (path) => [...pseudo(path), SCHEME!]],
      ['8.1.2.3/7', '§8.3.1', ':path twice', (path) => [...pseudo(path), pathField(path)]],
    ] as const satisfies readonly [string, string, string, (path: string) => readonly Field[]][]
  ).map(
    ([id, section, what, fields]): Http2Case => ({
      id: `http2/${id}`,
      rfc: `9113 ${section}`,
      what: `a request with ${what}`,
      send: (path) => [headers(fieldBlock(fields(path)))],
      expect: streamError('PROTOCOL_ERROR'),
      forwarded: 0,
    }),
  ),
  row(
    'http2/8.1.2.6/1',
    '9113 §8.1.1',
    'a body that is longer than its Content-Length',
    streamError('PROTOCOL_ERROR'),
    (path) => [headers(post(path, ['content-length', '1']), END_HEADERS), data()],
    { differs: { outcome: 'GOAWAY INTERNAL_ERROR', because: CODE_OF_NODE }, forwarded: 0 },
  ),
  row(
    'http2/8.1.2.6/2',
    '9113 §8.1.1',
    'a body of two DATA that is longer than its Content-Length',
    streamError('PROTOCOL_ERROR'),
    (path) => [headers(post(path, ['content-length', '1']), END_HEADERS), data(0), data()],
    { differs: { outcome: 'GOAWAY INTERNAL_ERROR', because: CODE_OF_NODE }, forwarded: 0 },
  ),
  row(
    'http2/8.2/1',
    '9113 §8.4',
    'PUSH_PROMISE of a client',
    connectionError('PROTOCOL_ERROR'),
    (path) => [frame(TYPE.PUSH_PROMISE, END_HEADERS, 1, Buffer.concat([Buffer.of(0, 0, 0, 3), get(path)]))],
    { forwarded: 0 },
  ),
];

/** A decoding error ends the connection, because both sides would disagree about the dynamic table from then on. */
const HPACK: readonly Http2Case[] = (
  [
    ['2.3.3/1', '§2.3.3', 'an indexed field beyond both tables', withEnd(0x80 | 70)],
    ['2.3.3/2', '§2.3.3', 'a literal field whose name is beyond both tables', withEnd(0x7f, 70 - 63, 0)],
    ['4.2/1', '§4.2', 'a table size update behind a field', withEnd(0x21)],
    [
      '5.2/1',
      '§5.2',
      'Huffman code with more than seven bits of padding',
      withEnd(0, HUFFMAN_NAME, HUFFMAN | 4, HUFFMAN_VALUE.subarray(1), 0xff),
    ],
    ['5.2/2', '§5.2', 'Huffman code padded with zeros', withEnd(0, HUFFMAN_NAME, HUFFMAN | 3, 0x49, 0x50, 0x90)],
    [
      '5.2/3',
      '§5.2',
      'Huffman code with EOS in its middle',
      withEnd(0, HUFFMAN_NAME, HUFFMAN | 7, 0x49, 0x51, 0xff, 0xff, 0xff, 0xfa, 0x7f),
    ],
    ['6.1/1', '§6.1', 'an indexed field with the index 0', withEnd(0x80)],
    [
      '6.3/1',
      '§6.3',
      'a table size update beyond SETTINGS_HEADER_TABLE_SIZE',
      (path) => [headers(Buffer.concat([TABLE_OF_4097, get(path)]))],
    ],
  ] as const satisfies readonly [string, string, string, Http2Case['send']][]
).map(([id, section, what, send]) => ({
  id: `hpack/${id}`,
  rfc: `7541 ${section}`,
  what,
  send,
  expect: connectionError('COMPRESSION_ERROR'),
  forwarded: 0,
}));

/** All cases of h2spec 2.6. */
export const HTTP2_CASES: readonly Http2Case[] = [
  ...GENERIC,
  ...FRAMES_AND_STREAMS,
  ...FRAME_TYPES,
  ...MESSAGES,
  ...HPACK,
];
