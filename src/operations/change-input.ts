import { z } from 'zod';
import { type Limits, UNBOUNDED } from '../admit/plan.ts';
import { eachWindow, WINDOWS, type WindowName } from '../admit/windows.ts';
import { DURATION_RULE, durationFrom, MOMENT_RULE, momentFrom, visible } from './input-values.ts';
import type { KeyAttributes, KeyEdits } from './key-changes.ts';
import type { NewTopUp } from './usage-changes.ts';

// What operators send as JSON to change something, or as an object to the library: read here, with a sentence for each fault.

/** The parsed body, or sentences that name its wrong members. */
type ReadBody<T> = { readonly value: T } | { readonly fault: string };

const planRule = 'must be the name of a plan';
const textRule = 'must be text or null';
const limitRule = `must be a whole number from 0 to ${UNBOUNDED} or "unlimited"`;
const editedLimitRule = `${limitRule}, or null for the plan's own`;
const number = (rule: string) => z.int(rule).min(0, rule).max(UNBOUNDED, rule);
const limit = z.union([number(limitRule), z.literal('unlimited')], limitRule);
const editedLimit = z.union([number(editedLimitRule), z.literal('unlimited'), z.null()], editedLimitRule);
const limitsRule = `must be an object with ${WINDOWS.join(', ')}`;

const moment = z
  .string(`${MOMENT_RULE}, or null for never`)
  .refine((text) => momentFrom(text, 0) !== null, `${MOMENT_RULE}, or null for never`);

const shared = {
  name: z.string(textRule).nullable().optional(),
  owner: z.string(textRule).nullable().optional(),
  notes: z.string(textRule).nullable().optional(),
  expiresAt: moment.nullable().optional(),
};

const CREATION = z.strictObject(
  { plan: z.string(planRule), ...shared, limits: windows(limit).optional() },
  'must be an object',
);
const EDITS = z.strictObject(
  { plan: z.string(planRule).optional(), ...shared, limits: windows(editedLimit).optional() },
  'must be an object',
);
const ROTATION = z.strictObject(
  {
    overlap: z
      .string(DURATION_RULE)
      .refine((text) => durationFrom(text) !== null, DURATION_RULE)
      .optional(),
  },
  'must be an object',
);

const windowRule = `must be one of ${WINDOWS.join(', ')}`;
const amountRule = `must be a whole number from 1 to ${UNBOUNDED}`;
const windowsRule = `must be an array of different windows, each one of ${WINDOWS.join(', ')}`;
const TOP_UP = z.strictObject(
  { window: z.enum(WINDOWS, windowRule), amount: z.int(amountRule).min(1, amountRule).max(UNBOUNDED, amountRule) },
  'must be an object',
);
const RESET = z.strictObject(
  {
    windows: z
      .array(z.enum(WINDOWS, windowRule), windowsRule)
      .min(1, windowsRule)
      .refine((all) => new Set(all).size === all.length, windowsRule)
      .optional(),
  },
  'must be an object',
);

const secretRule = 'must be the secret of a key, a text';
const FIND = z.strictObject({ secret: z.string(secretRule).min(1, secretRule) }, 'must be an object');

const DEFAULT_OVERLAP_MS = 86_400_000;

/**
 * Reads the body of `POST /admin/keys`.
 * @returns a function from the time of the creation, in Unix milliseconds, to the key's attributes; `expiresAt` may be
 *   relative to that time
 */
export function readCreation(body: unknown): ReadBody<(nowMs: number) => KeyAttributes> {
  return read(CREATION, body, ({ plan, name, owner, notes, limits, expiresAt }) => (nowMs: number) => ({
    plan,
    name: name ?? null,
    owner: owner ?? null,
    notes: notes ?? null,
    limits: (limits ?? {}) as Limits,
    expiresAtMs: momentOf(expiresAt ?? null, nowMs),
  }));
}

/** Reads the body of `PATCH /admin/keys/{id}`. Absent members stay unchanged (RFC 7396). */
export function readEdits(body: unknown, nowMs: number): ReadBody<KeyEdits> {
  const edits = read(EDITS, body, ({ expiresAt, ...rest }) => ({
    ...(rest as KeyEdits),
    ...(expiresAt === undefined ? {} : { expiresAtMs: momentOf(expiresAt, nowMs) }),
  }));
  if ('value' in edits && Object.keys(edits.value).length === 0) return { fault: 'The body changes nothing.' };
  return edits;
}

/** Reads the body of `POST /admin/keys/{id}/rotate`, which may be missing. @returns the overlap in milliseconds */
export function readRotation(body: unknown): ReadBody<number> {
  return read(ROTATION, body ?? {}, ({ overlap }) =>
    overlap === undefined ? DEFAULT_OVERLAP_MS : durationFrom(overlap)!,
  );
}

/** Reads the body of `POST /admin/keys/find`. Secrets have no spaces, which people copy along. @returns the secret */
export function readFind(body: unknown): ReadBody<string> {
  return read(FIND, body, ({ secret }) => secret.trim());
}

/** Reads the body of `POST /admin/keys/{id}/topups`. */
export function readTopUp(body: unknown): ReadBody<NewTopUp> {
  return read(TOP_UP, body, (topUp) => topUp);
}

/** Reads the body of `POST /admin/keys/{id}/usage/reset`, which may be missing. @returns the windows; null for all */
export function readReset(body: unknown): ReadBody<readonly WindowName[] | null> {
  return read(RESET, body ?? {}, (reset) => reset.windows ?? null);
}

function windows<T extends z.ZodType>(schema: T) {
  return z.strictObject(
    eachWindow(() => schema.optional()),
    limitsRule,
  );
}

function momentOf(text: string | null, nowMs: number): number | null {
  return text === null ? null : momentFrom(text, nowMs);
}

function read<S extends z.ZodType, T>(schema: S, body: unknown, use: (value: z.output<S>) => T): ReadBody<T> {
  if (body === undefined) return { fault: 'The body is missing: it must be a JSON object.' };
  const result = schema.safeParse(body);
  if (result.success) return { value: use(result.data) };
  const sentences = result.error.issues.flatMap((issue) => sentencesOf(issue, body));
  return { fault: [...new Set(sentences)].join(' ') };
}

function sentencesOf(issue: z.core.$ZodIssue, body: unknown): readonly string[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => `There is no member "${visible([...path, key].join('.'))}".`);
  }
  if (path.length === 0) return ['The body must be a JSON object.'];
  const isMissing = path.length === 1 && !Object.hasOwn(body as object, path[0]!);
  return [isMissing ? `${path[0]} is missing: it ${issue.message}.` : `${path.join('.')} ${issue.message}.`];
}
