import { Failure, type FailureCode, Refused } from '../failure.ts';
import { exchange } from '../io/http-exchange.ts';
import { escapedText } from '../io/terminal-text.ts';
import { hasQuery, lineOf } from '../operations/catalogue/input.ts';
import { partsOf } from '../operations/catalogue/methods.ts';
import type { InputOf, OutputOf } from '../operations/catalogue/operation.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import { isSecretLike } from '../operations/key-search.ts';
import { type AskedAt, type OperationsAt, type Performed, SECRET_ADVICE } from './operations.ts';

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

/** Nothing was sent to the gateway, because there is no connection to it. */
export class NotReached extends Failure {}

/** The longest page has 1,000 keys, each of up to some 10 KiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const WITHIN_MS = 60_000;
/** A simulation may wait for another one. */
const WITHIN_MS_OF_LONG = 150_000;
const MAX_MESSAGE = 2_000;

/**
 * Does operations by requests to the admin API of a gateway.
 *
 * Attack: what answers is no gateway, or a hostile one: it never ends its answer, redirects the token to another server, sends control
 * characters for the terminal, or repeats the token in an error. So an answer is bounded in time and bytes, no redirect is followed, and what
 * is printed has neither.
 */
export function operationsAtGateway(api: AdminApiAt): OperationsAt {
  return {
    name: api.name,
    async perform<O extends AnyOperation>(operation: O, input: InputOf<O>, asked: AskedAt = {}) {
      const { status, headers, text } = await sent(api, operation, requestOf(operation, input, asked));
      const doubt = operation.action === undefined ? '' : ` ${UNKNOWN}`;
      if (status >= 300 && status < 400) {
        throw unusable(
          api,
          `It redirects to another address (${status}), which is not followed: name the admin port itself.`,
        );
      }
      const body = parsed(text);
      if (body === null) throw unusable(api, `${NO_API} (${status}).${doubt}`);
      if (status >= 400) throw failureOf(api, status, body);
      const { durability, ...output } = body;
      const fault = faultOf(operation, output);
      if (fault !== null) {
        const made = operation.action === undefined ? '' : ' What was asked for was done.';
        throw unusable(api, `${OTHER_VERSION} (${fault}).${made}`);
      }
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
const OTHER_VERSION = 'Its answer has another form than this version of Tollgate reads, so it is of another version';
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

function onceIn(once: string): string {
  if (/^[\x21\x23-\x5b\x5d-\x7e][\x20\x21\x23-\x5b\x5d-\x7e]*$/.test(once)) return once;
  throw new Failure(
    'bad_usage',
    'A gateway takes an --id of visible ASCII characters alone, without quotation marks and \\.',
  );
}

/** @throws NotReached if nothing was sent */
async function sent(api: AdminApiAt, { action, maxBytes }: AnyOperation, request: ReturnType<typeof requestOf>) {
  const { path, headers, ...rest } = request;
  const withinMs = api.withinMs ?? (maxBytes === undefined ? WITHIN_MS : WITHIN_MS_OF_LONG);
  try {
    return await exchange({
      ...rest,
      url: `${api.url}/admin${path}`,
      headers: { ...api.headers, ...headers },
      ...(api.socketPath === undefined ? {} : { socketPath: api.socketPath }),
      maxBytes: MAX_ANSWER_BYTES,
      signal: AbortSignal.timeout(withinMs),
    });
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    if (/CERT|SIGNATURE|ERR_TLS|EPROTO|ERR_SSL/.test(code)) {
      const why =
        'NODE_EXTRA_CA_CERTS names a file with the authority of a certificate that this machine does not know.';
      throw new NotReached(
        'gateway_unavailable',
        `The TLS certificate of ${api.name} is not accepted: ${shown(api, message)}. ${why}`,
        error,
      );
    }
    if (NEVER_SENT.includes(code)) {
      throw new NotReached(
        'gateway_unavailable',
        `${sentence(api.name)} cannot be reached: ${shown(api, message)}.`,
        error,
      );
    }
    const isLate = (error as Error).name === 'TimeoutError' || code === 'ABORT_ERR';
    const why = isLate
      ? `It has not answered within ${withinMs / 1000} s.`
      : `The answer broke off: ${shown(api, message)}.`;
    throw unusable(api, `${why}${action === undefined ? '' : ` ${UNKNOWN}`}`, error);
  }
}

/** Errors of a connection that was never there. */
const NEVER_SENT = [
  'ECONNREFUSED',
  'ENOENT',
  'EACCES',
  'EAGAIN',
  'ENOTSOCK',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
];

function parsed(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text, (_, member) =>
      typeof member === 'string' ? withoutControls(member) : member,
    );
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}

/** Texts of several lines are left as they are. */
function withoutControls(text: string): string {
  return text.replaceAll(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g, escapedText);
}

/** The place of the first fault; null if there is none. A later version may have further members. */
function faultOf({ output }: AnyOperation, value: object): string | null {
  const issues = output.safeParse(value).error?.issues ?? [];
  const fault = issues.find(({ code }) => code !== 'unrecognized_keys');
  return fault === undefined ? null : fault.path.map(String).join('.') || 'all of it';
}

/** An error of the admin API, with its sentence. */
function failureOf(api: AdminApiAt, status: number, { code, message }: Readonly<Record<string, unknown>>): Failure {
  if (typeof code !== 'string' || typeof message !== 'string') return unusable(api, `${NO_API} (${status}).`);
  if (code === 'missing_admin_token' || code === 'invalid_admin_token') {
    return new Failure('refused', `${sentence(api.name)} does not accept the token of TOLLGATE_TOKEN.`);
  }
  const text = shown(api, message);
  if (code === 'idempotency_key_reused') return new Refused(code, text);
  return new Failure(FAILURES.get(code) ?? (status === 409 || status === 412 ? 'conflict' : 'refused'), text);
}

/** The failures of operations, by their codes in the admin API. */
const FAILURES: ReadonlyMap<string, FailureCode> = new Map([
  ['not_found', 'not_found'],
  ['store_unavailable', 'store_unavailable'],
  ['store_corrupt', 'store_corrupt'],
  ['audit_unavailable', 'audit_unavailable'],
]);

function unusable({ name }: AdminApiAt, why: string, cause?: unknown): Failure {
  return new Failure('gateway_unavailable', `${sentence(name)} cannot be asked. ${why}`, cause);
}

/** A text of the other side, or about it, for a terminal. */
function shown({ secret }: AdminApiAt, text: string): string {
  const without = secret === undefined ? text : text.replaceAll(secret, '…');
  return escapedText(without).slice(0, MAX_MESSAGE);
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
