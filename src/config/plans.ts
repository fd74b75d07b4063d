import { z } from 'zod';
import { type BanRule, MAX_LIMIT, type Plan, type Plans, WINDOWS } from '../admit/plan.ts';
import { deepFreeze } from './frozen.ts';
import { asArray, field, isMapping } from './raw.ts';
import * as values from './values.ts';
import { type FileKind, type Note, type Parsed, parseYaml } from './yaml.ts';

/** Reads the text of plans.yaml (contract section 2). `file` is how its faults name it. The value is deep frozen. */
export function parsePlans(text: string, file: string): Parsed<Plans> {
  const parsed = parseYaml(text, file, PLANS_FILE);
  return 'faults' in parsed ? parsed : { ...parsed, value: plansOf(parsed.value) };
}

const { duration, wholeNumber } = values;
const limitRule = `must be a whole number from 0 to ${MAX_LIMIT}, \`unlimited\` or \`custom\``;
const limit = z
  .union([z.int(limitRule).min(0, limitRule).max(MAX_LIMIT, limitRule), z.enum(['unlimited', 'custom'])], limitRule)
  .describe('Requests that one window admits. unlimited: no bound. custom: each key brings its own number.');

const shadowRule = `must be a whole number from 0 to ${MAX_LIMIT}`;
const shadowLimit = z
  .int(shadowRule)
  .min(0, shadowRule)
  .max(MAX_LIMIT, shadowRule)
  .describe('Requests that one window would admit.');

const banFields = {
  after: wholeNumber(1, 1_000_000).describe('Requests refused for the quota that make a ban.'),
  within: duration('1ms', '366d').describe('Refusals are counted anew when this has passed since the first of them.'),
  first: duration('1s', '366d').describe('How long the first ban lasts.'),
  factor: z
    .number('must be a number from 1 to 1000')
    .min(1, 'must be a number from 1 to 1000')
    .max(1000, 'must be a number from 1 to 1000')
    .describe('How many times longer each further ban lasts.'),
  longest: duration('1s', '366d').describe('How long a ban lasts at most.'),
  forget: duration('1ms', '366d').describe(
    'The first ban is as long as at the start again when this has passed since the last.',
  ),
};

/** What the contract gives as the ban rule; a file may leave out any of it. */
export const DEFAULT_BANS: BanRule = Object.freeze({
  after: 10,
  withinMs: 60_000,
  firstMs: 60_000,
  factor: 2,
  longestMs: 86_400_000,
  forgetMs: 86_400_000,
});

// YAML 1.1 reads `off` as false, YAML 1.2 as text: the operator means the same.
const bans = z.union(
  [z.enum(['off']), z.literal(false), z.strictObject(banFields).partial()],
  'must be `off` or a mapping of keys to values',
);
type RawBans = z.output<typeof bans> | undefined;

const plan = z.strictObject({
  limits: z
    .strictObject({ second: limit.optional(), minute: limit.optional(), hour: limit.optional(), day: limit.optional() })
    .meta({ minProperties: 1, description: 'What a key of this plan may use in each window.' }),
  bans: bans.optional().describe('Bans of this plan: off, or what differs from the bans of all plans.'),
  enforce: z
    .boolean('must be true or false')
    .prefault(true)
    .describe('false: the limits are counted and reported, refuse nobody and are not in headers.'),
  shadow: z
    .strictObject({
      second: shadowLimit.optional(),
      minute: shadowLimit.optional(),
      hour: shadowLimit.optional(),
      day: shadowLimit.optional(),
    })
    .optional()
    .meta({
      minProperties: 1,
      description: 'Limits that are counted and reported beside those in force, and refuse nobody.',
    }),
});

/** plans.yaml (contract section 2). */
export const plansSchema = z
  .strictObject({
    plans: z
      .record(values.name(), plan)
      .refine((plans) => Object.keys(plans).length > 0, 'is empty; name at least one plan')
      .meta({ minProperties: 1, description: 'The plans, by name.' }),
    bans: bans
      .optional()
      .describe('When hammering after a 429 becomes a ban: off, or after 10 within 1m, from 1m to 24h.'),
    'failed-authentication': z
      .strictObject({
        minute: wholeNumber(0, MAX_LIMIT).prefault(30).describe('Failed authentications per minute.'),
      })
      .prefault({})
      .describe('What one client address may try before it gets 429 instead of 401.'),
    removed: z
      .array(values.name(), 'must be a list of names of plans')
      .max(10_000, 'must not have more than 10000 names')
      .prefault([])
      .describe(
        'Plans that may go although live keys use them; each request of those keys gets 500. A change that takes away any other plan that live keys use is refused.',
      ),
  })
  .meta({ title: 'Tollgate plans.yaml', description: 'What each plan allows.' });

const PLANS_FILE: FileKind<typeof plansSchema> = {
  schema: plansSchema,
  later: [],
  check(raw, fault, warn) {
    const own = soundBans(field(raw, 'bans'));
    const common = mergeBans(DEFAULT_BANS, own);
    checkBans(common, own, ['bans'], fault);
    const plans = field(raw, 'plans');
    for (const [i, name] of asArray(field(raw, 'removed')).entries()) {
      if (typeof name !== 'string' || !isMapping(plans) || !Object.hasOwn(plans, name)) continue;
      fault(['removed', i], 'is one of `plans`; leave it out here or there.');
    }
    for (const [name, entry] of isMapping(plans) ? Object.entries(plans) : []) {
      const ofPlan = soundBans(field(entry, 'bans'));
      checkBans(mergeBans(common ?? DEFAULT_BANS, ofPlan), ofPlan, ['plans', name, 'bans'], fault);
      checkLimits(name, field(entry, 'limits'), fault, warn);
      checkShadow(name, entry, fault);
    }
  },
};

/** What is sound of a ban rule that may be faulty elsewhere. */
function soundBans(raw: unknown): RawBans {
  const whole = bans.safeParse(raw);
  if (whole.success) return whole.data;
  const sound = Object.entries(banFields).flatMap(([key, schema]) => {
    const value = schema.safeParse(field(raw, key));
    return value.success ? [[key, value.data]] : [];
  });
  return Object.fromEntries(sound);
}

/** Told only where one of the two is set; a plan that inherits both is not at fault. */
function checkBans(rule: BanRule | null, own: RawBans, path: readonly string[], fault: Note): void {
  if (rule === null || !own || own === 'off' || rule.longestMs >= rule.firstMs) return;
  if (own.longest !== undefined)
    fault([...path, 'longest'], 'is shorter than the first ban; lengthen it or shorten `first`.');
  else if (own.first !== undefined)
    fault([...path, 'first'], 'is longer than the longest ban; shorten it or set a longer `longest`.');
}

function checkLimits(plan: string, limits: unknown, fault: Note, warn: Note): void {
  if (isMapping(limits) && Object.keys(limits).length === 0) {
    fault(['plans', plan, 'limits'], `is empty; give a limit for at least one of ${WINDOWS.join(', ')}.`);
  }
  const counted = WINDOWS.flatMap((window) => {
    const value = field(limits, window);
    return typeof value === 'number' && Number.isInteger(value) ? [{ window, value }] : [];
  });
  for (const [i, { window, value }] of counted.entries()) {
    const path = ['plans', plan, 'limits', window];
    const shorter = counted.slice(0, i).find((other) => other.value > value);
    if (value === 0) warn(path, 'is 0 and refuses every request of this plan.');
    else if (shorter !== undefined) {
      warn(path, `is below the ${shorter.window} limit of ${shorter.value}, which can then never be used up.`);
    }
  }
}

function checkShadow(plan: string, entry: unknown, fault: Note): void {
  const shadow = field(entry, 'shadow');
  const path = ['plans', plan, 'shadow'];
  if (isMapping(shadow) && Object.keys(shadow).length === 0) {
    fault(path, `is empty; give a limit for at least one of ${WINDOWS.join(', ')}.`);
  } else if (shadow !== undefined && field(entry, 'enforce') === false) {
    fault(path, 'stands beside `enforce: false`, which makes `limits` a shadow already; leave out one of the two.');
  }
}

function plansOf(file: z.output<typeof plansSchema>): Plans {
  const common = mergeBans(DEFAULT_BANS, file.bans);
  const plans = Object.entries(file.plans).map(([name, { limits, bans: own, enforce, shadow }]): [string, Plan] => [
    name,
    {
      name,
      limits: Object.fromEntries(
        WINDOWS.flatMap((window) => (limits[window] === undefined ? [] : [[window, limits[window]]])),
      ),
      // A plan with bans of its own where bans are off for all starts from the contract's rule.
      bans: own === undefined ? common : mergeBans(common ?? DEFAULT_BANS, own),
      enforce,
      shadow: Object.fromEntries(
        WINDOWS.flatMap((window) => (shadow?.[window] === undefined ? [] : [[window, shadow[window]]])),
      ),
    },
  ]);
  return deepFreeze({
    plans: new Map(plans),
    removed: file.removed,
    failedAuthenticationPerMinute: file['failed-authentication'].minute,
  });
}

function mergeBans(base: BanRule, own: RawBans): BanRule | null {
  if (own === undefined) return base;
  if (own === false || own === 'off') return null;
  return {
    after: own.after ?? base.after,
    withinMs: own.within ?? base.withinMs,
    firstMs: own.first ?? base.firstMs,
    factor: own.factor ?? base.factor,
    longestMs: own.longest ?? base.longestMs,
    forgetMs: own.forget ?? base.forgetMs,
  };
}
