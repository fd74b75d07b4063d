import { createHash } from 'node:crypto';
import type { ParsedResponse } from '../../test/support/http-response.ts';
import type { Talk } from './client.ts';
import { type Exchange, type SeenRequest, Violation } from './exchange.ts';
import type { Reading, ReadRequest } from './reading.ts';

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

/** Ids that the gateway makes; those that a client chooses may come again. */
const MADE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;

/**
 * Holds what the upstream saw against what the client's bytes say: each request once, none that is not there, none
 * changed.
 * @throws Violation
 */
export function judgeSeen({ requests }: Pick<Reading, 'requests'>, { seen }: Exchange): void {
  const left = [...requests];
  for (const [i, request] of seen.entries()) {
    const before = seen.slice(0, i);
    if (isRetry(request, before)) continue;
    if (MADE_ID.test(request.requestId) && before.some(({ requestId }) => requestId === request.requestId)) {
      throw new Violation(`The upstream saw the request ${request.requestId} twice`);
    }
    const at = left.findIndex((it) => isSame(it, request));
    if (at === -1) {
      const { method, target, body, complete } = request;
      const what = JSON.stringify({ method, target, body: body.toString('latin1'), complete });
      throw new Violation(`The upstream saw a request that the client's bytes do not hold: ${what}`);
    }
    left.splice(at, 1);
  }
}

/** One silent retry is allowed: nothing answered, on a connection that had been used, idempotent and without a body. */
function isRetry(request: SeenRequest, before: readonly SeenRequest[]): boolean {
  const same = before.filter(({ requestId }) => requestId === request.requestId);
  const [first] = same;
  if (first === undefined || same.length > 1 || first.answered || !first.onUsedConnection) return false;
  return IDEMPOTENT.has(request.method) && first.body.length === 0 && first.target === request.target;
}

function isSame(sent: ReadRequest, seen: SeenRequest): boolean {
  if (sent.method !== seen.method || sent.target !== seen.target) return false;
  if (!seen.complete) return sent.body.subarray(0, seen.body.length).equals(seen.body);
  return sent.complete && sent.body.equals(seen.body);
}

/**
 * Holds what the client got against what it sent.
 * @param harmless whether every request in it is owed a 200
 * @throws Violation
 */
export function judgeTalk(talk: Talk, reading: Reading, exchange: Exchange, harmless: boolean): void {
  const { requests } = reading;
  if (talk.broken !== null) throw new Violation(`The client got something that is no HTTP/1.1: ${talk.broken}`);
  const finals = talk.responses.filter(({ status }) => status >= 200);
  const owed = requests.filter(({ complete }) => complete).length;
  if (talk.silent) throw new Violation(`The client was left waiting: ${finals.length} answers of ${owed}`);
  if (finals.length > requests.length + 1)
    throw new Violation(`${finals.length} answers to ${requests.length} requests`);
  const served = finals.filter((answer) => answer.status === 200).length;
  if (served > exchange.seen.length) throw new Violation(`${served} answers for ${exchange.seen.length} requests seen`);
  for (const [i, answer] of finals.entries()) judgeAnswer(answer, finals[i + 1], requests[i], exchange);
  judgeForwardedAfterClose(finals, reading, exchange);
  if (harmless && (served !== requests.length || exchange.seen.length !== requests.length)) {
    const statuses = finals.map(({ status, body }) => `${status} ${body.toString('latin1').slice(0, 100)}`);
    throw new Violation(`Well-formed requests were refused: ${statuses.join(', ')}`);
  }
}

function judgeAnswer(
  answer: ParsedResponse,
  next: ParsedResponse | undefined,
  request: ReadRequest | undefined,
  exchange: Exchange,
): void {
  const { status, body } = answer;
  const text = body.toString('latin1');
  if (!answer.complete) throw new Violation(`An answer ${status} that broke off, though the upstream's was whole`);
  if (status === 500) throw new Violation(`A defect of ours: ${text}`);
  if (next !== undefined && saysClose(answer)) throw new Violation('An answer after the one that said close');
  if (status !== 200) return;
  if (request === undefined) throw new Violation('An answer 200 to something that is no request');
  const mine = request.method === 'HEAD' ? answer.header('X-Answer') : text;
  if (mine !== answerTo(exchange.tag, request)) {
    throw new Violation(`The answer to another request: ${mine} instead of ${answerTo(exchange.tag, request)}`);
  }
}

function saysClose(answer: ParsedResponse): boolean {
  return /\bclose\b/i.test(answer.header('Connection') ?? '');
}

/** RFC 9112 section 9.6: after an answer that closes, further requests on the connection must not be processed. */
function judgeForwardedAfterClose(finals: readonly ParsedResponse[], { requests }: Reading, exchange: Exchange): void {
  const last = finals.findIndex(saysClose);
  if (last === -1) return;
  judgeSeen({ requests: requests.slice(0, last + 1) }, exchange);
}

/** What the upstream says in its answer, so that the client can tell whose it is. */
export function answerTo(
  tag: string,
  { method, target }: { readonly method: string; readonly target: string },
): string {
  return `<<${tag}>>${createHash('sha1').update(`${method} ${target}`).digest('hex')}`;
}
