import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Failure } from '../failure.ts';
import { requestIdOf, valuesOf } from '../http1/fields.ts';
import {
  type Action,
  type AuditLine,
  attemptOf,
  type ChangeOrigin,
  lineOf,
  type RecordedChange,
  signInLine,
  strangerLine,
} from '../operations/audit-trail.ts';
import { recorded } from '../operations/recorded.ts';
import { type AdminAuthenticator, type AdminRequest, roleRefusal } from './authenticator.ts';
import { type Admin, type Call, type Identity, personOf, readBody, readBytes } from './call.ts';
import type { EventResponse } from './event-streams.ts';
import type { Live } from './live-resources.ts';
import { RESOURCES } from './resources.ts';
import {
  type AdminResponse,
  codeOf,
  errorResponse,
  jsonResponse,
  PreconditionFailed,
  refusalOf,
  send,
  withJson,
} from './response.ts';
import { SESSION_METHODS, SIGN_IN_BYTES, SIGN_IN_MS, showSession, signIn, signOut } from './sign-in.ts';

export interface AdminApiOptions {
  readonly authenticator: AdminAuthenticator;
  /** Whether the listener has TLS of its own: it decides the name of the cookie and the origin of the console. */
  readonly isTls: boolean;
  /** Called for each authenticated request. The first call may open the stores. */
  readonly admin: () => Promise<Omit<Admin, 'audit'>>;
  /** Uses the code of a sign-in link up; resolves to the name of whom it signs in, null for a wrong one. May reject as `admin`. */
  readonly takeLink: (code: string) => Promise<string | null>;
  /** Null without an admin token. Every request is refused then. */
  readonly live: Live | null;
  readonly audit: (line: AuditLine) => void;
  /** Returns the OpenAPI description of this API. */
  readonly description: () => object;
  /** Called for a defect, or a store that holds something unreadable. The response does not reveal the error. */
  readonly onDefect: (error: unknown, requestId: string) => void;
}

/**
 * Answers everything under `/admin` (contract section 7). Never rejects.
 * @param keepPlace called once the sender is authorised, so that the connection is not closed to make room for another. Returns
 *   false if no further request may have a place
 */
export type AdminApi = (request: IncomingMessage, response: ServerResponse, keepPlace?: () => boolean) => Promise<void>;

export function adminApi(options: AdminApiOptions): AdminApi {
  let described: AdminResponse | null = null;
  const description = () => {
    described ??= withJson(jsonResponse(200, options.description()));
    return described;
  };
  const means: Means = { lists: new TurnQueue(), finds: new TurnQueue(), bodies: new BodyRoom(), description };
  return async (request, response, keepPlace = () => true) => {
    const requestId = requestIdOf(request.rawHeaders) ?? randomUUID();
    let answer: AdminResponse | EventResponse;
    try {
      answer = await recordedAnswerTo(request, { requestId, keepPlace }, options, means);
    } catch (error) {
      // A client that disconnected before it had sent its body is no defect, and gets no response.
      if (!response.destroyed) options.onDefect(error, requestId);
      answer = errorResponse('internal_error', 'Something in the gateway broke. Send the request id to its operator.');
    }
    if (response.destroyed) return;
    const whole = 'begin' in answer ? options.live!.streams.serve(request, response, answer, requestId) : answer;
    if (whole !== null) send(request, response, whole, requestId);
  };
}

/** What requests share. */
interface Means {
  /** Lists read much of the store. */
  readonly lists: TurnQueue;
  /** Of two wrong secrets at the same time, each would be looked up before the other was counted. */
  readonly finds: TurnQueue;
  readonly bodies: BodyRoom;
  /** The response with the OpenAPI description. It is long, so its JSON is made once. */
  readonly description: () => AdminResponse;
}

/** An attempt to change something, as far as it is known; `null` members are not known yet. */
interface Attempt {
  readonly requestId: string;
  readonly keepPlace: () => boolean;
  identity: Identity | null;
  /** Whether `recorded` writes the line and the entry. */
  isRecorded: boolean;
}

/**
 * Handles one request. Every refusal of a change passes through here, whatever refuses it, so that each is a line and a record: also
 * one of a page of another origin (CSRF), of a body that is no JSON, or of a path that does not exist.
 */
async function recordedAnswerTo(
  request: IncomingMessage,
  { requestId, keepPlace }: Pick<Attempt, 'requestId' | 'keepPlace'>,
  options: AdminApiOptions,
  means: Means,
): Promise<AdminResponse | EventResponse> {
  const attempt: Attempt = { requestId, keepPlace, identity: null, isRecorded: false };
  const asked = askedOf(request);
  const answer = await answerTo(request, asked, attempt, options, means);
  const { identity, isRecorded } = attempt;
  if ('begin' in answer || answer.status < 400 || isRecorded || identity === null || asked.change === null)
    return answer;
  const origin = originOf({ identity, clientAddress: asked.clientAddress, requestId });
  const attempted = attemptOf(origin, asked.change, asked.match?.ids[0] ?? null);
  const refused = { ...attempted, outcome: 'refused', code: codeOf(answer) } as const;
  options.audit(lineOf(refused));
  // While the store is away there is the line alone.
  const opened = await options.admin().catch(() => null);
  await opened?.trail.refuse(refused);
  return answer;
}

/** What a request asks for. */
interface Asked {
  readonly clientAddress: string;
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Null if there is nothing under this path. */
  readonly match: ReturnType<typeof matchOf>;
  /** The change that it would make; `admin.access` if it would be none of the named ones. Null for a request that only reads. */
  readonly change: Action | 'admin.access' | null;
}

function askedOf(request: IncomingMessage): Asked {
  const clientAddress = (request.socket.remoteAddress ?? 'unknown').replace(/^::ffff:(?=[0-9.]+$)/, '');
  const [path = '', queryText = ''] = splitAt(request.url ?? '', '?');
  const query = new URLSearchParams(queryText);
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
  const match = matchOf(path);
  const isQuestion = method === 'GET' || method === 'OPTIONS' || (method === 'POST' && match?.onlyAsks === true);
  const change = isQuestion ? null : (match?.changes?.[method] ?? 'admin.access');
  return { clientAddress, method, path, query, match, change };
}

/** Handles one request: authenticates it, finds the handler, reads the body, runs the handler. */
async function answerTo(
  request: IncomingMessage,
  { clientAddress, method, path, query, match }: Asked,
  attempt: Attempt,
  options: AdminApiOptions,
  { lists, finds, bodies, description }: Means,
): Promise<AdminResponse | EventResponse> {
  const { authenticator, isTls } = options;
  const sent: AdminRequest = { method, path, rawHeaders: request.rawHeaders, address: clientAddress, isTls };
  const origin = { clientAddress, requestId: attempt.requestId };
  if (method === 'POST' && path === '/admin/session' && authenticator.isOpen) {
    return answerToSignIn(request, sent, origin, options);
  }
  const authorised = await authenticator.authorise(sent);
  attempt.identity = authorised.identity;
  if ('refusal' in authorised) return auditedRefusal(authorised.refusal, origin, options);
  const { identity } = authorised;
  if (!attempt.keepPlace()) {
    const message = 'This gateway serves as many requests to the admin API as it may at a time. Retry shortly.';
    return errorResponse('busy', message, { 'Retry-After': '1' });
  }
  if (path === '/admin/openapi.json') return method === 'GET' ? description() : wrongMethod(['GET']);
  if (path === '/admin/session') {
    if (method === 'GET') return showSession(authorised);
    return method === 'DELETE' ? signOut(authenticator, sent, query, identity) : wrongMethod(SESSION_METHODS);
  }
  if (match === null)
    return errorResponse('not_found', 'There is nothing here. GET /admin/openapi.json describes the API.');
  const handler = Object.hasOwn(match.methods, method) ? match.methods[method] : undefined;
  const live = match.live !== undefined && Object.hasOwn(match.live, method) ? match.live[method] : undefined;
  if (handler === undefined && live === undefined) {
    return wrongMethod([...Object.keys(match.methods), ...Object.keys(match.live ?? {})]);
  }
  const tooLow = roleRefusal(identity, match.roles[method] ?? 'admin');
  if (tooLow !== null) return tooLow;
  const maxBytes = match.bodies?.[method] ?? null;
  return bodies.hold(request, maxBytes, async () => {
    const body = await bodyOf(request, method, maxBytes);
    if ('refusal' in body) return body.refusal;
    const call: Call = {
      identity,
      ids: match.ids,
      query,
      fields: (name) => valuesOf(request.rawHeaders, name),
      body: body.value,
      ...origin,
    };
    const work = () =>
      answered(async () => {
        if (live !== undefined) return live(call, options.live!);
        const { audit } = options;
        const opened = await options.admin();
        const run = () => handler!(call, { ...opened, audit });
        const action = match.changes?.[method];
        if (action === undefined) return run();
        attempt.isRecorded = true;
        const recording = {
          trail: opened.trail,
          origin: originOf(call),
          log: (change: RecordedChange) => audit(lineOf(change)),
          settles: true,
        };
        return recorded<AdminResponse>(recording, {
          action,
          target: call.ids[0] ?? null,
          work: run,
          changeOf: ({ change }) => change!,
          refusalIn: (answer) => (answer.status < 400 ? null : codeOf(answer)),
          codeOf: codeOfRefusal,
        });
      });
    const queue = match.isFind === true ? finds : match.isList === true && method === 'GET' ? lists : null;
    return queue === null ? work() : queue.run(personOf(identity), () => unlessLeft(request, work));
  });
}

/**
 * Does the work of a request whose turn has come, unless its client has disconnected since.
 *
 * Attack: a page that drops its search at each key press, or a client that asks a thousand times and leaves. Each list takes
 * up to a second, and the lists of others wait for it.
 */
async function unlessLeft<T>({ socket }: IncomingMessage, work: () => Promise<T>): Promise<T | AdminResponse> {
  return socket.destroyed ? errorResponse('busy', 'The client has left.') : work();
}

/** The answer, or the response to an error that refuses the request. */
async function answered<T>(work: () => Promise<T>): Promise<T | AdminResponse> {
  try {
    return await work();
  } catch (error) {
    const refusal = knownRefusal(error);
    if (refusal === null) throw error;
    return refusal;
  }
}

/** @param maxBytes the size limit of a body that the handler gets as bytes; null for one that it gets parsed */
async function bodyOf(request: IncomingMessage, method: string, maxBytes: number | null) {
  if (maxBytes === null) {
    return method === 'POST' || method === 'PATCH' ? readBody(request) : { value: undefined };
  }
  const read = await readBytes(request, maxBytes);
  if ('refusal' in read || read.value !== undefined) return read;
  return { refusal: errorResponse('invalid_request', 'The body is missing: it must be a JSON object.') };
}

type Origin = Pick<Call, 'clientAddress' | 'requestId'>;

async function answerToSignIn(
  request: IncomingMessage,
  sent: AdminRequest,
  origin: Origin,
  options: AdminApiOptions,
): Promise<AdminResponse> {
  const body = await readBody(request, SIGN_IN_BYTES, SIGN_IN_MS);
  if ('refusal' in body) return body.refusal;
  const { response, identity } = await signIn(options.authenticator, sent, body.value, options.takeLink);
  if (identity === null) return auditedRefusal(response, origin, options);
  options.audit(signInLine({ identity, ...origin }));
  return response;
}

/** Writes the audit line of a wrong token, code or token of a proxy. */
function auditedRefusal(refusal: AdminResponse, origin: Origin, { audit }: AdminApiOptions): AdminResponse {
  if (codeOf(refusal) === 'invalid_admin_token') audit(strangerLine(origin.clientAddress, origin.requestId));
  return refusal;
}

/** Who asked for a change, and by which request. */
function originOf({ identity, clientAddress, requestId }: Origin & { readonly identity: Identity }): ChangeOrigin {
  const { name, via } = identity;
  return { actor: { kind: via === 'proxy' ? 'person' : 'token', name }, clientAddress, requestId };
}

function codeOfRefusal(error: unknown): string | null {
  const refusal = knownRefusal(error);
  return refusal === null ? null : codeOf(refusal);
}

function knownRefusal(error: unknown): AdminResponse | null {
  if (error instanceof PreconditionFailed) {
    return errorResponse(
      'precondition_failed',
      'The key has been changed since. Read it again and look at what has changed.',
    );
  }
  return error instanceof Failure ? refusalOf(error) : null;
}

function matchOf(path: string) {
  const parts = path.split('/').slice(2);
  for (const { path: template, ...resource } of RESOURCES) {
    if (template.length !== parts.length) continue;
    if (!template.every((part, i) => part.startsWith(':') || part === parts[i])) continue;
    const ids = parts.filter((_, i) => template[i]!.startsWith(':')).map(decoded);
    if (ids.every((id) => id !== null)) return { ...resource, ids };
  }
  return null;
}

/** The decoded segment of a path; null if it is empty, too long, or has a malformed escape. */
function decoded(part: string): string | null {
  try {
    const id = decodeURIComponent(part);
    return id === '' || id.length > 256 ? null : id;
  } catch {
    return null;
  }
}

function wrongMethod(methods: readonly string[]): AdminResponse {
  const allow = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  return errorResponse('method_not_allowed', `This is used with ${allow}.`, { Allow: allow });
}

function splitAt(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

/** Pieces of work of one person that wait at a time. */
const MAX_WAITING = 32;

/**
 * Runs work one piece after the other, and lets the people who wait take turns.
 *
 * Attack: a viewer asks for long lists on many connections. All others waited for them.
 */
class TurnQueue {
  /** By person, in the order of their turns. */
  readonly #waiting = new Map<string, (() => Promise<void>)[]>();
  #isRunning = false;

  /** @returns the result of the work, or the response that refuses it. A failure does not affect the work before and after it. */
  run<T>(person: string, work: () => Promise<T>): Promise<T | AdminResponse> {
    const own = this.#waiting.get(person) ?? [];
    if (own.length >= MAX_WAITING) {
      const message = `There are ${MAX_WAITING} requests of this kind under way for you already. Retry shortly.`;
      return Promise.resolve(errorResponse('busy', message, { 'Retry-After': '1' }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    own.push(() => work().then(resolve, reject));
    this.#waiting.set(person, own);
    if (!this.#isRunning) void this.#runAll();
    return promise;
  }

  async #runAll(): Promise<void> {
    this.#isRunning = true;
    for (let next = this.#waiting.entries().next(); next.done !== true; next = this.#waiting.entries().next()) {
      const [person, own] = next.value;
      this.#waiting.delete(person);
      const work = own.shift()!;
      // The next turn of this person comes after those of all others.
      if (own.length > 0) this.#waiting.set(person, own);
      await work();
    }
    this.#isRunning = false;
  }
}

/** Maximum bytes of large bodies that are held at a time: three simulations, and some checks. */
const MAX_HELD_BYTES = 96 * 1024 * 1024;

/**
 * The room for large bodies, of all requests together.
 *
 * Attack: fifty logs of 28 MiB at once. Only one is simulated and one waits, so the others must be refused before they are read.
 */
class BodyRoom {
  #held = 0;

  /** Does the work of a request if there is room for its body. @param maxBytes null for a body that is small */
  async hold<T>(
    { headers }: IncomingMessage,
    maxBytes: number | null,
    work: () => Promise<T>,
  ): Promise<T | AdminResponse> {
    const declared = Number(headers['content-length'] ?? maxBytes);
    const bytes = maxBytes === null ? 0 : Math.min(declared, maxBytes);
    if (bytes > 0 && this.#held + bytes > MAX_HELD_BYTES) {
      const message = 'The gateway reads as many large bodies as it has room for. Retry shortly.';
      return errorResponse('busy', message, { 'Retry-After': '1' });
    }
    this.#held += bytes;
    try {
      return await work();
    } finally {
      this.#held -= bytes;
    }
  }
}
