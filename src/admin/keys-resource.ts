import { DURABLE, type Durability } from '../admit/ledger.ts';
import type { StoredKey } from '../identify/key-store.ts';
import { type Action, auditChange, doneLine, keyStateOf } from '../operations/audit-trail.ts';
import { bodyDigestOf } from '../operations/create-once.ts';
import { wholeKeyReport } from '../operations/key-report.ts';
import type { Guard } from '../operations/operations.ts';
import { readCreation, readEdits, readRotation } from './bodies.ts';
import type { Admin, Call } from './call.ts';
import { invalidQuery, linkToNext, readPage } from './queries.ts';
import { type AdminResponse, changeResponse, errorResponse, etagOf, guardOf, jsonResponse } from './response.ts';

export async function listKeys({ query }: Call, { operations, nowMs }: Admin): Promise<AdminResponse> {
  const page = readPage(query, ['all']);
  if ('refusal' in page) return page.refusal;
  const { all } = page.given;
  if (all !== null && all !== 'true' && all !== 'false') return invalidQuery('all must be true or false.').refusal;
  const { keys, cursor } = await operations.list({ ...page, all: all === 'true' });
  const reports = keys.map((key) => wholeKeyReport(key, operations.plans, nowMs()));
  return jsonResponse(200, { keys: reports, cursor }, linkToNext('/admin/keys', query, cursor));
}

export async function createKey(call: Call, admin: Admin): Promise<AdminResponse> {
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
  auditKeyChange(call, admin, 'key.create', { before: null, key, durability }, kind === 'made' ? 'done' : 'repeated');
  const { id, ...rest } = wholeKeyReport(key, operations.plans, key.createdAtMs);
  return changeResponse(
    201,
    durability,
    { id, key: secret, ...rest },
    {
      ...fieldsOfKey(key),
      Location: `/admin/keys/${id}`,
      ...(kind === 'repeated' ? { 'Idempotency-Replayed': 'true' } : {}),
    },
  );
}

export async function showKey({ ids }: Call, admin: Admin): Promise<AdminResponse> {
  return keyResponse(await admin.operations.show(ids[0]!), admin);
}

export async function updateKey(call: Call, admin: Admin): Promise<AdminResponse> {
  const edits = readEdits(call.body, admin.nowMs());
  if ('fault' in edits) return errorResponse('invalid_request', edits.fault);
  return guarded(call, async (guard) => {
    const changed = await admin.operations.update(call.ids[0]!, edits.value, guard);
    auditKeyChange(call, admin, 'key.update', changed);
    return keyResponse(changed.key, admin, changed.durability);
  });
}

export async function revokeKey(call: Call, admin: Admin): Promise<AdminResponse> {
  return guarded(call, async (guard) => {
    const changed = await admin.operations.revoke(call.ids[0]!, guard);
    // Revoking a key twice is no error, and the second time changes nothing.
    if (changed.before.revokedAtMs === null) auditKeyChange(call, admin, 'key.revoke', changed);
    return keyResponse(changed.key, admin, changed.durability);
  });
}

export async function rotateKey(call: Call, admin: Admin): Promise<AdminResponse> {
  const overlapMs = readRotation(call.body);
  if ('fault' in overlapMs) return errorResponse('invalid_request', overlapMs.fault);
  return guarded(call, async (guard) => {
    const { secret, ...changed } = await admin.operations.rotate(call.ids[0]!, overlapMs.value, guard);
    const { key, durability } = changed;
    auditKeyChange(call, admin, 'key.rotate', changed);
    const { id, ...rest } = wholeKeyReport(key, admin.operations.plans, admin.nowMs());
    return changeResponse(200, durability, { id, key: secret, ...rest }, fieldsOfKey(key));
  });
}

/** Permanently deletes a key. It has its own path because DELETE of a key has always meant to revoke it. */
export async function deleteKey(call: Call, admin: Admin): Promise<AdminResponse> {
  const { body } = call;
  if (body !== undefined && JSON.stringify(body) !== '{}') return invalidQuery('The body must be left out.').refusal;
  return guarded(call, async (guard) => {
    const id = call.ids[0]!;
    const { before, durability } = await admin.operations.delete(id, guard);
    if (before.deletedAtMs === undefined) {
      auditChange(
        admin.audit,
        doneLine(call, 'key.delete', id, { before: keyStateOf(before), after: null }),
        durability,
      );
    }
    return changeResponse(200, durability, { id, deleted: true });
  });
}

export async function showUsage({ ids, query }: Call, { operations }: Admin): Promise<AdminResponse> {
  const [plan = null, ...more] = query.getAll('plan');
  if (more.length > 0) return invalidQuery('plan is given more than once.').refusal;
  return jsonResponse(200, await operations.usage(ids[0]!, plan));
}

async function guarded(
  call: Call,
  change: (guard: Guard | undefined) => Promise<AdminResponse>,
): Promise<AdminResponse> {
  const ifMatch = call.fields('if-match');
  const guard = guardOf(ifMatch.length === 0 ? null : ifMatch.join(','));
  return typeof guard === 'object' ? guard : change(guard);
}

function keyResponse(key: StoredKey, { operations, nowMs }: Admin, durability: Durability = DURABLE): AdminResponse {
  return changeResponse(200, durability, wholeKeyReport(key, operations.plans, nowMs()), fieldsOfKey(key));
}

function fieldsOfKey(key: StoredKey): Record<string, string> {
  return { ETag: etagOf(key) };
}

function auditKeyChange(
  call: Call,
  { audit }: Admin,
  action: Action,
  { before, key, durability }: { before: StoredKey | null; key: StoredKey; durability: Durability },
  outcome: 'done' | 'repeated' = 'done',
): void {
  const states = { before: before === null ? null : keyStateOf(before), after: keyStateOf(key) };
  auditChange(audit, { ...doneLine(call, action, key.id, states), outcome }, durability);
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
