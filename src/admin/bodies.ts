import { z } from 'zod';
import type { Limits } from '../admit/plan.ts';
import { MAX_LIMIT, WINDOWS } from '../admit/plan.ts';
import type { KeyEdits, KeyWishes } from '../identify/key-changes.ts';
import { visible } from '../identify/visible.ts';
import { DURATION_RULE, durationFrom, MOMENT_RULE, momentFrom } from './moment.ts';

/** What a body was read as, or a sentence that names the members that are wrong. */
export type Read<T> = { readonly value: T } | { readonly fault: string };

const planRule = 'must be the name of a plan';
const textRule = 'must be text or null';
const limitRule = `must be a whole number from 0 to ${MAX_LIMIT} or "unlimited"`;
const editedLimitRule = `${limitRule}, or null for the plan's own`;
const number = (rule: string) => z.int(rule).min(0, rule).max(MAX_LIMIT, rule);
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

const DEFAULT_OVERLAP_MS = 86_400_000;

/** `POST /admin/keys`. @returns what is wished for, asked at a moment in Unix milliseconds */
export function readCreation(body: unknown): Read<(nowMs: number) => KeyWishes> {
  return read(CREATION, body, ({ plan, name, owner, notes, limits, expiresAt }) => (nowMs: number) => ({
    plan,
    name: name ?? null,
    owner: owner ?? null,
    notes: notes ?? null,
    limits: (limits ?? {}) as Limits,
    expiresAtMs: momentOf(expiresAt ?? null, nowMs),
  }));
}

/** `PATCH /admin/keys/{id}`: a member that is absent stays as it is (RFC 7396). */
export function readEdits(body: unknown, nowMs: number): Read<KeyEdits> {
  const edits = read(EDITS, body, ({ expiresAt, ...rest }) => ({
    ...(rest as KeyEdits),
    ...(expiresAt === undefined ? {} : { expiresAtMs: momentOf(expiresAt, nowMs) }),
  }));
  if ('value' in edits && Object.keys(edits.value).length === 0) return { fault: 'The body changes nothing.' };
  return edits;
}

/** `POST /admin/keys/{id}/rotate`, which needs no body. @returns the overlap in milliseconds */
export function readRotation(body: unknown): Read<number> {
  return read(ROTATION, body ?? {}, ({ overlap }) =>
    overlap === undefined ? DEFAULT_OVERLAP_MS : durationFrom(overlap)!,
  );
}

function windows<T extends z.ZodType>(schema: T) {
  return z.strictObject(
    {
      second: schema.optional(),
      minute: schema.optional(),
      hour: schema.optional(),
      day: schema.optional(),
    },
    limitsRule,
  );
}

function momentOf(text: string | null, nowMs: number): number | null {
  return text === null ? null : momentFrom(text, nowMs);
}

function read<S extends z.ZodType, T>(schema: S, body: unknown, use: (value: z.output<S>) => T): Read<T> {
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
