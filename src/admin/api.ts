import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Failure } from '../failure.ts';
import { requestIdOf, valuesOf } from '../http1/fields.ts';
import { inSlices } from '../io/steps.ts';
import {
  type Action,
  type AuditLine,
  attemptOf,
  type ChangeOrigin,
  lineOf,
  missLine,
  type RecordedChange,
  signInLine,
  strangerLine,
} from '../operations/audit-trail.ts';
import type { Contexts, LiveContext } from '../operations/catalogue/contexts.ts';
import { NO_OPERATION } from '../operations/catalogue/input.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import type { Recording } from '../operations/recorded.ts';
import { MAX_SLICE_BYTES } from '../operations/transfer/keys-and-customers.ts';
import { type AdminAuthenticator, type AdminRequest, roleRefusal } from './authenticator.ts';
import { type Call, type Identity, personOf, readBody, readBytes } from './call.ts';
import { type Endpoint, inputOf, matchOf, readsMuch, respond, takesSecret, targetOf } from './endpoints.ts';
import { type Events, eventResponse } from './event-resources.ts';
import type { EventResponse } from './event-streams.ts';
import type { FindBudget } from './find-budget.ts';
import { openApiInSteps } from './openapi.ts';
import { type AdminResponse, codeOf, errorResponse, jsonResponse, refusalOf, send, withJson } from './response.ts';
import {
  beginAtProvider,
  type LinkTaken,
  SESSION_METHODS,
  SIGN_IN_BYTES,
  SIGN_IN_MS,
  showSession,
  signIn,
  signOut,
} from './sign-in.ts';

/** What operations on the store work on. */
export interface Admin extends Omit<Contexts, 'live'> {
  /** Writes the record of changes. */
  readonly trail: Recording['trail'];
  /** The look-ups of secrets that belong to no key. */
  readonly finds: FindBudget;
}

/** What operations on the gateways, and streams of events, work on. */
export type Live = LiveContext & Events;

interface AdminApiOptions {
  readonly authenticator: AdminAuthenticator;
  /** Whether the listener has TLS of its own: it decides the name of the cookie and the origin of the console. */
  readonly isTls: boolean;
  /** Called for each authenticated request. The first call may open the stores. */
  readonly admin: () => Promise<Admin>;
  /** Uses the code of a sign-in link, and uses it up if it is a one-time code. May reject as `admin`. */
  readonly takeLink: (code: string, request: AdminRequest) => Promise<LinkTaken>;
  /** Null without an admin token. Every request is refused then. */
  readonly live: Live | null;
  readonly audit: (line: AuditLine) => void;
  /** Called for a defect. The response does not reveal the error. */
  readonly onDefect: (error: unknown, requestId: string) => void;
}

/**
 * Answers everything under `/admin` (contract section 7). Never rejects.
 * @param keepPlace called once the sender is authorised, so that the connection is not closed to make room for another. Returns
 *   false if no further request may have a place
 * @param sender who sent the request, where the connection says so; otherwise the request says it itself
 */
export type AdminApi = (
  request: IncomingMessage,
  response: ServerResponse,
  keepPlace?: () => boolean,
  sender?: Identity | null,
) => Promise<void>;

export function adminApi(options: AdminApiOptions): AdminApi {
  let described: Promise<AdminResponse> | null = null;
  const description = () => {
    described ??= inSlices(openApiInSteps()).then((json) => withJson(jsonResponse(200, json)));
    return described;
  };
  const means: Means = { lists: new TurnQueue(), finds: new TurnQueue(), bodies: new BodyRoom(), description };
  return async (request, response, keepPlace = () => true, sender = null) => {
    const requestId = requestIdOf(request.rawHeaders) ?? randomUUID();
    let answer: AdminResponse | EventResponse;
    try {
      answer = await recordedAnswerTo(request, { requestId, keepPlace, sender }, options, means);
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
  /** The response with the OpenAPI description. It is long, so it is made once, and in slices. */
  readonly description: () => Promise<AdminResponse>;
}

/** An attempt to change something, as far as it is known; `null` members are not known yet. */
interface Attempt {
  readonly requestId: string;
  readonly keepPlace: () => boolean;
  readonly sender: Identity | null;
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
  asking: Pick<Attempt, 'requestId' | 'keepPlace' | 'sender'>,
  options: AdminApiOptions,
  means: Means,
): Promise<AdminResponse | EventResponse> {
  const attempt: Attempt = { ...asking, identity: null, isRecorded: false };
  const asked = askedOf(request);
  const answer = await answerTo(request, asked, attempt, options, means);
  const { identity, isRecorded } = attempt;
  if ('begin' in answer || answer.status < 400 || isRecorded || identity === null || asked.change === null)
    return answer;
  const origin = originOf({ identity, clientAddress: asked.clientAddress, requestId: asking.requestId });
  const attempted = attemptOf(origin, asked.change, asked.match === null ? null : targetOf(asked.match));
  const refused = { ...attempted, outcome: 'refused', code: codeOf(answer) } as const;
  options.audit(lineOf(refused));
  // While the store is away there is the line alone.
  const opened = await options.admin().catch(() => null);
  await opened?.trail.refuse(refused);
  return answer;
}

/** What a request asks for. */
interface RequestTarget {
  readonly clientAddress: string;
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Null if there is nothing under this path. */
  readonly match: ReturnType<typeof matchOf>;
  /** The change that it would make; `admin.access` if it would be none of the named ones. Null for a request that only reads. */
  readonly change: Action | null;
}

function askedOf(request: IncomingMessage): RequestTarget {
  const clientAddress = (request.socket.remoteAddress ?? 'unknown').replace(/^::ffff:(?=[0-9.]+$)/, '');
  const [path = '', queryText = ''] = splitAt(request.url ?? '', '?');
  const query = new URLSearchParams(queryText);
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
  const match = matchOf(path);
  const endpoint = match?.methods.get(method);
  const action = endpoint === undefined ? undefined : actionOf(endpoint);
  // A POST without an action is a question that is too long for a query, or must not be in a URL.
  const isQuestion = method === 'GET' || method === 'OPTIONS' || (method === 'POST' && endpoint !== undefined);
  const change = action ?? (isQuestion ? null : 'admin.access');
  return { clientAddress, method, path, query, match, change };
}

function actionOf(endpoint: Endpoint): Action | undefined {
  return 'run' in endpoint ? endpoint.action : undefined;
}

/** Handles one request: authenticates it, finds the handler, reads the body, runs the handler. */
async function answerTo(
  request: IncomingMessage,
  { clientAddress, method, path, query, match }: RequestTarget,
  attempt: Attempt,
  options: AdminApiOptions,
  { lists, finds, bodies, description }: Means,
): Promise<AdminResponse | EventResponse> {
  const { authenticator, isTls } = options;
  const sent: AdminRequest = { method, path, rawHeaders: request.rawHeaders, address: clientAddress, isTls };
  const origin = { clientAddress, requestId: attempt.requestId };
  const { sender } = attempt;
  if (sender === null && authenticator.isOpen) {
    if (method === 'POST' && path === '/admin/session') return answerToSignIn(request, sent, origin, options);
    if (path === '/admin/session/oidc')
      return method === 'POST' ? beginAtProvider(authenticator, sent) : wrongMethod(['POST']);
  }
  const authorised = sender === null ? await authenticator.authorise(sent) : { identity: sender, expiresAtMs: null };
  attempt.identity = authorised.identity;
  if ('refusal' in authorised) return auditedRefusal(authorised.refusal, origin, options);
  const { identity } = authorised;
  if (!attempt.keepPlace()) {
    const message = 'This gateway serves as many requests to the admin API as it may at a time. Retry shortly.';
    return errorResponse('busy', message, { 'Retry-After': '1' });
  }
  if (path === '/admin/openapi.json') return method === 'GET' ? description() : wrongMethod(['GET']);
  // A command on the socket has no session.
  if (path === '/admin/session' && sender === null) {
    if (method === 'GET') return showSession(authorised);
    if (method !== 'DELETE') return wrongMethod(SESSION_METHODS);
    return answered(async () => signOut(authenticator, sent, query, identity));
  }
  if (match === null) return errorResponse('not_found', NO_OPERATION);
  const endpoint = match.methods.get(method);
  if (endpoint === undefined) return wrongMethod([...match.methods.keys()]);
  const tooLow = roleRefusal(identity, endpoint.role);
  if (tooLow !== null) return tooLow;
  if (options.live === null && !('run' in endpoint && endpoint.on !== 'live'))
    return errorResponse('forbidden', NOT_LIVE);
  const { maxBytes = null, isSlice = false } = 'run' in endpoint ? endpoint : {};
  const large = maxBytes ?? (isSlice ? MAX_SLICE_BYTES : null);
  return bodies.hold(request, large, async () => {
    const body = await bodyOf(request, method, maxBytes === null ? { most: large ?? undefined } : { maxBytes });
    if ('refusal' in body) return body.refusal;
    const call: Call = {
      identity,
      members: match.members,
      query,
      fields: (name) => valuesOf(request.rawHeaders, name),
      body: body.value,
      ...origin,
    };
    const work = () =>
      answered(async () => {
        if (!('run' in endpoint)) return eventResponse(endpoint.name, inputOf(endpoint, call), call, options.live!);
        return answerToOperation(endpoint, call, attempt, options);
      }, sender !== null);
    const queue = 'run' in endpoint ? (takesSecret(endpoint) ? finds : readsMuch(endpoint) ? lists : null) : null;
    return queue === null ? work() : queue.run(personOf(identity), () => unlessLeft(request, work));
  });
}

const NOT_LIVE =
  'Without an admin token the gateway remembers no requests: set ADMIN_TOKEN or ADMIN_TOKENS_FILE and start it again.';

async function answerToOperation(
  operation: AnyOperation,
  call: Call,
  attempt: Attempt,
  { admin, audit, live }: AdminApiOptions,
): Promise<AdminResponse> {
  // These answer while the store is away.
  if (operation.on === 'live') return respond(operation, call, { live: live! }, null);
  const { trail, finds, ...opened } = await admin();
  const log = (change: RecordedChange) => audit(lineOf(change));
  const recording = { trail, origin: originOf(call), log, awaitsFinal: true };
  // Who can read the store has no need to guess.
  if (takesSecret(operation) && call.identity.shell === undefined) {
    return withinBudget(call, finds, audit, () => respond(operation, call, opened, null));
  }
  attempt.isRecorded = operation.action !== undefined;
  return respond(operation, call, opened, recording);
}

/** Looks a secret up. One that belongs to no key is a line in the log, and counts against the budget of its sender. */
async function withinBudget(
  call: Call,
  finds: FindBudget,
  audit: AdminApiOptions['audit'],
  find: () => Promise<AdminResponse>,
): Promise<AdminResponse> {
  const sender = [personOf(call.identity), call.clientAddress] as const;
  const refusal = finds.refusalOf(...sender);
  if (refusal !== null) return refusal;
  try {
    return await find();
  } catch (error) {
    if (error instanceof Failure && error.code === 'not_found') {
      await finds.miss(...sender);
      audit(missLine(call));
    }
    throw error;
  }
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
async function answered<T>(work: () => Promise<T>, ownsStore = false): Promise<T | AdminResponse> {
  try {
    return await work();
  } catch (error) {
    const refusal = refusalOf(error, ownsStore);
    if (refusal === null) throw error;
    return refusal;
  }
}

/** @param limit `maxBytes` of a body that the handler gets as bytes, or `most`, if it is not the usual one, of one that it gets parsed */
async function bodyOf(
  request: IncomingMessage,
  method: string,
  limit: { readonly maxBytes: number } | { readonly most: number | undefined },
) {
  if ('most' in limit) {
    return method === 'POST' || method === 'PATCH' ? readBody(request, limit.most) : { value: undefined };
  }
  const { maxBytes } = limit;
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
  const { name, kind, shell } = identity;
  if (shell !== undefined) return { actor: shell, clientAddress: null, requestId };
  return { actor: { kind, name }, clientAddress, requestId };
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
