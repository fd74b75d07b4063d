import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { fieldValues } from '../../src/http1/fields.ts';
import { PoolThreads } from '../../src/io/pool-threads.ts';
import { AnswerReader } from '../../src/meter/answer-reader.ts';
import {
  type ChosenRows,
  type CostSource,
  type PlainSource,
  pointerOf,
  type Table,
  type Times,
} from '../../src/meter/cost.ts';
import { Decoders } from '../../src/meter/decoders.ts';
import { factorOf } from '../../src/meter/factor.ts';

// What a sum reads of an answer, in whatever pieces that comes.

const times = (number: number): Times => factorOf(number)!;
const part = (source: PlainSource, by: Times) => ({
  source,
  of: source.kind === 'header' ? source.name : source.pointer.join('/'),
  times: by,
});
const at = (kind: 'json' | 'sse' | 'ndjson', pointer: string): PlainSource => ({ kind, pointer: pointerOf(pointer)! });

function sum(kind: 'json' | 'sse' | 'ndjson', prompt: Times, completion: Times): CostSource {
  const parts = [part(at(kind, '/usage/prompt'), prompt), part(at(kind, '/usage/completion'), completion)];
  return { kind: 'sum', parts };
}

const SOURCES = (['json', 'sse', 'ndjson'] as const).map((kind) => sum(kind, times(3), times(15)));
const JSON_TYPE = 'application/json';
const SSE = 'text/event-stream';

interface Answer {
  readonly type?: string;
  readonly fields?: readonly string[];
  readonly body: string | Buffer;
  readonly isWhole?: boolean;
}

/** The reading of one unit; the body comes whole, and once more byte by byte. */
async function readingOf(sources: readonly CostSource[], answer: Answer, rows: ChosenRows | null = null) {
  const { type, fields = [], body, isWhole = true } = answer;
  const head = fieldValues([...fields, ...(type === undefined ? [] : ['Content-Type', type])]);
  const bytes = Buffer.from(body as string);
  const read = async (size: number) => {
    const decoders = new Decoders(new PoolThreads());
    const reader = new AnswerReader(
      [{ sources }],
      head,
      (coding, first, next) => decoders.start(coding, first, 'key_1', { read: next, waitForTurn: () => false }),
      rows,
    );
    for (let i = 0; i < bytes.length; i += size) reader.chunk(Buffer.from(bytes.subarray(i, i + size)));
    return (await reader.end(isWhole, 5))[0]!;
  };
  const reading = await read(Infinity);
  expect(await read(1)).toEqual(reading);
  return reading;
}

const known = (amount: number) => expect.objectContaining({ kind: 'known', amount });
const unknown = (why: string, seen: number | null = null) => ({ kind: 'unknown', why, seen });

test('a sum says what it is made of', async () => {
  const body = '{"usage":{"prompt":7,"completion":0.5}}';
  expect(await readingOf(SOURCES, { type: JSON_TYPE, body })).toEqual({
    kind: 'known',
    amount: 29,
    parts: [
      { of: 'usage/prompt', amount: 7, times: 3 },
      { of: 'usage/completion', amount: 0.5, times: 15 },
    ],
  });
});

test.each<[string, Answer, unknown]>([
  ['a part that is absent is 0', { type: JSON_TYPE, body: '{"usage":{"completion":2}}' }, known(30)],
  ['a part that is null is 0', { type: JSON_TYPE, body: '{"usage":{"prompt":null,"completion":2}}' }, known(30)],
  ['without any part', { type: JSON_TYPE, body: '{"usage":{}}' }, unknown('absent')],
  [
    'parts of different events',
    { type: SSE, body: 'data: {"usage":{"prompt":4}}\n\ndata: {"usage":{"completion":1}}\n\n' },
    known(27),
  ],
  [
    'the last event that has a part',
    {
      type: SSE,
      body: 'data: {"usage":{"prompt":9}}\n\ndata: {"usage":{"prompt":4,"completion":1}}\n\ndata: [DONE]\n\n',
    },
    known(27),
  ],
  ['lines', { type: 'application/x-ndjson', body: '{"usage":{"prompt":1}}\n{"usage":{"completion":1}}\n' }, known(18)],
  [
    'a sequence',
    { type: 'application/json-seq', body: '\x1e{"usage":{"prompt":1}}\n\x1e{"usage":{"completion":1}}\n' },
    known(18),
  ],
  ['another media type', { type: 'text/html', body: '{"usage":{"prompt":1}}' }, unknown('absent')],
  ['a text of digits', { type: JSON_TYPE, body: '{"usage":{"prompt":"10"}}' }, known(30)],
  [
    'a negative part (reliability 595)',
    { type: JSON_TYPE, body: '{"usage":{"prompt":-5,"completion":1}}' },
    unknown('invalid', 15),
  ],
  [
    '1e308 (reliability 595)',
    { type: JSON_TYPE, body: '{"usage":{"prompt":1e308,"completion":1}}' },
    unknown('invalid', 15),
  ],
  [
    'a text that is no number (reliability 595)',
    { type: JSON_TYPE, body: '{"usage":{"completion":1,"prompt":"NaN"}}' },
    unknown('invalid', 15),
  ],
  [
    'NaN (reliability 595)',
    { type: JSON_TYPE, body: '{"usage":{"completion":1,"prompt":NaN}}' },
    unknown('invalid', 15),
  ],
  [
    'a list in place of a number (reliability 595)',
    { type: JSON_TYPE, body: `{"usage":{"completion":1,"prompt":${'['.repeat(5000)}${']'.repeat(5000)}}}` },
    unknown('invalid', 15),
  ],
  [
    'a number twice (reliability 595)',
    { type: JSON_TYPE, body: '{"usage":{"completion":1,"prompt":1,"prompt":2}}' },
    unknown('invalid', 21),
  ],
  [
    'more than an amount may be (reliability 595)',
    { type: JSON_TYPE, body: '{"usage":{"prompt":1e12}}' },
    unknown('too_large'),
  ],
  ['an answer that breaks off', { type: JSON_TYPE, body: '{"usage":{"prompt":2,', isWhole: false }, unknown('cut', 6)],
  [
    'a stream that breaks off',
    { type: SSE, body: 'data: {"usage":{"prompt":2}}\n\ndata: {"us', isWhole: false },
    unknown('cut', 6),
  ],
  [
    'a compressed answer',
    { type: JSON_TYPE, fields: ['Content-Encoding', 'gzip'], body: gzipSync('{"usage":{"prompt":1,"completion":1}}') },
    known(18),
  ],
])('%s', async (_what, answer, reading) => {
  expect(await readingOf(SOURCES, answer)).toEqual(reading);
});

describe('with fields', () => {
  const field = (name: string): PlainSource => ({ kind: 'header', name });
  const mixed: CostSource = {
    kind: 'sum',
    parts: [part(field('x-in'), times(0.5)), part(at('json', '/out'), times(2))],
  };
  const rows: CostSource = { kind: 'header', name: 'x-rows' };

  test.each<[string, readonly CostSource[], Answer, unknown]>([
    ['a field and the body', [mixed], { type: JSON_TYPE, fields: ['X-In', '3'], body: '{"out":1}' }, known(4)],
    ['a field alone', [mixed], { type: 'text/html', fields: ['X-In', '3'], body: '' }, known(2)],
    [
      'a field twice',
      [mixed],
      { type: JSON_TYPE, fields: ['X-In', '3', 'X-In', '3'], body: '{"out":1}' },
      unknown('invalid', 2),
    ],
    [
      'another source, which is a field',
      [mixed, rows],
      { type: JSON_TYPE, fields: ['X-Rows', '8'], body: '{"out":1}' },
      known(8),
    ],
    [
      'what is measured, if no part can be there',
      [mixed, { kind: 'bytes' }],
      { type: 'text/html', body: 'abc' },
      known(3),
    ],
    [
      'a field of an answer that breaks off',
      [mixed],
      { type: 'text/html', fields: ['X-In', '3'], body: '', isWhole: false },
      known(2),
    ],
  ])('%s', async (_what, sources, answer, reading) => {
    expect(await readingOf(sources, answer)).toEqual(reading);
  });
});

describe('with a table by a value of the answer', () => {
  const tableOf = (hasDefault: boolean): Table => ({
    by: { of: 'answer', sources: [{ kind: 'header', name: 'x-model' }, at('json', '/model'), at('sse', '/model')] },
    rows: new Map([
      ['cheap', 0],
      ['déàr "1"', 1],
    ]),
    hasDefault,
  });
  const priced = (table: Table, others: number): readonly CostSource[] => {
    const prompt = { table, factors: [1, 10, others].map((number) => factorOf(number)!) };
    return (['json', 'sse'] as const).map((kind) => sum(kind, prompt, times(0)));
  };
  const FIXED = priced(tableOf(true), 4);
  const LARGEST = priced(tableOf(false), 10);
  const usage = '"usage":{"prompt":5}';

  test.each<[string, Answer, number, number]>([
    ['the row that it names', { type: JSON_TYPE, body: `{"model":"cheap",${usage}}` }, 5, 5],
    ['behind the cost', { type: JSON_TYPE, body: `{${usage},"model":"cheap"}` }, 5, 5],
    ['in another spelling of JSON', { type: JSON_TYPE, body: `{${usage},"model":"d\\u00e9\\u00e0r \\"1\\""}` }, 50, 50],
    ['in UTF-8', { type: JSON_TYPE, body: `{${usage},"model":"déàr \\"1\\""}` }, 50, 50],
    ['in a field', { type: JSON_TYPE, fields: ['X-Model', 'cheap'], body: `{"model":"déàr",${usage}}` }, 5, 5],
    [
      'in each event',
      { type: SSE, body: `data: {"model":"cheap","x":1}\n\ndata: {"model":"cheap",${usage}}\n\n` },
      5,
      5,
    ],
    ['in the first event', { type: SSE, body: `data: {"model":"cheap"}\n\ndata: {${usage}}\n\n` }, 5, 5],
    ['another name is never free (reliability 596)', { type: JSON_TYPE, body: `{"model":"other",${usage}}` }, 20, 50],
    ['nor no name (reliability 596)', { type: JSON_TYPE, body: `{${usage}}` }, 20, 50],
    ['nor a number (reliability 596)', { type: JSON_TYPE, body: `{"model":0,${usage}}` }, 20, 50],
    [
      'nor a name twice (reliability 596)',
      { type: JSON_TYPE, body: `{"model":"cheap","model":"cheap",${usage}}` },
      20,
      50,
    ],
    [
      'nor a long one (reliability 596)',
      { type: JSON_TYPE, body: `{"model":"${'cheap'.repeat(10_000)}",${usage}}` },
      20,
      50,
    ],
    [
      'nor one of every object (reliability 596)',
      { type: JSON_TYPE, body: `{"model":"constructor",${usage}}` },
      20,
      50,
    ],
  ])('%s', async (_what, answer, withDefault, without) => {
    expect(await readingOf(FIXED, answer)).toEqual(known(withDefault));
    expect(await readingOf(LARGEST, answer)).toEqual(known(without));
  });

  test('reports name the row, or what was taken in its place', async () => {
    const rowOf = async (sources: readonly CostSource[], model: string) =>
      (await readingOf(sources, { type: JSON_TYPE, body: `{"model":"${model}",${usage}}` })) as {
        readonly parts: readonly { readonly row: string }[];
      };
    expect((await rowOf(FIXED, 'cheap')).parts[0]!.row).toBe('cheap');
    expect((await rowOf(FIXED, 'other')).parts[0]!.row).toBe('default');
    expect((await rowOf(LARGEST, 'other')).parts[0]!.row).toBe('largest');
  });

  test('an answer that breaks off pays by the name that was read', async () => {
    const body = `data: {"model":"cheap",${usage}}\n\ndata: {"mo`;
    expect(await readingOf(LARGEST, { type: SSE, body, isWhole: false })).toEqual(unknown('cut', 5));
  });
});
