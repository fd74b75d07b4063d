import type { IncomingHttpHeaders } from 'node:http';
import { exchange, LargeBodyError, MAX_BYTES, OtherProtocolError } from '../io/http-exchange.ts';

/*
 * HTTP to the certificate authority. The ACME library has an HTTP client that follows redirects, reads bodies of any
 * length, has no deadline and waits as long as a Retry-After says. This one replaces it.
 */

/** The authority has refused, or its answer is not ACME. `message` is a sentence for operators. */
export class DirectoryError extends Error {
  /** `unreachable`: no answer came, so the attempt has cost nothing at the authority. */
  readonly kind: 'unreachable' | 'refused';
  /** The type of the problem document, without its prefix: `rateLimited`; empty if there is none. */
  readonly problem: string;
  /** How long the authority asks to wait, in milliseconds; 0 if it does not. */
  readonly retryAfterMs: number;

  constructor(
    message: string,
    {
      kind = 'refused',
      problem = '',
      retryAfterMs = 0,
      cause,
    }: Partial<Pick<DirectoryError, 'kind' | 'problem' | 'retryAfterMs'>> & { readonly cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'DirectoryError';
    this.kind = kind;
    this.problem = problem;
    this.retryAfterMs = retryAfterMs;
  }
}

/** What the library expects of its HTTP client. */
interface DirectoryResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The parsed JSON object, or the text of any other content. */
  readonly data: unknown;
}

interface DirectoryOptions {
  readonly url: string;
  /** PEM: the authorities that sign the certificate of the directory; null for those that Node.js trusts. */
  readonly ca: Buffer | null;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Ends all requests. */
  readonly signal: AbortSignal;
  /** @param ms milliseconds */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

const DEADLINE_MS = 15_000;
/** A request that got no answer, or a 5xx, is repeated after these pauses. */
const PAUSES_MS = [1_000, 3_000];
const PROBLEM_PREFIX = 'urn:ietf:params:acme:error:';

/** The requests to one directory. */
export class Directory {
  readonly #options: DirectoryOptions;
  readonly #origin: string;
  /** The Retry-After of the last response, in milliseconds; 0 without one. */
  lastRetryAfterMs = 0;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#origin = new URL(options.url).origin;
  }

  /**
   * Sends a request and reads the whole response.
   *
   * Attack: a directory names URLs of internal services, or redirects there. Only URLs of the directory's own origin are asked for,
   * and a redirect is an error.
   * @param body the signed request; absent for HEAD and GET
   * @throws DirectoryError for every response but a success and `badNonce`, which the library repeats with a new nonce
   */
  async request(url: string, method: string, body?: unknown): Promise<DirectoryResponse> {
    if (!URL.canParse(url) || new URL(url).origin !== this.#origin) {
      throw new DirectoryError(`The directory ${this.#options.url} names a URL outside of ${this.#origin}.`);
    }
    for (const pauseMs of PAUSES_MS) {
      try {
        return await this.#once(url, method, body);
      } catch (error) {
        const isPassing = error instanceof DirectoryError && (error.kind === 'unreachable' || error.problem === '5xx');
        if (!isPassing || error.retryAfterMs > pauseMs) throw error;
        await this.#options.sleep(pauseMs, this.#options.signal);
      }
    }
    return this.#once(url, method, body);
  }

  async #once(url: string, method: string, body: unknown): Promise<DirectoryResponse> {
    const { status, headers, text } = await this.#exchange(url, method, body === undefined ? '' : JSON.stringify(body));
    const retryAfterMs = retryAfterOf(headers['retry-after'], this.#options.wallMs());
    this.lastRetryAfterMs = retryAfterMs;
    const isJson = /^application\/(?:[a-z-]+\+)?json\b/i.test(headers['content-type'] ?? '');
    const data = isJson && text !== '' ? jsonOf(text) : text;
    if (data === undefined) throw new DirectoryError(`${url} has answered with broken JSON.`);
    if (status >= 200 && status < 300) return { status, headers, data };
    const { type, detail } = problemOf(data);
    if (status === 400 && type === `${PROBLEM_PREFIX}badNonce`) return { status, headers, data };
    const problem = status >= 500 ? '5xx' : type.startsWith(PROBLEM_PREFIX) ? type.slice(PROBLEM_PREFIX.length) : '';
    const said = [problem === '5xx' ? '' : problem, detail].filter((part) => part !== '').join(': ');
    const where = said === '' ? `${url} has answered ${status}` : `The authority has answered ${status} ${said}`;
    throw new DirectoryError(printable(where, 400), { problem, retryAfterMs });
  }

  async #exchange(url: string, method: string, body: string) {
    const { ca, signal } = this.#options;
    const deadline = AbortSignal.timeout(DEADLINE_MS);
    const headers = {
      'User-Agent': 'tollgate',
      ...(body === '' ? {} : { 'Content-Type': 'application/jose+json', 'Content-Length': Buffer.byteLength(body) }),
    };
    try {
      const either = AbortSignal.any([signal, deadline]);
      return await exchange({ url, method: method.toUpperCase(), headers, body, ca, signal: either });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof LargeBodyError)
        throw new DirectoryError(`${url} has answered with more than ${MAX_BYTES / 1024} KiB.`);
      if (error instanceof OtherProtocolError) throw new DirectoryError(`${url} has answered with another protocol.`);
      const { code, message } = error as NodeJS.ErrnoException;
      const why = deadline.aborted ? `no answer within ${DEADLINE_MS / 1000} s` : (code ?? message);
      throw new DirectoryError(`${url} cannot be reached (${why})${adviceFor(why)}.`, {
        kind: 'unreachable',
        cause: error,
      });
    }
  }
}

/** @returns undefined if it is not a JSON object */
function jsonOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function problemOf(data: unknown): { readonly type: string; readonly detail: string } {
  const { type, detail } = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>;
  return { type: typeof type === 'string' ? type : '', detail: typeof detail === 'string' ? detail : '' };
}

/** Retry-After as seconds or as a date (RFC 9110 section 10.2.3). @returns milliseconds; 0 if it is neither */
export function retryAfterOf(value: string | undefined, nowMs: number): number {
  if (value === undefined) return 0;
  if (/^\d{1,12}$/.test(value)) return Number(value) * 1_000;
  // The parser of Node.js takes `-5` for a month.
  const atMs = /^[A-Z][a-z]{2}, /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(atMs) ? 0 : Math.max(0, atMs - nowMs);
}

/** A text of the authority for the log: one line, printable, of bounded length. */
export function printable(text: string, most: number): string {
  const line = text.replaceAll(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, ' ').trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** The codes of TLS for a chain that ends in no trusted authority. */
const UNTRUSTED: readonly string[] = [
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
];

function adviceFor(code: string): string {
  if (!UNTRUSTED.includes(code)) return '';
  return ': its certificate is not trusted; name its authority in `directoryCa`';
}
