import { z } from 'zod';
import { Refused } from '../../failure.ts';
import type { RecordUpdate } from '../../identify/record-store.ts';
import { type RecordKind, shapeOf } from '../../model/attributes.ts';
import { editedLimits, type Limits } from '../../model/plan.ts';
import { isSuspended, type StoredRecord } from '../../model/record.ts';
import type { DeepReadonly } from '../../model/values.ts';
import { bodyDigestOf, type Created, type Repeatable, type SecretEnd } from '../create-once.ts';
import { edited, type RecordEdits, resumed, suspended } from '../key-changes.ts';
import { DURATION_RULE, durationFrom, MOMENT_RULE, momentFrom } from '../operation-values.ts';
import { type ChangedRecord, changeRecord, type Kind } from '../operator-store.ts';
import { insistOnPlan } from '../plans/versions.ts';
import { changeOfRecord } from '../recorded.ts';
import { reason } from '../suspensions.ts';
import type { StoreContext } from './contexts.ts';
import type { Done, Invocation } from './operation.ts';

// What operators do with keys and customers alike. The files of both kinds add to each operation its name, path and sentences.

/** A kind of records, as operators see it. */
export interface ShownKind<T extends StoredRecord, Out extends z.ZodType> extends Kind<T> {
  readonly output: Out;
  readonly report: (record: T, context: StoreContext) => Promise<DeepReadonly<z.output<Out>>>;
}

/** The member of the path of an operation on one record. */
export interface RecordPath {
  readonly id: string;
}

export const DURATION_PATTERN = '^[0-9]+(ms|s|m|h|d)$';

export const planRule = 'must be the name of a plan';
export const plan = z.string(planRule).describe('One of the plans in force.');

/** The id of a customer. */
export const customerId = z.string('must be the id of a customer');

/** A length of time. */
export const duration = z.string(DURATION_RULE).refine((text) => durationFrom(text) !== null, DURATION_RULE);

const momentRule = `${MOMENT_RULE}, or null for never`;
export const moment = z
  .string(momentRule)
  .refine((text) => momentFrom(text, 0) !== null, momentRule)
  .nullable()
  .describe('An RFC 3339 time, a date (midnight UTC), or a duration from now such as 90d; null means never.')
  .meta({ id: 'Moment', examples: ['2030-12-31T12:00:00Z', '2030-12-31', '90d', null] });

/** When a record of a kind ends. */
export function end(kind: RecordKind) {
  return moment
    .optional()
    .describe(kind === 'key' ? 'When it ends.' : 'When it ends. Its keys are refused from then on.');
}

function msOf(text: string | null, nowMs: number): number | null {
  return text === null ? null : momentFrom(text, nowMs);
}

/** What a new key or customer is to have, apart from its plan. */
export function newAttributes<
  G extends { readonly expiresAt?: string | null | undefined; readonly limits?: object | undefined },
>({ expiresAt, limits, ...attributes }: G, nowMs: number) {
  return { ...attributes, limits: (limits ?? {}) as Limits, expiresAtMs: msOf(expiresAt ?? null, nowMs) };
}

/** What all creations have in common. */
export const CREATING = {
  role: 'admin',
  on: 'store',
  isVersioned: true,
  once: true,
} as const;

export function repeatableOf({ once, body }: Invocation): Repeatable | null {
  return once === null ? null : { name: once, body: bodyDigestOf(body) };
}

/** @throws Refused if the Idempotency-Key was used for something else, or what it made has ended */
export async function createdDone<T extends StoredRecord, M extends RecordUpdate<T>, Out>(
  { what }: Kind<T>,
  created: Created<M>,
  reportOf: (made: M) => Promise<DeepReadonly<Out>>,
): Promise<Done<Out>> {
  if (created.kind === 'reused') {
    const message = `This Idempotency-Key came with another body before. Use a new one for each ${what} that is to be made.`;
    throw new Refused('idempotency_key_reused', message);
  }
  if (created.kind === 'ended') {
    const { id, how } = created;
    const [noun, advice] = NOUNS[what];
    const message = `${noun} ${id}, which this Idempotency-Key made, ${ENDED[how]}. ${advice}`;
    throw new Refused('conflict', message, what === 'key' ? { keyId: id } : { customerId: id });
  }
  const isRepeated = created.kind === 'repeated';
  return {
    output: await reportOf(created),
    change: { ...changeOfRecord(created), outcome: isRepeated ? 'repeated' : 'done' },
    record: created.record,
    isRepeated,
  };
}

const NOUNS: Readonly<Record<RecordKind, readonly [noun: string, advice: string]>> = {
  key: ['Key', 'Use a new Idempotency-Key to make another key.'],
  customer: ['Customer', 'Use a new one.'],
};

const ENDED: Readonly<Record<SecretEnd, string>> = {
  revoked: 'is revoked',
  expired: 'has expired',
  rotated: 'has another secret since',
  deleted: 'was deleted',
};

/** What all changes of one record have in common. */
export function changing<T extends StoredRecord, Out extends z.ZodType>({ output }: ShownKind<T, Out>) {
  return { role: 'operator', on: 'store', isVersioned: true, output } as const;
}

function editsOfKind<K extends RecordKind>(kind: K) {
  const windows = `Limits of its own in place of its plan's. Those of windows that are absent stay as they are.`;
  const members = {
    plan: plan.optional(),
    ...shapeOf(kind, 'edited'),
    expiresAt: end(kind),
    limits: editedLimits.optional().describe(windows),
  };
  return z
    .strictObject(members, 'must be an object')
    .refine((edits) => Object.keys(edits).length > 0, 'The body changes nothing.');
}

type GivenEdits = z.output<ReturnType<typeof editsOfKind<'customer'>>>;

/** Changes the attributes of a record. @param id of the schema of the edits */
export function updating<K extends RecordKind, T extends StoredRecord, Out extends z.ZodType>(
  kind: ShownKind<T, Out> & { readonly what: K },
  id: string,
) {
  return {
    ...changing(kind),
    description: 'A member that is absent stays as it is; null removes what can be absent (RFC 7396).',
    input: editsOfKind(kind.what).meta({
      id,
      minProperties: 1,
      examples: [{ plan: 'business', limits: { minute: null } }],
    }),
    async run(context: StoreContext, { id, expiresAt, ...given }: GivenEdits & RecordPath, { guard }: Invocation) {
      const { goneElsewhere, plans } = context;
      const nowMs = context.nowMs();
      const ends = expiresAt === undefined ? {} : { expiresAtMs: msOf(expiresAt, nowMs) };
      const edits = { ...given, ...ends } as RecordEdits;
      if (edits.plan !== undefined) insistOnPlan(edits.plan, await goneElsewhere());
      const sources = { plans: plans().plans, nowMs };
      const change = await changeRecord(kind, context, id, (one) => edited(one, edits, sources, kind.what), guard);
      return changedDone(kind, context, change, false);
    },
  } as const;
}

/** Suspends a record until a moment, or until it is resumed. @param id of the schema of what is asked for */
export function suspending<T extends StoredRecord, Out extends z.ZodType>(kind: ShownKind<T, Out>, id: string) {
  const untilText = `When it ends by itself; only when the ${kind.what} is resumed unless given.`;
  const input = z
    .strictObject({ until: moment.optional().describe(untilText), reason: reason.optional() }, 'must be an object')
    .meta({ id, examples: [{ until: '24h', reason: 'asked for by billing' }] });
  return {
    ...changing(kind),
    input,
    async run(
      context: StoreContext,
      { id, until = null, reason = null }: z.output<typeof input> & RecordPath,
      { guard }: Invocation,
    ) {
      const nowMs = context.nowMs();
      const given = { untilMs: msOf(until, nowMs), reason };
      const change = await changeRecord(kind, context, id, (one) => suspended(one, given, nowMs), guard);
      return changedDone(kind, context, change, change.record === change.before);
    },
  } as const;
}

/** Ends the suspension of a record. */
export function resuming<T extends StoredRecord, Out extends z.ZodType>(kind: ShownKind<T, Out>) {
  return {
    ...changing(kind),
    input: z.strictObject({}, 'must be an object'),
    async run(context: StoreContext, { id }: RecordPath, { guard }: Invocation) {
      const change = await changeRecord(kind, context, id, resumed, guard);
      return changedDone(kind, context, change, !isSuspended(change.before.suspended, context.nowMs()));
    },
  } as const;
}

/** @param isSame whether it already was as requested */
export async function changedDone<T extends StoredRecord, Out extends z.ZodType>(
  { report }: ShownKind<T, Out>,
  context: StoreContext,
  change: ChangedRecord<T>,
  isSame: boolean,
): Promise<Done<z.output<Out>>> {
  const { record } = change;
  return { output: await report(record, context), change: changeOfRecord(change, isSame), record };
}
