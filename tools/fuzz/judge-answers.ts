import {
  contentLengthOf,
  type Head,
  readChunked,
  readHead,
  readSized,
  valuesOf,
} from '../../test/support/http-message.ts';
import { type ParsedResponse, readResponses } from '../../test/support/http-response.ts';
import type { AnswerCase } from './answers.ts';
import type { Talk } from './client.ts';
import { type Exchange, Violation } from './exchange.ts';

/** What the upstream's bytes are by a strict reading. */
export type AnswerReading =
  /** `body`: what of it has arrived. `isFollowed`: whether bytes come behind a whole one; they are not looked at. */
  | {
      readonly kind: 'whole' | 'truncated';
      readonly answer: ParsedResponse;
      readonly body: Buffer;
      readonly isFollowed: boolean;
    }
  | { readonly kind: 'nothing' }
  | { readonly kind: 'malformed'; readonly problem: string };

/** Reads the first final answer of an upstream's bytes, as strictly as a gateway has to. */
export function readAnswer(bytes: Buffer, it: Pick<AnswerCase, 'method' | 'end'>): AnswerReading {
  try {
    for (let at = 0; ; ) {
      // A robust reader passes over empty lines before a message (RFC 9112 section 2.2).
      while (bytes[at] === 0x0d || bytes[at] === 0x0a) at++;
      const head = readHead(bytes, at);
      if (head === null) return { kind: 'nothing' };
      const answer = answerOfHead(bytes.subarray(at, head.end));
      if (answer.status === 101) return { kind: 'malformed', problem: 'a 101 that nobody asked for' };
      if (answer.status >= 200) return withBody(answer, bytes, head, it);
      at = head.end;
    }
  } catch (error) {
    return { kind: 'malformed', problem: String(error) };
  }
}

/**
 * The head alone. Its reason is passed on by no one; llhttp, the parser of Node.js, reads the versions 0.9 and 2.0 like
 * 1.1, which changes nothing about the framing; and the framing of an answer that never has a body is left out.
 */
function answerOfHead(bytes: Buffer): ParsedResponse {
  const text = bytes
    .toString('latin1')
    .replace(
      /^HTTP\/(?:(1\.[01])|0\.9|2\.0) (\d{3})[^\r]*/,
      (_, version = '1.1', status) => `HTTP/${version} ${status} `,
    );
  const isBodyless = /^HTTP\/... (?:1\d\d|204) /.test(text);
  const head = isBodyless ? text.replace(/\r\n(?:content-length|transfer-encoding):[^\r\n]*(?=\r\n)/gi, '') : text;
  return readResponses(Buffer.from(head, 'latin1'), ['HEAD'], true)[0]!;
}

function withBody(
  answer: ParsedResponse,
  bytes: Buffer,
  { fields, end: start }: Head,
  { method, end }: Pick<AnswerCase, 'method' | 'end'>,
): AnswerReading {
  const rest = bytes.subarray(start);
  const isBodyless = method === 'HEAD' || answer.status === 204 || answer.status === 304;
  if (isBodyless) return { kind: 'whole', answer, body: Buffer.alloc(0), isFollowed: rest.length > 0 };
  const length = contentLengthOf(fields, bytes, start);
  const isChunked = valuesOf(fields, 'transfer-encoding').length > 0;
  if (!isChunked && length === null) {
    return { kind: end === 'fin' ? 'whole' : 'truncated', answer, body: rest, isFollowed: false };
  }
  const read = isChunked ? readChunked(bytes, start, true) : readSized(bytes, start, length!);
  if (read === null) return { kind: 'truncated', answer, body: rest, isFollowed: false };
  return { kind: 'whole', answer, body: read.body, isFollowed: read.end < bytes.length };
}

const OURS = new Map([
  [502, 'upstream_unavailable'],
  [504, 'upstream_timeout'],
]);

/**
 * The client must have got the upstream's answer as it is, or a 502 or 504 of the gateway's, or a connection that is
 * visibly broken. Never half an answer that looks whole, never another client's bytes.
 * @throws Violation
 */
export function judgeAnswerTalk(talk: Talk, read: AnswerReading, it: AnswerCase, { tag }: Exchange): void {
  for (const [, other] of talk.bytes.toString('latin1').matchAll(/<<([0-9a-f]{10})/g)) {
    if (other !== tag) throw new Violation(`Another client's bytes: ${other}, ours is ${tag}`);
  }
  if (talk.broken !== null) throw new Violation(`The client got something that is no HTTP/1.1: ${talk.broken}`);
  if (talk.silent) throw new Violation('The client was left waiting');
  const finals = talk.responses.filter(({ status }) => status >= 200);
  const [answer] = finals;
  if (finals.length > 1) throw new Violation(`${finals.length} answers to one request`);
  if (answer === undefined) {
    // The head was good and the body broke at once: the gateway's head went down with the connection.
    if (talk.reset && !it.harmless && read.kind !== 'nothing') return;
    throw new Violation('No answer at all');
  }
  if (isOurs(answer)) {
    if (it.harmless) throw new Violation(`A well-formed answer became ${answer.status} ${answer.body}`);
    return;
  }
  if (answer.body.includes('internal_error')) throw new Violation(`A defect of ours: ${answer.body}`);
  if (!answer.complete) {
    if (it.harmless) throw new Violation('A well-formed answer broke off');
    return;
  }
  judgeRelayed(answer, read);
  if (it.harmless && answer.header('X-Private') !== null)
    throw new Violation('A field that Connection lists was passed on');
}

function judgeRelayed(answer: ParsedResponse, read: AnswerReading): void {
  if (read.kind !== 'whole') {
    const problem = read.kind === 'malformed' ? read.problem : read.kind;
    throw new Violation(`The client got a whole ${answer.status} for an upstream answer that is none: ${problem}`);
  }
  const sent = read.answer;
  if (answer.status !== sent.status) throw new Violation(`Status ${sent.status} became ${answer.status}`);
  // A 1.0 client's body may have no framing; a reset shows then that it is not whole, which `complete` says.
  if (!answer.body.equals(read.body))
    throw new Violation(`A body of ${read.body.length} bytes became ${answer.body.length}`);
  const cookies = (it: ParsedResponse) => it.headers.filter(([name]) => name.toLowerCase() === 'set-cookie').length;
  if (cookies(answer) !== cookies(sent)) throw new Violation('Set-Cookie fields were lost');
  for (const name of ['X-RateLimit-Limit', 'X-Request-Id', 'RateLimit']) {
    const count = answer.headers.filter(([own]) => own.toLowerCase() === name.toLowerCase()).length;
    if (count !== 1) throw new Violation(`${name} ${count} times`);
  }
}

function isOurs(answer: ParsedResponse): boolean {
  const code = OURS.get(answer.status);
  if (code === undefined) return false;
  // An answer to HEAD has no body to tell by; its length has.
  return answer.body.length === 0 ? isJson(answer) : answer.body.includes(code);
}

function isJson(answer: ParsedResponse): boolean {
  const isLong = answer.body.length > 0 || answer.header('Content-Length') !== null;
  return answer.header('Content-Type') === 'application/json' && isLong;
}
