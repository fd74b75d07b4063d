import fc from 'fast-check';
import { TAG_PLACEHOLDER } from './exchange.ts';
import { type Bytes, cuts, mutated } from './mutate.ts';

/** What the upstream answers: a template, where it is cut into writes, and what follows the last of them. */
export interface AnswerCase {
  readonly method: 'GET' | 'HEAD' | 'POST';
  readonly version: '1.0' | '1.1';
  readonly template: Bytes;
  readonly cuts: readonly number[];
  readonly end: 'keep' | 'fin' | 'reset' | 'silence';
  /** Whether it is well-formed and whole: the client is owed exactly it. */
  readonly harmless: boolean;
}

const BODIES = [
  `<<${TAG_PLACEHOLDER}>>`,
  '',
  `{"tag":"<<${TAG_PLACEHOLDER}>>"}`,
  `<<${TAG_PLACEHOLDER}>>${'b'.repeat(40_000)}`,
];
const FIELDS = [
  'Content-Type: application/json',
  'Set-Cookie: a=1\r\nSet-Cookie: b=2',
  'X-RateLimit-Limit: 7',
  'RateLimit: "x";r=1;t=1',
  'X-Request-Id: from-the-upstream',
  'Keep-Alive: timeout=5',
  'Proxy-Authenticate: Basic',
  'Connection: X-Private\r\nX-Private: 1',
  'X-Empty:',
  'X-High: \xe9',
];
const REASONS = ['OK', '', 'Not OK', 'A b\tc', 'gr\xfc\xdf dich'];
const STATUSES = ['200', '201', '204', '206', '299', '301', '304', '400', '404', '418', '429', '500', '503', '599'];

interface Whole {
  readonly template: Bytes;
  readonly end: 'keep' | 'fin';
}

function chunked(body: Bytes, trailers: Bytes): Bytes {
  // Not within the tag: it is looked for in the bytes as they are.
  const chunks = [body.slice(0, -1), body.slice(-1)].filter((text) => text !== '');
  return `${chunks.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join('')}0\r\n${trailers}\r\n`;
}

/** A well-formed answer to a request with this method. */
function whole(method: AnswerCase['method']): fc.Arbitrary<Whole> {
  return fc
    .record({
      status: fc.constantFrom(...STATUSES),
      reason: fc.constantFrom(...REASONS),
      fields: fc.subarray(FIELDS, { maxLength: 4 }),
      body: fc.constantFrom(...BODIES),
      framing: fc.constantFrom('length', 'chunked', 'trailers', 'close'),
      before: fc.constantFrom(
        '',
        'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n',
        'HTTP/1.1 102 Processing\r\n\r\n',
      ),
    })
    .map(({ status, reason, fields, body, framing, before }) => {
      const bodyless = status === '204' || status === '304';
      const lines = [`HTTP/1.1 ${status} ${reason}`, ...fields];
      const end = framing === 'close' && !bodyless ? 'fin' : 'keep';
      if (!bodyless && framing === 'length') lines.push(`Content-Length: ${body.length}`);
      if (!bodyless && (framing === 'chunked' || framing === 'trailers')) lines.push('Transfer-Encoding: chunked');
      if (end === 'fin') lines.push('Connection: close');
      const head = `${before}${lines.join('\r\n')}\r\n\r\n`;
      if (bodyless || method === 'HEAD') return { template: head, end };
      if (framing === 'chunked') return { template: head + chunked(body, ''), end };
      if (framing === 'trailers') return { template: head + chunked(body, 'X-After: 1\r\n'), end };
      return { template: head + body, end };
    });
}

const DICTIONARY: readonly Bytes[] = [
  ...['000', '099', '100', '101', '103', '204', '304', '600', '999', '1000', '20', '-1'].map(
    (status) => `HTTP/1.1 ${status} X`,
  ),
  ...['HTTP/1.0 200 OK', 'HTTP/2.0 200 OK', 'HTTP/1.1 200', 'http/1.1 200 OK', 'ICY 200 OK', 'HTTP/1.1  200 OK'],
  ...['0', '1', '5', '+5', '-1', '0x5', '5, 5', '5,6', '', '99999999999999999999'].map(
    (value) => `Content-Length: ${value}`,
  ),
  ...['chunked', 'gzip', 'gzip, chunked', 'chunked, chunked', 'chunked, identity', 'identity', 'xchunked', ''].map(
    (value) => `Transfer-Encoding: ${value}`,
  ),
  'Transfer-Encoding : chunked',
  ...[
    'Upgrade: h2c\r\nConnection: Upgrade',
    'Trailer: Content-Length',
    'Connection: content-length',
    'X-Folded: a\r\n b',
  ],
  ...[
    'X-Nul: a\0b',
    'X-Control: a\x01b',
    'no colon here',
    ': no name',
    '__proto__: x',
    'X_Y: 1',
    `X-Long: ${'l'.repeat(20_000)}`,
  ],
  Array.from({ length: 300 }, (_, i) => `X-${i}: ${i}`).join('\r\n'),
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(50),
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
  `HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n<<${TAG_PLACEHOLDER}>>`,
  ...['0\r\n\r\n', 'ffffffff\r\n', 'fffffffffffffffff\r\n', '5;ext=1\r\n', 'zz\r\n', ' 5\r\n'],
];

const method = fc.constantFrom<AnswerCase['method']>('GET', 'GET', 'HEAD', 'POST');
const version = fc.constantFrom<AnswerCase['version']>('1.1', '1.1', '1.1', '1.0');

const harmless: fc.Arbitrary<AnswerCase> = method.chain((it) =>
  fc
    .record({ answer: whole(it), version, cuts })
    .map(({ answer, ...rest }) => ({ method: it, ...rest, ...answer, harmless: true })),
);

/** Silence is dear: each costs a deadline. */
const hostileEnd = fc.oneof(
  { weight: 30, arbitrary: fc.constant('keep' as const) },
  { weight: 30, arbitrary: fc.constant('fin' as const) },
  { weight: 20, arbitrary: fc.constant('reset' as const) },
  { weight: 1, arbitrary: fc.constant('silence' as const) },
);

const hostile: fc.Arbitrary<AnswerCase> = method.chain((it) =>
  fc
    .record({
      template: fc.oneof(
        {
          weight: 20,
          arbitrary: mutated(
            whole(it).map(({ template }) => template),
            DICTIONARY,
            4,
          ),
        },
        { weight: 2, arbitrary: fc.constantFrom(...DICTIONARY) },
        {
          weight: 1,
          arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
        },
        { weight: 2, arbitrary: fc.tuple(whole(it), whole(it)).map(([one, two]) => one.template + two.template) },
      ),
      version,
      cuts,
      end: hostileEnd,
    })
    .map((rest) => ({ method: it, ...rest, harmless: false })),
);

/** Answers of all kinds: one in three well-formed. */
export const answerCase: fc.Arbitrary<AnswerCase> = fc.oneof(
  { weight: 1, arbitrary: harmless },
  { weight: 2, arbitrary: hostile },
);
