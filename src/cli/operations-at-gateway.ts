import type { z } from 'zod';
import { Failure, type FailureCode, Refused } from '../failure.ts';
import { exchange } from '../io/http-exchange.ts';
import { escapedText } from '../io/terminal-text.ts';
import { hasQuery, lineOf, NO_OPERATION } from '../operations/catalogue/input.ts';
import { partsOf } from '../operations/catalogue/methods.ts';
import type { InputOf, OutputOf } from '../operations/catalogue/operation.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import { isSecretLike } from '../operations/key-search.ts';
import { type AskedAt, type OperationsAt, type Performed, SECRET_ADVICE } from './operations-interface.ts';

/** The admin API of a gateway, and how it is asked. */
interface AdminApiAt {
  /** For messages: `the gateway at https://tollgate-admin.example.com`. */
  readonly name: string;
  /** The address before `/admin`, without a slash at its end. */
  readonly url: string;
  /** The Unix socket on which it listens, in place of the host and port of the URL. */
  readonly socketPath?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What no message may have. */
  readonly secret?: string;
  /** How long an answer may take, milliseconds; left out, longer than a gateway takes for the operation. */
  readonly withinMs?: number | undefined;
}

/** The gateway has done nothing, because there was no connection to it, or it has not read the request. */
export class NotReached extends Failure {}

/** The longest page has 1,000 keys, each of up to some 10 KiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const WITHIN_MS = 60_000;
/** A simulation may wait for another one. */
const WITHIN_MS_OF_LONG = 150_000;
const MAX_MESSAGE = 2_000;
/** The longest page has some hundred values for each of 1,000 keys. */
const MAX_VALUES = 2_000_000;
/** The pages of a list of 100 million keys. */
const MAX_PAGES = 100_000;

/**
 * Does operations by requests to the admin API of a gateway.
 *
 * Attack: what answers is no gateway, or a hostile one: it never ends its answer or its list, redirects the token to another server, sends
 * control characters for the terminal, or repeats the token. So an answer is bounded in time, bytes and values, and a list in pages, no
 * redirect is followed, and what is printed has neither.
 */
export function operationsAtGateway(api: AdminApiAt): OperationsAt {
  const pages = new Pages();
  return {
    name: `the store of ${api.name}`,
    async perform<O extends AnyOperation>(operation: O, input: InputOf<O>, asked: AskedAt = {}) {
      const { status, headers, text } = await sent(api, operation, requestOf(operation, input, asked));
      const doubt = operation.action === undefined ? '' : ` ${UNKNOWN}`;
      if (status >= 300 && status < 400) {
        throw unusable(
          api,
          `It redirects to another address (${status}), which is not followed: name the admin port itself.`,
        );
      }
      const body = parsed(api, text);
      if (body === null) throw unusable(api, `${NO_API} (${status}).${doubt}`);
      if (status >= 400) throw failureOf(api, { status, body, doubt });
      const { durability, ...output } = body;
      const fault = faultOf(operation, output);
      if (fault !== null) throw unusable(api, `${OTHER_VERSION} (${shown(api, fault)}).${doubt}`);
      if (!pages.leadOn(operation, input ?? {}, output)) throw unusable(api, 'It never ends the list.');
      const isUnchanged = headers['change-outcome'] === 'unchanged';
      return {
        output: output as OutputOf<O>,
        isRepeated: headers['idempotency-replayed'] === 'true',
        ...(operation.action === undefined
          ? {}
          : {
              change: {
                outcome: isUnchanged ? 'unchanged' : 'done',
                durability: durability === 'unknown' ? 'unknown' : 'durable',
              },
            }),
      } satisfies Performed<O>;
    },
  };
}

const NO_API = 'It answered with something that the admin API never answers: is this the address of an admin port?';
const OTHER_VERSION =
  'Its answer has another form than this version of Tollgate reads: it is of another version, or no gateway';
const NOT_KNOWN = 'It does not know this operation: it is of an earlier version of Tollgate.';
const UNKNOWN = 'It is unknown whether the change was made: see `tollgate audit`.';

function requestOf<O extends AnyOperation>(operation: O, input: InputOf<O>, { once = null, version }: AskedAt) {
  const { ids, body } = partsOf(operation, input);
  const { method, path } = lineOf(operation.line);
  insistOnNoSecret({ ...ids, ...(hasQuery(operation.line) ? body : {}) });
  // A URL has no such segments, and the request would be for another path.
  if (Object.values(ids).some((id) => /^\.{1,2}$/.test(id)))
    throw new Failure('not_found', 'There is nothing with this id.');
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(ids[name]!));
  const headers = {
    ...(once === null ? {} : { 'Idempotency-Key': onceIn(once) }),
    ...(operation.needsVersion === true ? { 'If-Match': version === undefined ? '*' : `"${version}"` } : {}),
  };
  if (hasQuery(operation.line)) {
    const query = new URLSearchParams(Object.entries(body).map(([name, value]) => [name, String(value)])).toString();
    insistOnLength(filled + query, { ...ids, ...body });
    return { method, path: query === '' ? filled : `${filled}?${query}`, headers };
  }
  if (operation.input === undefined) return { method, path: filled, headers };
  const json = JSON.stringify(body);
  const length = Buffer.byteLength(json);
  return {
    method,
    path: filled,
    headers: { ...headers, 'Content-Type': 'application/json', 'Content-Length': length },
    body: json,
  };
}

/**
 * Attack: a person gives a secret where an id or a text to search for belongs. In a URL each proxy before the gateway would log it.
 * @throws Failure `refused`
 */
function insistOnNoSecret(inUrl: Readonly<Record<string, unknown>>): void {
  const found = Object.entries(inUrl).find(([, text]) => typeof text === 'string' && isSecretLike(text, []));
  if (found !== undefined) throw new Failure('refused', `${found[0]} has the form of a secret. ${SECRET_ADVICE}`);
}

/** The longest path with its query, in bytes. Servers have room for that, and answer a longer one without a word of what is wrong. */
const MAX_PATH_BYTES = 8_000;

/** @throws Failure `bad_usage` */
function insistOnLength(path: string, inUrl: Readonly<Record<string, unknown>>): void {
  if (path.length <= MAX_PATH_BYTES) return;
  const [[name, value] = ['', '']] = Object.entries(inUrl).sort((a, b) => String(b[1]).length - String(a[1]).length);
  const rule = `A gateway is asked with at most ${MAX_PATH_BYTES} characters, as they are written in an address.`;
  throw new Failure('bad_usage', `${name} has ${String(value).length} characters, which are too many. ${rule}`);
}

function onceIn(once: string): string {
  if (/^[\x21\x23-\x5b\x5d-\x7e][\x20\x21\x23-\x5b\x5d-\x7e]*$/.test(once)) return once;
  throw new Failure(
    'bad_usage',
    'A gateway takes an --id of visible ASCII characters alone, without quotation marks and \\.',
  );
}

/** @throws NotReached if the gateway has not got the request */
async function sent(api: AdminApiAt, { action, maxBytes }: AnyOperation, request: ReturnType<typeof requestOf>) {
  const { path, headers, ...rest } = request;
  const withinMs = api.withinMs ?? (maxBytes === undefined ? WITHIN_MS : WITHIN_MS_OF_LONG);
  let isConnected = false;
  try {
    return await exchange({
      ...rest,
      url: `${api.url}/admin${path}`,
      headers: { ...api.headers, ...headers },
      ...(api.socketPath === undefined ? {} : { socketPath: api.socketPath }),
      maxBytes: MAX_ANSWER_BYTES,
      signal: AbortSignal.timeout(withinMs),
      onConnected: () => {
        isConnected = true;
      },
    });
  } catch (error) {
    const { code = '', name } = error as NodeJS.ErrnoException;
    const late = name === 'TimeoutError' || code === 'ABORT_ERR' ? `within ${withinMs / 1000} s` : null;
    if (!isConnected || isUnread(api, error))
      throw notReached(api, error, late === null ? null : `there was no connection ${late}`);
    const why =
      late === null ? `The answer broke off: ${shown(api, reasonIn(error))}.` : `It has not answered ${late}.`;
    throw unusable(api, `${why}${action === undefined ? '' : ` ${UNKNOWN}`}`, error);
  }
}

/**
 * Whether a gateway on this machine has closed the connection before it had read the whole request, as Linux reports of a Unix socket.
 *
 * Fault: a script runs more commands at once than the gateway serves. It closes the others, which would not know whether it made their changes.
 */
function isUnread({ socketPath }: AdminApiAt, error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return socketPath !== undefined && (code === 'EPIPE' || (code === 'ECONNRESET' && syscall === 'read'));
}

function notReached(api: AdminApiAt, error: unknown, why: string | null): NotReached {
  const { code = '' } = error as NodeJS.ErrnoException;
  const shownWhy = shown(api, why ?? reasonIn(error));
  const advice = /SELF_SIGNED|UNABLE_TO/.test(code) ? ` ${OWN_AUTHORITY}` : '';
  const sentence = /CERT|SIGNATURE/.test(code)
    ? `The TLS certificate of ${api.name} is not accepted: ${shownWhy}.${advice}`
    : `${capitalized(api.name)} cannot be reached: ${shownWhy}.`;
  return new NotReached('gateway_unavailable', sentence, error);
}

const OWN_AUTHORITY =
  'If its authority is your own, name the file with the certificate of that authority in NODE_EXTRA_CA_CERTS, or set ' +
  'NODE_USE_SYSTEM_CA=1 if this machine knows it.';

/** What an error of a connection says to operators, without the advice of Node.js and the places of OpenSSL. */
function reasonIn(error: unknown): string {
  const { message } = error as Error;
  const [, ofTls] = /SSL routines:[^:]*:([^:]+)/.exec(message) ?? [];
  return ofTls === undefined ? message.split(';', 1)[0]! : `TLS: ${ofTls}`;
}

/** The JSON object of an answer, with texts that a terminal may have; null for anything else. */
function parsed({ secret }: AdminApiAt, text: string): Readonly<Record<string, unknown>> | null {
  if (hasTooManyValues(text)) return null;
  const clean = (part: string) => withoutControls(secret === undefined ? part : part.replaceAll(secret, '…'));
  try {
    const value: unknown = JSON.parse(text, (_, member) => {
      if (typeof member === 'string') return clean(member);
      return isObject(member) ? withNames(member, clean) : member;
    });
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Attack: an answer of 64 MiB has 20 million values. JSON.parse takes a minute and two gigabytes for them.
 */
function hasTooManyValues(json: string): boolean {
  let values = 0;
  let isInText = false;
  for (let i = 0; i < json.length && values <= MAX_VALUES; i++) {
    const character = json[i]!;
    if (character === '"') isInText = !isInText;
    else if (isInText && character === '\\') i++;
    else if (!isInText && (character === ',' || character === '{' || character === '[')) values++;
  }
  return values > MAX_VALUES;
}

/** @throws for the name that would stand for the prototype of the object in JavaScript */
function withNames(value: Readonly<Record<string, unknown>>, clean: (name: string) => string) {
  if (Object.hasOwn(value, '__proto__')) throw new Error('__proto__');
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [clean(name), member]));
}

/** Texts of several lines are left as they are. */
function withoutControls(text: string): string {
  return text.replaceAll(/(?!\r?\n|\t)\p{Cc}/gu, escapedText);
}

/** The place of the first fault; null if there is none. A later version may have further members. */
function faultOf({ output }: AnyOperation, value: object): string | null {
  const fault = (output.safeParse(value).error?.issues ?? []).find(isFault);
  return fault === undefined ? null : fault.path.map(String).join('.') || 'all of it';
}

function isFault(issue: z.core.$ZodIssue): boolean {
  if (issue.code !== 'invalid_union') return issue.code !== 'unrecognized_keys';
  return !issue.errors.some((ofOne) => !ofOne.some(isFault));
}

/** The pages of a list that a command has read. */
class Pages {
  /** By operation, the cursors since its first page. */
  readonly #cursors = new Map<AnyOperation, Set<unknown>>();

  /** @returns false for a page that leads to an earlier one, or to more than a list may have */
  leadOn(
    operation: AnyOperation,
    { cursor: from }: { readonly cursor?: unknown },
    { cursor }: { readonly cursor?: unknown },
  ): boolean {
    if (cursor === undefined || cursor === null) return true;
    const before = from === undefined ? new Set() : (this.#cursors.get(operation) ?? new Set());
    this.#cursors.set(operation, before);
    if (before.has(cursor) || before.size === MAX_PAGES) return false;
    before.add(cursor);
    return true;
  }
}

/** An error of the admin API, with its sentence. */
function failureOf(
  api: AdminApiAt,
  {
    status,
    body,
    doubt,
  }: { readonly status: number; readonly body: Readonly<Record<string, unknown>>; readonly doubt: string },
): Failure {
  const { code, message } = body;
  if (typeof code !== 'string' || typeof message !== 'string') return unusable(api, `${NO_API} (${status}).${doubt}`);
  if (code === 'missing_admin_token' || code === 'invalid_admin_token') {
    return new Failure('refused', `${capitalized(api.name)} does not accept the token of TOLLGATE_TOKEN.`);
  }
  const text = shown(api, message);
  if (code === 'idempotency_key_reused') return new Refused(code, text);
  if (status === 405 || message === NO_OPERATION) return unusable(api, NOT_KNOWN);
  const known = FAILURES.get(code);
  if (known !== undefined) return new Failure(known, text);
  // A defect of the gateway, or a proxy before it that has lost the answer.
  if (status >= 500 && code !== 'busy') return new Failure('gateway_unavailable', `${text}${doubt}`);
  return new Failure(status === 409 || status === 412 ? 'conflict' : 'refused', text);
}

/** The failures of operations, by their codes in the admin API. */
const FAILURES: ReadonlyMap<string, FailureCode> = new Map([
  ['not_found', 'not_found'],
  ['store_unavailable', 'store_unavailable'],
  ['store_corrupt', 'store_corrupt'],
  ['audit_unavailable', 'audit_unavailable'],
]);

function unusable({ name }: AdminApiAt, why: string, cause?: unknown): Failure {
  return new Failure('gateway_unavailable', `${capitalized(name)} cannot be asked. ${why}`, cause);
}

/** A text of the other side, or about it, for a terminal. */
function shown({ secret }: AdminApiAt, text: string): string {
  const without = secret === undefined ? text : text.replaceAll(secret, '…');
  return escapedText(without).slice(0, MAX_MESSAGE);
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
