import type { Role } from '../config/admin-tokens.ts';
import { Failure } from '../failure.ts';
import type { StoredKey } from '../identify/key-store.ts';
import { isTokenHolder } from '../identify/token-holder.ts';
import { listChanges } from '../operations/audit-report.ts';
import { type Action, missLine } from '../operations/audit-trail.ts';
import { readCreation, readEdits, readFind, readReset, readRotation, readTopUp } from '../operations/change-input.ts';
import { bodyDigestOf } from '../operations/create-once.ts';
import { KEPT_DAYS } from '../operations/deprecated-calls.ts';
import { PAST_RULE, pastFrom } from '../operations/input-values.ts';
import { wholeKeyReport } from '../operations/key-report.ts';
import { keyFilterFrom } from '../operations/key-search.ts';
import { banReport, type Guard } from '../operations/operations.ts';
import { type Change, changeOfDeletion, changeOfKey, changeOfLift, changeOfUsage } from '../operations/recorded.ts';
import type { RefusedReport } from '../operations/refused-now.ts';
import type { UsageChange } from '../operations/usage-changes.ts';
import { spanFrom } from '../operations/usage-history.ts';
import {
  type Admin,
  type Call,
  type Handler,
  invalidQuery,
  linkToNext,
  personOf,
  readPage,
  readQuery,
} from './call.ts';
import {
  followNow,
  followRequests,
  type LiveHandler,
  listNear,
  showGateways,
  showRefusals,
  showTraffic,
} from './live-resources.ts';
import {
  checkDraft,
  DRAFT_BYTES,
  diffDraft,
  SIMULATION_BYTES,
  showPlans,
  showPlansFile,
  simulateDraft,
  writePlansFile,
} from './plans.ts';
import { type AdminResponse, changeResponse, errorResponse, etagOf, guardOf, jsonResponse } from './response.ts';

const ID = ':id';
const DEFAULT_DAYS = 30;

/** Every path under `/admin/` and its methods (contract section 7). */
export const RESOURCES: readonly {
  readonly path: readonly string[];
  readonly methods: Readonly<Record<string, Handler>>;
  /** The lowest role that may use each method. */
  readonly roles: Readonly<Record<string, Role>>;
  /** The methods that answer also while the store is away. */
  readonly live?: Readonly<Record<string, LiveHandler>>;
  /** The methods that change something. Every attempt is written as an audit line. */
  readonly changes?: Readonly<Record<string, Action>>;
  /** POST changes nothing: it is a question that is too long for a query. */
  readonly onlyAsks?: true;
  /** The methods whose bodies are handed over as bytes, and their size limits. Another thread parses them. */
  readonly bodies?: Readonly<Record<string, number>>;
  /**
   * GET reads much of the store. Such reads run one at a time, so that they do not delay the requests of callers, and people take
   * turns.
   */
  readonly isList?: true;
  /** POST looks secrets up, which must not serve to guess them. They are looked up one at a time. */
  readonly isFind?: true;
}[] = [
  {
    path: ['keys'],
    methods: { GET: listKeys, POST: createKey },
    roles: { GET: 'viewer', POST: 'admin' },
    changes: { POST: 'key.create' },
    isList: true,
  },
  // A POST, so that the secret is not part of a URL. It changes nothing.
  { path: ['keys', 'find'], onlyAsks: true, isFind: true, methods: { POST: findKey }, roles: { POST: 'viewer' } },
  {
    path: ['keys', ID],
    methods: { GET: showKey, PATCH: updateKey, DELETE: revokeKey },
    roles: { GET: 'viewer', PATCH: 'operator', DELETE: 'operator' },
    changes: { PATCH: 'key.update', DELETE: 'key.revoke' },
  },
  {
    path: ['keys', ID, 'rotate'],
    methods: { POST: rotateKey },
    roles: { POST: 'operator' },
    changes: { POST: 'key.rotate' },
  },
  {
    path: ['keys', ID, 'delete'],
    methods: { POST: deleteKey },
    roles: { POST: 'admin' },
    changes: { POST: 'key.delete' },
  },
  {
    path: ['keys', ID, 'topups'],
    methods: { POST: topUp },
    roles: { POST: 'operator' },
    changes: { POST: 'key.topup' },
  },
  { path: ['keys', ID, 'usage'], methods: { GET: showUsage }, roles: { GET: 'viewer' } },
  {
    path: ['keys', ID, 'usage', 'reset'],
    methods: { POST: resetUsage },
    roles: { POST: 'operator' },
    changes: { POST: 'usage.reset' },
  },
  { path: ['keys', ID, 'history'], methods: { GET: showHistory }, roles: { GET: 'viewer' } },
  { path: ['keys', ID, 'deprecations'], methods: { GET: showDeprecations }, roles: { GET: 'viewer' } },
  { path: ['now'], methods: { GET: listRefused }, roles: { GET: 'viewer' }, isList: true },
  { path: ['bans'], methods: { GET: listBans }, roles: { GET: 'viewer' }, isList: true },
  {
    path: ['bans', ID],
    methods: { DELETE: liftBan },
    roles: { DELETE: 'operator' },
    changes: { DELETE: 'ban.lift' },
  },
  { path: ['plans'], methods: { GET: showPlans }, roles: { GET: 'viewer' } },
  {
    path: ['plans', 'check'],
    onlyAsks: true,
    methods: { POST: checkDraft },
    roles: { POST: 'viewer' },
    bodies: { POST: DRAFT_BYTES },
  },
  {
    path: ['plans', 'diff'],
    onlyAsks: true,
    methods: { POST: diffDraft },
    roles: { POST: 'viewer' },
    bodies: { POST: DRAFT_BYTES },
  },
  {
    path: ['plans', 'simulate'],
    onlyAsks: true,
    methods: { POST: simulateDraft },
    roles: { POST: 'viewer' },
    bodies: { POST: SIMULATION_BYTES },
  },
  {
    path: ['plans', 'file'],
    methods: { GET: showPlansFile, PUT: writePlansFile },
    roles: { GET: 'viewer', PUT: 'admin' },
    changes: { PUT: 'plans.write' },
    bodies: { PUT: DRAFT_BYTES },
  },
  { path: ['deprecations'], methods: { GET: listDeprecations }, roles: { GET: 'viewer' }, isList: true },
  { path: ['audit'], methods: { GET: listAudit }, roles: { GET: 'viewer' }, isList: true },
  { path: ['gateways'], methods: {}, live: { GET: showGateways }, roles: { GET: 'viewer' } },
  { path: ['traffic'], methods: {}, live: { GET: showTraffic }, roles: { GET: 'viewer' } },
  { path: ['near'], methods: {}, live: { GET: listNear }, roles: { GET: 'viewer' }, isList: true },
  { path: ['refusals', ':requestId'], methods: {}, live: { GET: showRefusals }, roles: { GET: 'viewer' } },
  { path: ['events', 'now'], methods: {}, live: { GET: followNow }, roles: { GET: 'viewer' } },
  { path: ['events', 'requests'], methods: {}, live: { GET: followRequests }, roles: { GET: 'viewer' } },
];

const NO_SECRET_IN_URLS =
  'Do not put secrets into URLs, which logs keep: send it as the body of POST /admin/keys/find.';

/** Lists the keys that match, oldest first. A page may have fewer keys than `limit`, even none, although another one follows. */
async function listKeys({ query }: Call, admin: Admin): Promise<AdminResponse> {
  const page = readPage(query, ['q', 'plan', 'owner', 'expiring', 'unused', 'all']);
  if ('refusal' in page) return page.refusal;
  const { q: text, all, ...given } = page.given;
  if (all !== null && all !== 'true' && all !== 'false') return invalidQuery('all must be true or false.').refusal;
  const { operations, keyFormats, keepsHistory, nowMs } = admin;
  const filter = keyFilterFrom({ text, ...given }, all === 'true', {
    nameOf: (parameter) => (parameter === 'text' ? 'q' : parameter),
    secretAdvice: NO_SECRET_IN_URLS,
    formats: keyFormats(),
    keepsHistory: keepsHistory(),
  });
  if ('fault' in filter) return invalidQuery(filter.fault).refusal;
  const { keys, cursor, searched } = await operations.search(filter, page);
  const reports = keys.map(({ key, ...lastUse }) => ({
    ...wholeKeyReport(key, operations.plans, nowMs()),
    ...lastUse,
  }));
  return jsonResponse(200, { keys: reports, cursor, searched }, linkToNext('/admin/keys', query, cursor));
}

/** Finds a key by its secret. A secret that belongs to none is a line in the log, and counts against the budget of who sent it. */
async function findKey(call: Call, { operations, finds, audit, nowMs }: Admin): Promise<AdminResponse> {
  const secret = readFind(call.body);
  if ('fault' in secret) return errorResponse('invalid_request', secret.fault);
  const sender = [personOf(call.identity), call.clientAddress] as const;
  const refusal = finds.refusalOf(...sender);
  if (refusal !== null) return refusal;
  try {
    const { key, isCurrent } = await operations.find(secret.value);
    return jsonResponse(200, { key: wholeKeyReport(key, operations.plans, nowMs()), isCurrent });
  } catch (error) {
    if (error instanceof Failure && error.code === 'not_found') {
      await finds.miss(...sender);
      audit(missLine(call));
    }
    throw error;
  }
}

async function createKey(call: Call, admin: Admin): Promise<AdminResponse> {
  const attributesAt = readCreation(call.body);
  if ('fault' in attributesAt) return errorResponse('invalid_request', attributesAt.fault);
  const name = idempotencyKeyOf(call);
  if (name !== null && typeof name !== 'string') return name;
  const { operations } = admin;
  const made =
    name === null
      ? { kind: 'made' as const, ...(await operations.create(attributesAt.value)) }
      : await operations.createOnce({ name, body: bodyDigestOf(call.body) }, attributesAt.value);
  if (made.kind === 'reused') {
    return errorResponse(
      'idempotency_key_reused',
      'This Idempotency-Key came with another body before. Use a new one for each key that is to be made.',
    );
  }
  if (made.kind === 'ended') {
    const what = {
      revoked: 'is revoked',
      expired: 'has expired',
      rotated: 'has another secret since',
      deleted: 'was deleted',
    }[made.how];
    return errorResponse(
      'conflict',
      `Key ${made.id}, which this Idempotency-Key made, ${what}. Use a new Idempotency-Key to make another key.`,
      { Location: `/admin/keys/${made.id}` },
    );
  }
  const { key, secret, kind, durability } = made;
  const { id, ...rest } = wholeKeyReport(key, operations.plans, key.createdAtMs);
  return changeResponse(
    201,
    { ...changeOfKey({ key, durability }), outcome: kind === 'made' ? 'done' : 'repeated' },
    { id, key: secret, ...rest },
    {
      ...fieldsOfKey(key),
      Location: `/admin/keys/${id}`,
      ...(kind === 'repeated' ? { 'Idempotency-Replayed': 'true' } : {}),
    },
  );
}

async function showKey({ ids }: Call, admin: Admin): Promise<AdminResponse> {
  const { operations, nowMs } = admin;
  const key = await operations.show(ids[0]!);
  const report = { ...wholeKeyReport(key, operations.plans, nowMs()), lastUsedOn: await operations.lastUsedOn(key.id) };
  return jsonResponse(200, report, fieldsOfKey(key));
}

async function updateKey(call: Call, admin: Admin): Promise<AdminResponse> {
  const edits = readEdits(call.body, admin.nowMs());
  if ('fault' in edits) return errorResponse('invalid_request', edits.fault);
  return guarded(call, async (guard) => {
    const changed = await admin.operations.update(call.ids[0]!, edits.value, guard);
    return keyResponse(changed.key, admin, changeOfKey(changed));
  });
}

async function revokeKey(call: Call, admin: Admin): Promise<AdminResponse> {
  return guarded(call, async (guard) => {
    const changed = await admin.operations.revoke(call.ids[0]!, guard);
    // Revoking a key twice is no error, and the second time changes nothing.
    return keyResponse(changed.key, admin, changeOfKey(changed, changed.before.revokedAtMs !== null));
  });
}

async function rotateKey(call: Call, admin: Admin): Promise<AdminResponse> {
  const overlapMs = readRotation(call.body);
  if ('fault' in overlapMs) return errorResponse('invalid_request', overlapMs.fault);
  return guarded(call, async (guard) => {
    const { secret, ...changed } = await admin.operations.rotate(call.ids[0]!, overlapMs.value, guard);
    const { key } = changed;
    const { id, ...rest } = wholeKeyReport(key, admin.operations.plans, admin.nowMs());
    return changeResponse(200, changeOfKey(changed), { id, key: secret, ...rest }, fieldsOfKey(key));
  });
}

/** Permanently deletes a key. It has its own path because DELETE of a key has always meant to revoke it. */
async function deleteKey(call: Call, admin: Admin): Promise<AdminResponse> {
  const { body } = call;
  if (body !== undefined && JSON.stringify(body) !== '{}') return invalidQuery('The body must be left out.').refusal;
  return guarded(call, async (guard) => {
    const id = call.ids[0]!;
    const deleted = await admin.operations.delete(id, guard);
    return changeResponse(200, changeOfDeletion(deleted), { id, deleted: true });
  });
}

async function showUsage({ ids, query }: Call, { operations }: Admin): Promise<AdminResponse> {
  const [plan = null, ...more] = query.getAll('plan');
  if (more.length > 0) return invalidQuery('plan is given more than once.').refusal;
  return jsonResponse(200, await operations.keyUsage(ids[0]!, plan));
}

async function topUp(call: Call, admin: Admin): Promise<AdminResponse> {
  const given = readTopUp(call.body);
  if ('fault' in given) return errorResponse('invalid_request', given.fault);
  return changeUsage(call, (id, once) => admin.operations.topUp(id, given.value, once));
}

async function resetUsage(call: Call, admin: Admin): Promise<AdminResponse> {
  const windows = readReset(call.body);
  if ('fault' in windows) return errorResponse('invalid_request', windows.fault);
  return changeUsage(call, (id, once) => admin.operations.resetUsage(id, windows.value, once));
}

/** Makes a top-up or a reset, once for each Idempotency-Key. */
async function changeUsage<T extends object>(
  call: Call,
  change: (id: string, once: string | null) => Promise<UsageChange<T>>,
): Promise<AdminResponse> {
  const once = idempotencyKeyOf(call);
  if (once !== null && typeof once !== 'string') return once;
  const [id] = call.ids as [string];
  const changed = await change(id, once);
  if (changed.kind === 'reused') {
    return errorResponse(
      'idempotency_key_reused',
      'This Idempotency-Key came with another change of this key before. Use a new one for each change.',
    );
  }
  const { kind, report } = changed;
  const replayed = kind === 'repeated' ? { 'Idempotency-Replayed': 'true' } : {};
  return changeResponse(200, changeOfUsage(id, changed), report, replayed);
}

async function showHistory({ ids, query }: Call, { operations, nowMs }: Admin): Promise<AdminResponse> {
  const given = readQuery(query, ['from', 'to', 'step']);
  if ('refusal' in given) return given.refusal;
  const span = spanFrom(given, nowMs());
  if ('fault' in span) return invalidQuery(span.fault).refusal;
  return jsonResponse(200, await operations.history(ids[0]!, span));
}

/** Lists what a key, or a token caller, calls that is deprecated. A key may be revoked. */
async function showDeprecations({ ids, query }: Call, admin: Admin): Promise<AdminResponse> {
  const given = readQuery(query, ['days']);
  if ('refusal' in given) return given.refusal;
  const days = daysOf(given.days);
  if (days === null) return invalidQuery(DAYS_RULE).refusal;
  const [id] = ids as [string];
  if (!isTokenHolder(id)) await admin.operations.show(id);
  return jsonResponse(200, { routes: await admin.deprecatedCallsOf(id, days) });
}

/** Consumers that one page looks at, however few of them are still refused. */
const MAX_LOOKED_AT = 1_000;

/** Lists who is refused now, by id. A page may have fewer entries than `limit`, even none, although another one follows. */
async function listRefused({ query }: Call, { operations }: Admin): Promise<AdminResponse> {
  const page = readPage(query, ['scan']);
  if ('refusal' in page) return page.refusal;
  const { scan } = page.given;
  if (scan !== null && scan !== 'true' && scan !== 'false') return invalidQuery('scan must be true or false.').refusal;
  const consumers: RefusedReport[] = [];
  let lookedAt = 0;
  let last: string | null = null;
  let cursor: string | null = null;
  for await (const { id, report } of operations.refusedNow({ after: page.cursor, scan: scan === 'true' })) {
    if (consumers.length === page.limit || lookedAt === MAX_LOOKED_AT) {
      cursor = last;
      break;
    }
    if (report !== null) consumers.push(report);
    lookedAt++;
    last = id;
  }
  return jsonResponse(200, { consumers, cursor }, linkToNext('/admin/now', query, cursor));
}

/** Lists bans by id. A ban that begins or ends between two pages then does not shift the others from one to the next. */
async function listBans({ query }: Call, { operations }: Admin): Promise<AdminResponse> {
  const page = readPage(query, []);
  if ('refusal' in page) return page.refusal;
  const { limit, cursor: from } = page;
  const bans = (await operations.bans())
    .map(banReport)
    .filter(({ id }) => from === null || id > from)
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  const cursor = bans.length > limit ? bans[limit - 1]!.id : null;
  return jsonResponse(200, { bans: bans.slice(0, limit), cursor }, linkToNext('/admin/bans', query, cursor));
}

async function liftBan(call: Call, admin: Admin): Promise<AdminResponse> {
  const [id] = call.ids as [string];
  const lifted = await admin.operations.lift(id);
  return changeResponse(200, changeOfLift(id, lifted), { id, lifted: true, spent: lifted.spent });
}

async function listDeprecations({ query }: Call, { deprecations }: Admin): Promise<AdminResponse> {
  const page = readPage(query, ['days']);
  if ('refusal' in page) return page.refusal;
  const days = daysOf(page.given.days);
  if (days === null) return invalidQuery(DAYS_RULE).refusal;
  const all = await deprecations(days);
  const at = page.cursor === null ? -1 : all.findIndex(({ route }) => route === page.cursor);
  if (page.cursor !== null && at === -1) return invalidQuery('Unknown cursor.').refusal;
  const rest = all.slice(at + 1);
  const cursor = rest.length > page.limit ? rest[page.limit - 1]!.route : null;
  const link = linkToNext('/admin/deprecations', query, cursor);
  return jsonResponse(200, { deprecations: rest.slice(0, page.limit), cursor }, link);
}

const DAYS_RULE = `days must be a whole number from 1 to ${KEPT_DAYS}.`;

/** How many days back deprecated calls are listed; null if `days` is not a valid number. */
function daysOf(given: string | null): number | null {
  const days = given ?? String(DEFAULT_DAYS);
  return /^[1-9][0-9]?$/.test(days) && Number(days) <= KEPT_DAYS ? Number(days) : null;
}

async function listAudit({ query }: Call, { auditStore, nowMs }: Admin): Promise<AdminResponse> {
  const page = readPage(query, ['key', 'actor', 'since']);
  if ('refusal' in page) return page.refusal;
  const { key, actor, since } = page.given;
  const sinceMs = since === null ? null : pastFrom(since, nowMs());
  if (since !== null && sinceMs === null) return invalidQuery(`since ${PAST_RULE}.`).refusal;
  const { changes, cursor } = await listChanges(auditStore, { key, actor, sinceMs }, page);
  return jsonResponse(200, { changes, cursor }, linkToNext('/admin/audit', query, cursor));
}

async function guarded(
  call: Call,
  change: (guard: Guard | undefined) => Promise<AdminResponse>,
): Promise<AdminResponse> {
  const ifMatch = call.fields('if-match');
  const guard = guardOf(ifMatch.length === 0 ? null : ifMatch.join(','));
  return typeof guard === 'object' ? guard : change(guard);
}

function keyResponse(key: StoredKey, { operations, nowMs }: Admin, change: Change): AdminResponse {
  return changeResponse(200, change, wholeKeyReport(key, operations.plans, nowMs()), fieldsOfKey(key));
}

function fieldsOfKey(key: StoredKey): Record<string, string> {
  return { ETag: etagOf(key) };
}

/** Reads Idempotency-Key (draft-ietf-httpapi-idempotency-key-header). The quotes of a structured field are optional. */
function idempotencyKeyOf({ fields }: Call): string | null | AdminResponse {
  const values = fields('idempotency-key');
  if (values.length === 0) return null;
  const [value] = values as [string];
  const name = /^"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"$/.exec(value)?.[1] ?? value;
  if (values.length === 1 && /^[\x21\x23-\x5b\x5d-\x7e][\x20\x21\x23-\x5b\x5d-\x7e]{0,254}$/.test(name)) return name;
  return errorResponse('invalid_request', 'Idempotency-Key must be sent once, with 1 to 255 visible ASCII characters.');
}
