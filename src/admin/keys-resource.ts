import { DURABLE, type Durability, type StoredKey } from '../identify/key-store.ts';
import { bodyDigestOf } from '../identify/repeatable.ts';
import type { Admin } from './admin.ts';
import { type Answer, answer, answerChange, refuse } from './answer.ts';
import { type Action, auditChange, doneLine, stateOf } from './audit.ts';
import { readCreation, readEdits, readRotation } from './bodies.ts';
import type { Call } from './call.ts';
import { etagOf, guardOf } from './etag.ts';
import { wholeKeyReport } from './key-report.ts';
import type { Guard } from './operations.ts';
import { linkToNext, readPage, wrong } from './queries.ts';

export async function listKeys({ query }: Call, { operations, nowMs }: Admin): Promise<Answer> {
  const page = readPage(query, ['all']);
  if ('refusal' in page) return page.refusal;
  const { all } = page.given;
  if (all !== null && all !== 'true' && all !== 'false') return wrong('all must be true or false.').refusal;
  const { keys, cursor } = await operations.list({ ...page, all: all === 'true' });
  const reports = keys.map((key) => wholeKeyReport(key, operations.plans, nowMs()));
  return answer(200, { keys: reports, cursor }, linkToNext('/admin/keys', query, cursor));
}

export async function createKey(call: Call, admin: Admin): Promise<Answer> {
  const wishesAt = readCreation(call.body);
  if ('fault' in wishesAt) return refuse('invalid_request', wishesAt.fault);
  const name = idempotencyKeyOf(call);
  if (name !== null && typeof name !== 'string') return name;
  const { operations } = admin;
  const made =
    name === null
      ? { kind: 'made' as const, ...(await operations.create(wishesAt.value)) }
      : await operations.createOnce({ name, body: bodyDigestOf(call.body) }, wishesAt.value);
  if (made.kind === 'reused') {
    return refuse(
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
    return refuse(
      'conflict',
      `Key ${made.id}, which this Idempotency-Key made, ${what}. Use a new Idempotency-Key to make another key.`,
      { Location: `/admin/keys/${made.id}` },
    );
  }
  const { key, secret, kind, durability } = made;
  tell(call, admin, 'key.create', { before: null, key, durability }, kind === 'made' ? 'done' : 'repeated');
  const { id, ...rest } = wholeKeyReport(key, operations.plans, key.createdAtMs);
  return answerChange(
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

export async function showKey({ ids }: Call, admin: Admin): Promise<Answer> {
  return answerWith(await admin.operations.show(ids[0]!), admin);
}

export async function updateKey(call: Call, admin: Admin): Promise<Answer> {
  const edits = readEdits(call.body, admin.nowMs());
  if ('fault' in edits) return refuse('invalid_request', edits.fault);
  return guarded(call, async (guard) => {
    const changed = await admin.operations.update(call.ids[0]!, edits.value, guard);
    tell(call, admin, 'key.update', changed);
    return answerWith(changed.key, admin, changed.durability);
  });
}

export async function revokeKey(call: Call, admin: Admin): Promise<Answer> {
  return guarded(call, async (guard) => {
    const changed = await admin.operations.revoke(call.ids[0]!, guard);
    // Twice is no mistake, and the second time changes nothing.
    if (changed.before.revokedAtMs === null) tell(call, admin, 'key.revoke', changed);
    return answerWith(changed.key, admin, changed.durability);
  });
}

export async function rotateKey(call: Call, admin: Admin): Promise<Answer> {
  const overlapMs = readRotation(call.body);
  if ('fault' in overlapMs) return refuse('invalid_request', overlapMs.fault);
  return guarded(call, async (guard) => {
    const { secret, ...changed } = await admin.operations.rotate(call.ids[0]!, overlapMs.value, guard);
    const { key, durability } = changed;
    tell(call, admin, 'key.rotate', changed);
    const { id, ...rest } = wholeKeyReport(key, admin.operations.plans, admin.nowMs());
    return answerChange(200, durability, { id, key: secret, ...rest }, fieldsOfKey(key));
  });
}

/** Deletes a key for good. By a path of its own: DELETE of the key revokes it, and has done so from the beginning. */
export async function deleteKey(call: Call, admin: Admin): Promise<Answer> {
  const { body } = call;
  if (body !== undefined && JSON.stringify(body) !== '{}') return wrong('The body must be left out.').refusal;
  return guarded(call, async (guard) => {
    const id = call.ids[0]!;
    const { before, durability } = await admin.operations.delete(id, guard);
    if (before.deletedAtMs === undefined) {
      auditChange(admin.audit, doneLine(call, 'key.delete', id, { before: stateOf(before), after: null }), durability);
    }
    return answerChange(200, durability, { id, deleted: true });
  });
}

export async function showUsage({ ids, query }: Call, { operations }: Admin): Promise<Answer> {
  const [plan = null, ...more] = query.getAll('plan');
  if (more.length > 0) return wrong('plan is given more than once.').refusal;
  return answer(200, await operations.usage(ids[0]!, plan));
}

async function guarded(call: Call, change: (guard: Guard | undefined) => Promise<Answer>): Promise<Answer> {
  const ifMatch = call.fields('if-match');
  const guard = guardOf(ifMatch.length === 0 ? null : ifMatch.join(','));
  return typeof guard === 'object' ? guard : change(guard);
}

function answerWith(key: StoredKey, { operations, nowMs }: Admin, durability: Durability = DURABLE): Answer {
  return answerChange(200, durability, wholeKeyReport(key, operations.plans, nowMs()), fieldsOfKey(key));
}

function fieldsOfKey(key: StoredKey): Record<string, string> {
  return { ETag: etagOf(key) };
}

function tell(
  call: Call,
  { audit }: Admin,
  action: Action,
  { before, key, durability }: { before: StoredKey | null; key: StoredKey; durability: Durability },
  outcome: 'done' | 'repeated' = 'done',
): void {
  const states = { before: before === null ? null : stateOf(before), after: stateOf(key) };
  auditChange(audit, { ...doneLine(call, action, key.id, states), outcome }, durability);
}

/** With the quotes of a structured field or without them (draft-ietf-httpapi-idempotency-key-header). */
function idempotencyKeyOf({ fields }: Call): string | null | Answer {
  const values = fields('idempotency-key');
  if (values.length === 0) return null;
  const [value] = values as [string];
  const name = /^"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"$/.exec(value)?.[1] ?? value;
  if (values.length === 1 && /^[\x21\x23-\x5b\x5d-\x7e][\x20\x21\x23-\x5b\x5d-\x7e]{0,254}$/.test(name)) return name;
  return refuse('invalid_request', 'Idempotency-Key must be sent once, with 1 to 255 visible ASCII characters.');
}
