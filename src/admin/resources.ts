import type { Plans } from '../admit/plan.ts';
import { KEPT_DAYS } from '../annotate/deprecated-calls.ts';
import { listChanges } from '../operations/audit-report.ts';
import { type Action, auditChange, doneLine } from '../operations/audit-trail.ts';
import { PAST_RULE, pastFrom } from '../operations/input-values.ts';
import { banReport } from '../operations/operations.ts';
import type { Admin, Call, Handler } from './call.ts';
import {
  createKey,
  deleteKey,
  listKeys,
  revokeKey,
  rotateKey,
  showKey,
  showUsage,
  updateKey,
} from './keys-resource.ts';
import { invalidQuery, linkToNext, readPage } from './queries.ts';
import { type AdminResponse, changeResponse, jsonResponse } from './response.ts';

const ID = ':id';
const DEFAULT_DAYS = 30;

/** Every path under `/admin/` and its methods (contract section 7). */
export const RESOURCES: readonly {
  readonly path: readonly string[];
  readonly methods: Readonly<Record<string, Handler>>;
  /** The methods that change something. Every attempt is written as an audit line. */
  readonly changes?: Readonly<Record<string, Action>>;
  /** GET reads much of the store. Such reads run one at a time, so that they do not delay the requests of callers. */
  readonly isList?: true;
}[] = [
  { path: ['keys'], methods: { GET: listKeys, POST: createKey }, changes: { POST: 'key.create' }, isList: true },
  {
    path: ['keys', ID],
    methods: { GET: showKey, PATCH: updateKey, DELETE: revokeKey },
    changes: { PATCH: 'key.update', DELETE: 'key.revoke' },
  },
  { path: ['keys', ID, 'rotate'], methods: { POST: rotateKey }, changes: { POST: 'key.rotate' } },
  { path: ['keys', ID, 'delete'], methods: { POST: deleteKey }, changes: { POST: 'key.delete' } },
  { path: ['keys', ID, 'usage'], methods: { GET: showUsage } },
  { path: ['bans'], methods: { GET: listBans }, isList: true },
  { path: ['bans', ID], methods: { DELETE: liftBan }, changes: { DELETE: 'ban.lift' } },
  { path: ['plans'], methods: { GET: showPlans } },
  { path: ['deprecations'], methods: { GET: listDeprecations }, isList: true },
  { path: ['audit'], methods: { GET: listAudit }, isList: true },
];

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
  const durability = await admin.operations.lift(id);
  auditChange(admin.audit, doneLine(call, 'ban.lift', id), durability);
  return changeResponse(200, durability, { id, lifted: true });
}

async function showPlans(_: Call, { operations, versions }: Admin): Promise<AdminResponse> {
  const { plans, failedAuthenticationPerMinute }: Plans = operations.plans;
  const shown = [...plans.values()];
  return jsonResponse(200, {
    versions: versions(),
    plans: shown,
    failedAuthentication: { minute: failedAuthenticationPerMinute },
  });
}

async function listDeprecations({ query }: Call, { deprecations }: Admin): Promise<AdminResponse> {
  const page = readPage(query, ['days']);
  if ('refusal' in page) return page.refusal;
  const days = page.given.days ?? String(DEFAULT_DAYS);
  if (!/^[1-9][0-9]?$/.test(days) || Number(days) > KEPT_DAYS) {
    return invalidQuery(`days must be a whole number from 1 to ${KEPT_DAYS}.`).refusal;
  }
  const all = await deprecations(Number(days));
  const at = page.cursor === null ? -1 : all.findIndex(({ route }) => route === page.cursor);
  if (page.cursor !== null && at === -1)
    return invalidQuery('The cursor is none that this list has given out.').refusal;
  const rest = all.slice(at + 1);
  const cursor = rest.length > page.limit ? rest[page.limit - 1]!.route : null;
  const link = linkToNext('/admin/deprecations', query, cursor);
  return jsonResponse(200, { deprecations: rest.slice(0, page.limit), cursor }, link);
}

async function listAudit({ query }: Call, { auditStore, nowMs }: Admin): Promise<AdminResponse> {
  const page = readPage(query, ['key', 'actor', 'since']);
  if ('refusal' in page) return page.refusal;
  const { key, actor, since } = page.given;
  const sinceMs = since === null ? null : pastFrom(since, nowMs());
  if (since !== null && sinceMs === null) return invalidQuery(`since ${PAST_RULE}.`).refusal;
  if (page.cursor !== null && !/^[1-9][0-9]{0,14}$/.test(page.cursor)) {
    return invalidQuery('The cursor is none that this list has given out.').refusal;
  }
  const before = page.cursor === null ? null : Number(page.cursor);
  const { changes, cursor } = await listChanges(auditStore, { key, actor, sinceMs }, { limit: page.limit, before });
  const next = cursor === null ? null : String(cursor);
  return jsonResponse(200, { changes, cursor: next }, linkToNext('/admin/audit', query, next));
}
