import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Failure } from '../failure.ts';
import type { Admin, Handler } from './admin.ts';
import { type Answer, answer, codeOf, refusalOf, refuse, send } from './answer.ts';
import { type Action, type AuditLine, failedLine, strangerLine } from './audit.ts';
import type { Actor, AuditEntry, ChangeResult } from './audit-trail.ts';
import { type Call, fieldsOf, readBody } from './call.ts';
import type { Door } from './door.ts';
import { PreconditionFailed } from './etag.ts';
import { OneByOne } from './one-by-one.ts';
import { RESOURCES } from './resources.ts';

export interface AdminApiOptions {
  readonly door: Door;
  /** Asked for when somebody has come through the door for the first time: it may have to be opened. */
  readonly admin: () => Promise<Omit<Admin, 'audit'>>;
  readonly audit: (line: AuditLine) => void;
  /** The API's own description, served as it is. */
  readonly description: () => object;
  /** A defect, or something broken in the store; the client is told nothing of it. */
  readonly onDefect: (error: unknown, requestId: string) => void;
}

/** Answers everything under `/admin` (contract section 7). Never rejects. */
export type AdminApi = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export function adminApi(options: AdminApiOptions): AdminApi {
  const lists = new OneByOne();
  return async (request, response) => {
    const [given] = fieldsOf(request.rawHeaders, 'x-request-id');
    const requestId = given !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : randomUUID();
    let told: Answer;
    try {
      told = await answerTo(request, requestId, options, lists);
    } catch (error) {
      // A client that left in the middle of its body is no defect, and hears nothing any more.
      if (!response.destroyed) options.onDefect(error, requestId);
      told = refuse('internal_error', 'Something in the gateway broke. Quote the request id to whoever runs it.');
    }
    if (!response.destroyed) send(request, response, told, requestId);
  };
}

/** The flow: who it is, what is meant, what was sent, what comes of it. */
async function answerTo(
  request: IncomingMessage,
  requestId: string,
  options: AdminApiOptions,
  lists: OneByOne,
): Promise<Answer> {
  const clientAddress = (request.socket.remoteAddress ?? 'unknown').replace(/^::ffff:(?=[0-9.]+$)/, '');
  const refusal = await options.door.refusalFor(request.rawHeaders, clientAddress);
  if (refusal !== null) {
    if (codeOf(refusal) === 'invalid_admin_token') options.audit(strangerLine(clientAddress, requestId));
    return refusal;
  }
  const [path = '', query = ''] = splitAt(request.url ?? '', '?');
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
  if (path === '/admin/openapi.json')
    return method === 'GET' ? answer(200, options.description()) : wrongMethod(['GET']);
  const match = matchOf(path);
  if (match === null) return refuse('not_found', 'There is nothing here. GET /admin/openapi.json describes the API.');
  const handler = Object.hasOwn(match.methods, method) ? match.methods[method] : undefined;
  if (handler === undefined) return wrongMethod(Object.keys(match.methods));
  const body = method === 'POST' || method === 'PATCH' ? await readBody(request) : { value: undefined };
  if ('refusal' in body) return body.refusal;
  const call: Call = {
    ids: match.ids,
    query: new URLSearchParams(query),
    fields: (name) => fieldsOf(request.rawHeaders, name),
    body: body.value,
    clientAddress,
    requestId,
  };
  const work = () => outcomeOf(handler, call, match.changes?.[method] ?? null, options);
  return match.isList === true && method === 'GET' ? lists.run(work) : work();
}

/** @param change null where nothing is to be changed */
async function outcomeOf(
  handler: Handler,
  call: Call,
  change: Action | null,
  { admin, audit }: AdminApiOptions,
): Promise<Answer> {
  let entry: AuditEntry | null = null;
  const note = (line: AuditLine) => {
    audit(line);
    entry?.note(resultOf(line));
  };
  const failed = (outcome: 'refused' | 'unknown', code: string) => {
    if (change !== null) note(failedLine(call, change, outcome, code));
  };
  try {
    const present = await admin();
    if (change !== null) {
      const { clientAddress, requestId } = call;
      entry = await present.trail.begin({ actor: ADMIN, clientAddress, requestId }, change, call.ids[0] ?? null);
      // What no line follows has changed nothing.
      entry.note({ ...UNCHANGED, target: call.ids[0] ?? null });
    }
    const told = await handler(call, { ...present, audit: note });
    if (told.status >= 400) failed('refused', codeOf(told));
    return told;
  } catch (error) {
    const refusal = knownRefusal(error);
    if (refusal === null) {
      failed('unknown', 'internal_error');
      throw error;
    }
    // The store may have done what was asked, and its answer was lost. Without a record nothing was asked of it.
    const isUnknown = refusal.status === 503 && codeOf(refusal) !== 'audit_unavailable';
    failed(isUnknown ? 'unknown' : 'refused', codeOf(refusal));
    return refusal;
  } finally {
    await entry?.end();
  }
}

/** The one token that there is, by the name of its variable. */
const ADMIN: Actor = { kind: 'token', name: 'ADMIN_TOKEN' };
const UNCHANGED = { outcome: 'unchanged', code: null, before: null, after: null } as const;

function resultOf({ outcome, code, id, before, after }: AuditLine): ChangeResult {
  return { outcome, code, target: id, before, after };
}

function knownRefusal(error: unknown): Answer | null {
  if (error instanceof PreconditionFailed) {
    return refuse('precondition_failed', 'The key has been changed since. Read it again and look at what has changed.');
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

/** Null for what names nothing: empty, too long, or not to be decoded. */
function decoded(part: string): string | null {
  try {
    const id = decodeURIComponent(part);
    return id === '' || id.length > 256 ? null : id;
  } catch {
    return null;
  }
}

function wrongMethod(methods: readonly string[]): Answer {
  const allow = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  return refuse('method_not_allowed', `This is used with ${allow}.`, { Allow: allow });
}

function splitAt(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
