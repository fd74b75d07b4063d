import {
  brotliCompressSync,
  constants,
  createGzip,
  createZstdCompress,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { fieldValues } from '../../src/http1/fields.ts';
import { PoolThreads } from '../../src/io/pool-threads.ts';
import { AnswerReader, type StartDecoding } from '../../src/meter/answer-reader.ts';
import { type CostReading, type CostSource, MAX_AMOUNT } from '../../src/meter/cost.ts';
import { Decoders } from '../../src/meter/decoders.ts';

const TOKENS: CostSource = { kind: 'json', pointer: ['u', 't'] };
const OF_EVENTS: CostSource = { kind: 'sse', pointer: ['u', 't'] };
const OF_LINES: CostSource = { kind: 'ndjson', pointer: ['u', 't'] };
const COST: CostSource = { kind: 'header', name: 'x-cost' };
const startOf =
  (decoders: Decoders): StartDecoding =>
  (coding, first, read) =>
    decoders.start(coding, first, 'key_1', { read, waitForTurn: () => false });
const JSON_TYPE = ['Content-Type', 'application/json'];

const known = (amount: number): CostReading => ({ kind: 'known', amount });
const unknown = (why: Extract<CostReading, { why: string }>['why'], seen: number | null = null): CostReading => ({
  kind: 'unknown',
  why,
  seen,
});

interface Answer {
  readonly fields?: readonly string[];
  readonly body?: string | Buffer | readonly Buffer[];
  readonly isWhole?: boolean;
  readonly decoders?: Decoders;
}

/** The reading of one unit with these sources. */
async function readingOf(
  sources: readonly CostSource[],
  { fields = [], body = [], isWhole = true, decoders = new Decoders(new PoolThreads()) }: Answer,
) {
  const reader = new AnswerReader([{ sources }], fieldValues(fields), startOf(decoders));
  for (const piece of Array.isArray(body) ? (body as Buffer[]) : [Buffer.from(body as string)]) {
    // Its memory is used again.
    const lent = Buffer.from(piece);
    reader.chunk(lent);
    lent.fill('x');
  }
  const readings = await reader.end(isWhole, 12.1);
  expect(decoders.open).toBe(0);
  expect(readings).toHaveLength(1);
  return readings[0]!;
}

/** Any stream in small pieces. */
function piecesOf(bytes: Buffer, size = 1000): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

describe('a header field', () => {
  test.each<[string, string[], CostReading]>([
    ['counts', ['X-Cost', '7'], known(7)],
    ['is rounded up', ['x-cost', '0.2'], known(1)],
    ['may be 0', ['X-Cost', '0'], known(0)],
    ['twice is invalid', ['X-Cost', '7', 'x-cost', '7'], unknown('invalid')],
    ['as a list is invalid', ['X-Cost', '7, 7'], unknown('invalid')],
    ['that is empty is invalid', ['X-Cost', ''], unknown('invalid')],
    ['that is missing leaves the body', ['X-Costs', '7'], known(5)],
  ])('%s', async (_what, fields, reading) => {
    expect(await readingOf([TOKENS, COST], { fields: [...fields, ...JSON_TYPE], body: '{"u":{"t":5}}' })).toEqual(
      reading,
    );
  });
});

describe('the media type', () => {
  const bodies = {
    json: '{"u":{"t":1}}',
    sse: 'data: {"u":{"t":2}}\n\n',
    ndjson: '{"u":{"t":0}}\n{"u":{"t":3}}\n',
    sequence: '\x1e{"u":\n{"t":0}}\n\x1e{"u":\n{"t":4}}\n',
  };
  test.each<[string | null, keyof typeof bodies, CostReading]>([
    ['application/json', 'json', known(1)],
    ['Application/JSON; charset=utf-8', 'json', known(1)],
    ['application/vnd.api+json', 'json', known(1)],
    ['text/event-stream;charset=utf-8', 'sse', known(2)],
    ['application/x-ndjson', 'ndjson', known(3)],
    ['application/ndjson', 'ndjson', known(3)],
    ['application/jsonl', 'ndjson', known(3)],
    ['application/x-jsonlines', 'ndjson', known(3)],
    ['text/json', 'json', known(1)],
    ['application/jsonlines', 'ndjson', known(3)],
    ['application/stream+json', 'ndjson', known(3)],
    ['application/json-seq', 'sequence', known(4)],
    ['text/html', 'json', unknown('absent')],
    ['text/plain', 'json', unknown('absent')],
    [null, 'json', unknown('absent')],
  ])('%s chooses the source', async (type, body, reading) => {
    const fields = type === null ? [] : ['Content-Type', type];
    expect(await readingOf([TOKENS, OF_EVENTS, OF_LINES], { fields, body: bodies[body] })).toEqual(reading);
  });

  test.each([
    ['UTF-16LE', 'utf16le'],
    ['UTF-16BE', 'utf16be'],
    ['UTF-8', 'utf8'],
  ])('in %s, with and without a byte order mark, whole and byte by byte (reliability 357)', async (_name, encoding) => {
    for (const [type, body, cost] of [
      ['application/json', '{"é":"€😀","u":{"t":1}}', 1],
      ['text/event-stream', 'data: {"é":1}\n\ndata: {"u":{"t":2}}\n\n', 2],
      ['application/x-ndjson', bodies.ndjson, 3],
      ['application/json-seq', bodies.sequence, 4],
    ] as const) {
      for (const text of [body, `\ufeff${body}`]) {
        const bytes = encoding === 'utf8' ? Buffer.from(text) : Buffer.from(text, 'utf16le');
        if (encoding === 'utf16be') bytes.swap16();
        for (const pieces of [[bytes], piecesOf(bytes, 1)]) {
          const fields = ['Content-Type', type];
          expect(await readingOf([TOKENS, OF_EVENTS, OF_LINES], { fields, body: pieces })).toEqual(known(cost));
        }
      }
    }
  });

  test.each<[string, string[], CostReading]>([
    ['of an answer without', [], known(1)],
    ['of plain text', ['Content-Type', 'text/plain; charset=utf-8'], known(1)],
    ['of a page', ['Content-Type', 'text/html'], unknown('absent')],
    ['that is there twice', [...JSON_TYPE, ...JSON_TYPE], unknown('absent')],
  ])('%s leaves a single source', async (_what, fields, reading) => {
    expect(await readingOf([COST, TOKENS], { fields, body: bodies.json })).toEqual(reading);
  });

  test('that has no source leaves the length', async () => {
    const sources: CostSource[] = [TOKENS, { kind: 'bytes' }];
    expect(await readingOf(sources, { fields: ['Content-Type', 'text/html'], body: 'hello' })).toEqual(known(5));
    expect(await readingOf(sources, { fields: JSON_TYPE, body: 'hello' })).toEqual(unknown('invalid'));
  });
});

describe('what is measured:', () => {
  test('bytes as they are sent, and milliseconds rounded up', async () => {
    const body = gzipSync('{"a":1}');
    expect(await readingOf([{ kind: 'bytes' }], { fields: ['Content-Encoding', 'gzip'], body })).toEqual(
      known(body.length),
    );
    expect(await readingOf([{ kind: 'milliseconds' }], {})).toEqual(known(13));
  });

  test('a duration beyond the largest amount', () => {
    const reader = new AnswerReader(
      [{ sources: [{ kind: 'milliseconds' }] }],
      fieldValues([]),
      startOf(new Decoders(new PoolThreads())),
    );
    expect(reader.end(true, MAX_AMOUNT + 1)).toEqual([unknown('too_large')]);
  });
});

test('several units are read at once, each from its source', () => {
  const reader = new AnswerReader(
    [
      { sources: [OF_EVENTS, TOKENS] },
      { sources: [{ kind: 'json', pointer: ['images', '1'] }] },
      { sources: [COST] },
      { sources: [{ kind: 'bytes' }] },
    ],
    fieldValues([...JSON_TYPE, 'X-Cost', '1.5']),
    startOf(new Decoders(new PoolThreads())),
  );
  reader.chunk(Buffer.from('{"images":[1,2],'));
  reader.chunk(Buffer.from('"u":{"t":5}}'));
  expect(reader.end(true, 1)).toEqual([known(5), known(2), known(2), known(28)]);
});

describe('an answer that breaks off (reliability 293)', () => {
  test.each<[string, CostSource, string[], string, number | null]>([
    ['in its JSON', TOKENS, JSON_TYPE, '{"u":{"t":5}', 5],
    ['in the number', TOKENS, JSON_TYPE, '{"u":{"t":5', null],
    ['before the number', TOKENS, JSON_TYPE, '{"u":', null],
    ['in an event', OF_EVENTS, ['Content-Type', 'text/event-stream'], 'data: {"u":{"t":5}}\n\ndata: {"u":{"t":6', 5],
    ['with an invalid field', COST, ['X-Cost', '-7'], '', null],
    ['of a length', { kind: 'bytes' }, [], 'hello', 5],
    ['of a duration', { kind: 'milliseconds' }, [], '', 13],
    ['that is undecodable', TOKENS, ['Content-Encoding', 'x'], 'hello', null],
  ])('%s', async (_where, source, fields, body, seen) => {
    expect(await readingOf([source], { fields, body, isWhole: false })).toEqual(unknown('cut', seen));
  });

  test('with a field, which says what it costs all the same', async () => {
    const cut = { fields: ['X-Cost', '7'], body: '', isWhole: false };
    expect(await readingOf([COST], cut)).toEqual(known(7));
  });

  test('while it is decompressed: all that has arrived is read (reliability 344)', async () => {
    const decoders = new Decoders(new PoolThreads());
    const reader = new AnswerReader(
      [{ sources: [TOKENS] }],
      fieldValues([...JSON_TYPE, 'Content-Encoding', 'gzip']),
      startOf(decoders),
    );
    reader.chunk(gzipSync('{"u":{"t":5}}').subarray(0, -8));
    expect(decoders.open).toBe(1);
    expect(await reader.end(false, 1)).toEqual([unknown('cut', 5)]);
    expect(decoders.open).toBe(0);
  });
});

test.each([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
] as const)(
  '%s that breaks off is read to where it does, in the turns of its consumer (reliability 293)',
  async (coding, compress) => {
    const decoders = new Decoders(new PoolThreads());
    const turns: (() => void)[] = [];
    const start: StartDecoding = (name, first, read) =>
      decoders.start(name, first, 'key_1', { read, waitForTurn: (next) => turns.push(next) > 0 });
    const fields = ['Content-Type', 'text/event-stream', 'Content-Encoding', coding];
    const reader = new AnswerReader([{ sources: [OF_EVENTS] }], fieldValues(fields), start);
    const events = Array.from({ length: 8000 }, (_, i) => `data: {"u":{"t":${i}}}\n\n`).join('');
    const body = compress(events).subarray(0, -1);
    reader.chunk(body);
    const ended = Promise.resolve(reader.end(false, 1));
    let isOver = false;
    void ended.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      // What another reader reads without a wait has long been decompressed when the turn comes.
      await readingOf([OF_EVENTS], { fields, body: [body] });
      turns.shift()?.();
    }
    const [reading] = await ended;
    expect(reading).toMatchObject({ kind: 'unknown', why: 'cut' });
    // Of zstd, whose blocks have 128 KiB, the last one is missing.
    expect((reading as { seen: number }).seen).toBeGreaterThan(coding === 'zstd' ? 5000 : 7990);
    expect(decoders.open).toBe(0);
  },
);

const TEXT = JSON.stringify({ x: Array.from({ length: 5000 }, (_, i) => (i * 7919) % 10_007), u: { t: 5 } });
const CODINGS: [string, Buffer][] = [
  ['gzip', gzipSync(TEXT)],
  ['X-GZip', gzipSync(TEXT)],
  ['deflate', deflateSync(TEXT)],
  ['Deflate', deflateRawSync(TEXT)],
  ['deflate', deflateRawSync(TEXT, { level: 0 })],
  ['deflate', deflateRawSync(TEXT, { strategy: constants.Z_FIXED })],
  ['br', brotliCompressSync(TEXT)],
  ['zstd', zstdCompressSync(TEXT)],
];

describe.each(CODINGS)('Content-Encoding %s:', (coding, body) => {
  const fields = [...JSON_TYPE, 'Content-Encoding', coding];

  test('whole, in pieces and byte by byte', async () => {
    expect(await readingOf([TOKENS], { fields, body })).toEqual(known(5));
    expect(await readingOf([TOKENS], { fields, body: piecesOf(body) })).toEqual(known(5));
    const small = piecesOf(body, 1).slice(0, 300);
    expect(await readingOf([TOKENS], { fields, body: [...small, body.subarray(300)] })).toEqual(known(5));
  });

  test('cut, other bytes, and bytes behind its end are undecodable', async () => {
    const readings = [
      await readingOf([TOKENS], { fields, body: body.subarray(0, -3) }),
      await readingOf([TOKENS], { fields, body: body.subarray(0, 10) }),
      await readingOf([TOKENS], { fields, body: 'hello, this is no such coding' }),
      await readingOf([TOKENS], { fields, body: Buffer.concat([body, Buffer.from('hello')]) }),
      await readingOf([TOKENS], { fields, body: [body, Buffer.from('hello')] }),
    ];
    for (const reading of readings) expect(reading).toMatchObject({ kind: 'unknown', why: 'undecodable' });
  });

  test('no body', async () => {
    expect(await readingOf([TOKENS], { fields })).toEqual(unknown('absent'));
  });
});

test('gzip of several members is read as one, in any pieces, with padding of zeros (reliability 342)', async () => {
  const fields = [...JSON_TYPE, 'Content-Encoding', 'gzip'];
  const members = [...piecesOf(Buffer.from(TEXT), 999).map((piece) => gzipSync(piece)), gzipSync('')];
  const body = Buffer.concat([...members, Buffer.alloc(8)]);
  for (const pieces of [[body], members, piecesOf(body, 7)]) {
    expect(await readingOf([TOKENS], { fields, body: pieces })).toEqual(known(5));
  }
});

test.each<[string[], CostReading]>([
  [['Content-Encoding', 'identity'], known(5)],
  [['Content-Encoding', ''], known(5)],
  [['Content-Encoding', 'gzip, gzip'], unknown('undecodable')],
  [['Content-Encoding', 'br', 'Content-Encoding', 'gzip'], unknown('undecodable')],
  [['Content-Encoding', 'compress'], unknown('undecodable')],
  [['Content-Encoding', 'constructor'], unknown('undecodable')],
])('%j', async (fields, reading) => {
  expect(await readingOf([TOKENS], { fields: [...JSON_TYPE, ...fields], body: '{"u":{"t":5}}' })).toEqual(reading);
});

/** What a compressor makes of `pieces` times the same piece. */
async function compressed(
  stream: NodeJS.ReadWriteStream,
  piece: Buffer,
  pieces: number,
  last: Buffer = Buffer.alloc(0),
): Promise<Buffer[]> {
  const out: Buffer[] = [];
  stream.on('data', (bytes: Buffer) => out.push(bytes));
  for (let i = 0; i < pieces; i++) await new Promise((resolve) => stream.write(piece, resolve));
  await new Promise((resolve) => stream.once('end', resolve).end(last));
  return out;
}

describe('Attack:', () => {
  const gzip = [...JSON_TYPE, 'Content-Encoding', 'gzip'];

  test.each<[string, () => NodeJS.ReadWriteStream, string, string]>([
    ['JSON', () => createGzip({ level: 1 }), 'application/json', ' '],
    ['events', () => createZstdCompress(), 'text/event-stream', ':\n\n\n'],
  ])(
    'a number behind 100 MiB of %s that are compressed to little is found (reliability 343)',
    async (_what, make, type, text) => {
      const pieces = await compressed(
        make(),
        Buffer.alloc(1 << 20, text),
        100,
        Buffer.from('data: {"u":{"t":5}}\n\n'.slice(type === 'application/json' ? 6 : 0)),
      );
      const coding = type === 'application/json' ? 'gzip' : 'zstd';
      const answer = { fields: ['Content-Type', type, 'Content-Encoding', coding], body: pieces };
      expect(await readingOf([TOKENS, OF_EVENTS], answer)).toEqual(known(5));
    },
  );

  test('of a GiB of zeros in gzip little is decompressed (reliability 292)', async () => {
    const zeros = await compressed(createGzip({ level: 1 }), Buffer.alloc(16 << 20), 64);
    expect(Buffer.concat(zeros).length).toBeGreaterThan(1 << 20);
    const decoders = new Decoders(new PoolThreads());
    const reader = new AnswerReader([{ sources: [TOKENS] }], fieldValues(gzip), startOf(decoders));
    for (const piece of zeros.slice(0, 8)) reader.chunk(piece);
    const readings = reader.end(true, 1);
    expect(decoders.open).toBe(1);
    expect(await readings).toEqual([unknown('invalid')]);
    expect(decoders.open).toBe(0);
  });

  test('a zstd window of 32 MiB is refused (reliability 292)', async () => {
    const options = { params: { [constants.ZSTD_c_windowLog]: 25 } };
    const body = await compressed(createZstdCompress(options), Buffer.alloc(1 << 20, ' '), 2);
    const fields = [...JSON_TYPE, 'Content-Encoding', 'zstd'];
    expect(await readingOf([TOKENS], { fields, body })).toEqual(unknown('undecodable'));
  });

  test('what is not decompressed when the gateway stops is given up, and its place given back', async () => {
    const decoders = new Decoders(new PoolThreads());
    const reader = new AnswerReader([{ sources: [TOKENS] }], fieldValues(gzip), startOf(decoders));
    reader.chunk(gzipSync('{"u":{"t":5}}').subarray(0, 20));
    const readings = reader.end(true, 1);
    decoders.giveUp();
    expect(await readings).toEqual([unknown('busy')]);
    expect(decoders.open).toBe(0);
  });
});

test('a compressed event stream gives its last event, also if it is undecodable at its end', async () => {
  const events = Array.from({ length: 500 }, (_, i) => `data: {"u":{"t":${i}}}\n\n`).join('');
  const fields = ['Content-Type', 'text/event-stream', 'Content-Encoding', 'zstd'];
  expect(await readingOf([OF_EVENTS], { fields, body: piecesOf(zstdCompressSync(events), 50) })).toEqual(known(499));
  const body = [gzipSync(events).subarray(0, -8), Buffer.alloc(8)];
  const fieldsOfGzip = [...fields.slice(0, 3), 'gzip'];
  expect(await readingOf([OF_EVENTS], { fields: fieldsOfGzip, body })).toEqual(unknown('undecodable', 499));
});
