import { z } from 'zod';
import { calendarOf } from '../admit/calendar.ts';
import {
  type BanRule,
  groupMembers,
  limitOr,
  limitRule,
  MAX_GROUPS,
  MAX_LIMIT,
  MAX_UNITS,
  type Plan,
  type Plans,
  UNLIMITED,
  type WindowForm,
} from '../model/plan.ts';
import { WINDOWS, type WindowName } from '../model/values.ts';
import { groupRouteOf } from '../routing/path-groups.ts';
import { faultOfPattern } from '../routing/pattern.ts';
import { fieldConditions } from './conditions-schema.ts';
import * as values from './setting-values.ts';

import { asArray, type FileKind, field, isMapping, type Note, type ParseResult, parseYaml } from './yaml.ts';

/** Parses the text of plans.yaml (contract section 2). The value is deep frozen. @param file its name in faults */
export function parsePlans(text: string, file: string): ParseResult<Plans> {
  const parsed = parseYaml(text, file, PLANS_FILE);
  return 'faults' in parsed ? parsed : { ...parsed, value: plansOf(parsed.value) };
}

const { duration, wholeNumber } = values;

const PLAIN = ', `unlimited` or `custom`';
const plainLimit = limitOr(PLAIN, z.enum(['unlimited', 'custom']));
const shadowLimit = wholeNumber(0, MAX_LIMIT);

const sliding = {
  window: z
    .enum(['fixed', 'sliding'], 'must be `fixed` or `sliding`')
    .optional()
    .describe(
      '`fixed`: the window opens with the first request that is counted in it, and ends one length later. `sliding`: no span of one length, wherever it begins, admits more than the limit.',
    ),
  slices: wholeNumber(4, 30)
    .optional()
    .describe(
      'Into how many slices a sliding window is cut. More slices admit an even pace closer to the limit. 12 if left out.',
    ),
};
const zone = z
  .string('must be the name of a time zone, such as UTC or Europe/Berlin')
  .refine(isZone, 'must be the name of a time zone, such as UTC or Europe/Berlin')
  .optional()
  .describe('Time zone of a calendar window, by its IANA name. `UTC` if left out.');
const align = z
  .literal('calendar', 'must be `calendar`')
  .optional()
  .describe('`calendar`: the window is the hour, day, week (from Monday) or month of the calendar.');

/** What may be said of each window besides its limit. */
const FORMS = {
  second: sliding,
  minute: sliding,
  hour: { ...sliding, align, zone },
  day: { ...sliding, align, zone },
  week: { ...sliding, align, zone },
  month: {
    align,
    zone,
    anchor: wholeNumber(1, 31)
      .optional()
      .describe('The day on which a month begins; in a shorter month its last day. 1 if left out.'),
  },
} as const;

/** A schema for each window: the limit alone, or a mapping of it and the form of the window. @param ending of the limit's rule */
function byWindow<L extends z.ZodType>(limit: L, ending: string, description: string) {
  const of = <F extends z.ZodRawShape>(form: F) =>
    z
      .union(
        [limit, z.strictObject({ limit: limit.describe(description), ...form })],
        `${limitRule(ending)}, or a mapping with \`limit\``,
      )
      .optional()
      .describe(description);
  return {
    second: of(FORMS.second),
    minute: of(FORMS.minute),
    hour: of(FORMS.hour),
    day: of(FORMS.day),
    week: of(FORMS.week),
    month: of(FORMS.month),
  };
}

/** An IANA name. Temporal takes offsets and whole points in time, too. */
export function isZone(zone: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+)*$/.test(zone)) return false;
  try {
    calendarOf({ unit: 'day', zone, anchor: 1 });
    return true;
  } catch {
    return false;
  }
}

const banFields = {
  of: z
    .enum(['key', 'customer'], 'must be `key` or `customer`')
    .describe('Who is banned: the key that kept sending, or with it all keys of its customer. `key` if left out.'),
  after: wholeNumber(1, 1_000_000).describe('Number of requests refused for the quota that make a ban.'),
  within: duration('1ms', '366d').describe(
    'Refusals are counted from 0 when this has passed since the first of them. They are also counted from 0 when the window that refused ends.',
  ),
  first: duration('1s', '366d').describe('How long the first ban lasts.'),
  factor: z
    .number('must be a number from 1 to 1000')
    .min(1, 'must be a number from 1 to 1000')
    .max(1000, 'must be a number from 1 to 1000')
    .describe('How many times longer each further ban lasts than the one before, from 1 to 1000.'),
  longest: duration('1s', '366d').describe('How long a ban lasts at most. Not below `first`.'),
  forget: duration('1ms', '366d').describe(
    'When this has passed since the end of the last ban, the next ban is a first one again.',
  ),
};

/** The ban rule of the contract (section 2). plans.yaml may override any part of it. */
export const DEFAULT_BANS: BanRule = Object.freeze({
  after: 10,
  withinMs: 60_000,
  firstMs: 60_000,
  factor: 2,
  longestMs: 86_400_000,
  forgetMs: 86_400_000,
});

// YAML 1.1 parsers read `off` as false, YAML 1.2 parsers as text; both turn bans off.
const bans = z.union(
  [z.enum(['off']), z.literal(false), z.strictObject(banFields).partial()],
  'must be `off` or a mapping of keys to values',
);
type RawBans = z.output<typeof bans> | undefined;

const inFlight = wholeNumber(1, 1_000_000).optional();
const OF_UNIT = ', or `unlimited`';
const unitLimit = limitOr(OF_UNIT, UNLIMITED);

/** Limits in units of their own, by the name of the unit. */
function unitsSchema(description: string) {
  return z
    .record(
      values.limitName('unit', ['requests']),
      z
        .strictObject(
          byWindow(
            unitLimit,
            OF_UNIT,
            'How much of the unit one window admits. `unlimited`: it is counted for the history alone.',
          ),
        )
        .meta({ minProperties: 1 }),
    )
    .refine((units) => Object.keys(units).length <= MAX_UNITS, `must not have more than ${MAX_UNITS} units`)
    .transform((units) => Object.entries(units).map(([name, limits]) => ({ name, ...partOf(limits) })))
    .optional()
    .meta({ minProperties: 1, maxProperties: MAX_UNITS, description });
}
const group = z.strictObject({
  routes: groupMembers.shape.routes.min(1, 'must have at least one pattern').default([]),
  when: fieldConditions()
    .optional()
    .describe(
      'What header fields of a request on these routes must be for it to belong to the group, as `when` of a route in gateway.yaml: `{ header: Mcp-Name, is: [send_mail] }`. A request with several values, only some of which fit, belongs to the group.',
    ),
  limits: z
    .strictObject(byWindow(shadowLimit, '', 'Number of requests of the group that one window admits.'))
    .meta({ minProperties: 1, description: 'Limits of the group, by window, as those of the plan.' })
    .transform(partOf),
  units: unitsSchema('Limits of the group in units of their own, as those of the plan.'),
  instead: z
    .boolean('must be true or false')
    .prefault(false)
    .describe("`true`: requests of the group are counted by its limits in place of the plan's `limits`."),
});

const plan = z.strictObject({
  limits: z
    .strictObject(
      byWindow(
        plainLimit,
        PLAIN,
        'Number of requests that one window admits; 0 refuses everything. `unlimited`: no bound. `custom`: each key brings its own number.',
      ),
    )
    .meta({
      minProperties: 1,
      description:
        'Limits of each key of this plan, by window; of a customer with this plan, limits that all its keys share. A plain number is the limit of a fixed window, which opens with the first request that is counted in it; a month is always a calendar month. At least one window is required.',
    })
    .transform(partOf),
  bans: bans.optional().describe('Bans of this plan: `off`, or a mapping of what differs from the bans of all plans.'),
  'each-key': z
    .strictObject({
      ...byWindow(shadowLimit, '', 'Number of requests that one window admits to one key.'),
      'in-flight': inFlight.describe('How many requests of one key may be in flight at a time, over all gateways.'),
      units: unitsSchema("What one key of a customer may take of its customer's limits in units of their own."),
    })
    .transform(({ 'in-flight': inFlight, units, ...windows }) => ({ ...partOf(windows), inFlight, units }))
    .optional()
    .meta({
      minProperties: 1,
      description:
        "What one key of a customer may take of its customer's limits, by window. A key's own limits replace these. Keys without a customer have the limits of the plan alone.",
    }),
  units: unitsSchema(
    'Limits in units other than requests, such as tokens or rows, by the name of the unit and by window. Routes of gateway.yaml say what a request charges in them (`cost`). A request that charges a unit takes some of it in advance, and pays what it really cost when its answer has come.',
  ),
  groups: z
    .record(values.limitName('group'), group)
    .refine((groups) => Object.keys(groups).length <= MAX_GROUPS, `must not have more than ${MAX_GROUPS} groups`)
    .transform((groups) => Object.entries(groups).map(([name, { limits, ...of }]) => ({ name, ...of, ...limits })))
    .optional()
    .meta({
      minProperties: 1,
      maxProperties: MAX_GROUPS,
      description:
        'Groups of routes, by name. A request of a group is counted by the limits of the group as well, in one decision: a request that one of them refuses is counted by none.',
    }),
  'in-flight': inFlight.describe(
    'How many requests of one key, or of one customer, may be in flight at a time, over all gateways. Further ones get 429 `in_flight_limit_exceeded`, which is no strike. Streams and WebSockets count as long as they are open. Any number if left out.',
  ),
  enforce: z
    .boolean('must be true or false')
    .prefault(true)
    .describe(
      '`false` makes the plan a shadow: its limits and bans are counted and reported in log and metrics, refuse no request and are not in headers.',
    ),
  shadow: z
    .strictObject(byWindow(shadowLimit, '', 'Number of requests that one window would admit.'))
    .transform(partOf)
    .optional()
    .meta({
      minProperties: 1,
      description:
        'Limits that are counted and reported besides those in force, and refuse no request. They see the requests that the limits in force admitted.',
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
      .describe(
        'When a caller that keeps sending after a 429 is banned: `off`, or a mapping with the defaults `after: 10`, `within: 1m`, `first: 1m`, `factor: 2`, `longest: 24h`, `forget: 24h`.',
      ),
    'failed-authentication': z
      .strictObject({
        minute: wholeNumber(0, MAX_LIMIT)
          .prefault(30)
          .describe(
            'Number of failed authentications per minute. Beyond it the address gets 429 `too_many_failed_attempts`; a good key from the same address still passes, and so does a good token that was verified recently. Of other tokens ten signatures a second may fail; beyond that they are refused without being verified.',
          ),
      })
      .prefault({})
      .describe('How often one client address may try a missing or wrong key before it gets 429 instead of 401.'),
    removed: z
      .array(values.name(), 'must be a list of names of plans')
      .max(10_000, 'must not have more than 10000 names')
      .prefault([])
      .describe(
        'Names of plans that may be removed although live keys use them; each request of those keys then gets 500. A reload that removes any other plan that live keys use is refused.',
      ),
  })
  .meta({ title: 'Tollgate plans.yaml', description: 'What each plan allows.' });

/** What may be written in plans.yaml. */
export type PlansFileInput = z.input<typeof plansSchema>;

const PLANS_FILE: FileKind<typeof plansSchema> = {
  schema: plansSchema,
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
      for (const part of partsIn(entry, ['plans', name])) checkPart(part, fault, warn);
      checkInFlight(name, entry, warn);
      checkGroups(name, entry, fault, warn);
      checkUnits(name, entry, fault);
      if (field(entry, 'shadow') !== undefined && field(entry, 'enforce') === false)
        fault(['plans', name, 'shadow'], IS_SHADOW);
    }
  },
};

/** The valid parts of a ban rule that may have faults in others. */
function soundBans(raw: unknown): RawBans {
  const whole = bans.safeParse(raw);
  if (whole.success) return whole.data;
  const sound = Object.entries(banFields).flatMap(([key, schema]) => {
    const value = schema.safeParse(field(raw, key));
    return value.success ? [[key, value.data]] : [];
  });
  return Object.fromEntries(sound);
}

/** Reports `longest` or `first` only where it is set: a plan that inherits both is not at fault. */
function checkBans(rule: BanRule | null, own: RawBans, path: readonly string[], fault: Note): void {
  if (rule === null || !own || own === 'off' || rule.longestMs >= rule.firstMs) return;
  if (own.longest !== undefined)
    fault([...path, 'longest'], 'is shorter than the first ban; lengthen it or shorten `first`.');
  else if (own.first !== undefined)
    fault([...path, 'first'], 'is longer than the longest ban; shorten it or set a longer `longest`.');
}

const IS_SHADOW =
  'is set together with `enforce: false`, which makes `limits` a shadow already; leave out one of the two.';

/** A part of a plan that has limits by window, as it is written. */
interface RawPart {
  readonly limits: unknown;
  readonly path: readonly string[];
  /** What else it may have in place of a window. */
  readonly besides?: string;
  /** Which requests a limit of 0 refuses, where it is probably a mistake. */
  readonly refused?: string;
  /** The limits that all keys or all routes share: this part bounds nothing unless it is below them. */
  readonly within?: { readonly limits: unknown; readonly why: string };
  /** It refuses nothing, so its numbers are not compared. */
  readonly isWatched?: true;
}

const OF_ALL_KEYS = 'that all keys of a customer share, and so bounds no key.';

/** Every part of a plan that has limits by window. */
function partsIn(entry: unknown, path: readonly string[]): readonly RawPart[] {
  const [limits, shadow, eachKey, units] = ['limits', 'shadow', 'each-key', 'units'].map((name) => field(entry, name));
  return [
    { limits, path: [...path, 'limits'], refused: 'every request of this plan' },
    { limits: shadow, path: [...path, 'shadow'], isWatched: true },
    {
      limits: eachKey,
      path: [...path, 'each-key'],
      besides: ' and in-flight',
      within: { limits, why: OF_ALL_KEYS },
    },
    ...unitParts(units, path),
    ...unitParts(field(eachKey, 'units'), [...path, 'each-key'], units),
    ...entriesOf(field(entry, 'groups')).flatMap(([name, group]) => {
      const of = [...path, 'groups', name];
      const why = 'of the plan, which refuses first; lower it, or set `instead: true`.';
      const part = { limits: field(group, 'limits'), path: [...of, 'limits'] };
      const within = field(group, 'instead') === true ? {} : { within: { limits, why } };
      return [{ ...part, ...within }, ...unitParts(field(group, 'units'), of)];
    }),
  ];
}

/** @param ofPlan the units that all keys of a customer share */
function unitParts(units: unknown, path: readonly string[], ofPlan?: unknown): readonly RawPart[] {
  return entriesOf(units).map(([unit, limits]) => ({
    limits,
    path: [...path, 'units', unit],
    refused: 'every request of this plan that charges it',
    within: { limits: field(ofPlan, unit), why: OF_ALL_KEYS },
  }));
}

function checkPart({ limits, path, besides = '', refused, within, isWatched }: RawPart, fault: Note, warn: Note): void {
  if (isMapping(limits) && Object.keys(limits).length === 0) {
    fault(path, `is empty; give a limit for at least one of ${WINDOWS.join(', ')}${besides}.`);
  }
  for (const window of WINDOWS) checkForm(field(limits, window), [...path, window], fault);
  if (isWatched) return;
  const counted = countedIn(limits);
  const shared = new Map(countedIn(within?.limits).map(({ window, value }) => [window, value]));
  for (const [i, { window, value }] of counted.entries()) {
    const at = [...path, window];
    const before = counted.slice(0, i);
    const shorter = before.find((other) => other.value > value);
    const same = before.find((other) => other.value === value);
    const most = shared.get(window);
    if (value === 0 && refused !== undefined) warn(at, `is 0 and refuses ${refused}.`);
    if (value !== 0 && shorter !== undefined)
      warn(at, `is below the ${shorter.window} limit of ${shorter.value}, which can then never be used up.`);
    else if (value !== 0 && same !== undefined)
      warn(at, `is no more than the ${same.window} limit, which then makes no difference.`);
    if (most !== undefined && value >= most) warn(at, `is not below the ${window} limit of ${most} ${within!.why}`);
  }
}

/** The windows with a number, shortest first. */
function countedIn(limits: unknown): readonly { readonly window: WindowName; readonly value: number }[] {
  return WINDOWS.flatMap((window) => {
    const entry = field(limits, window);
    const value = isMapping(entry) ? field(entry, 'limit') : entry;
    return typeof value === 'number' && Number.isInteger(value) ? [{ window, value }] : [];
  });
}

function checkInFlight(plan: string, entry: unknown, warn: Note): void {
  const [one, all] = [field(field(entry, 'each-key'), 'in-flight'), field(entry, 'in-flight')];
  if (typeof one !== 'number' || typeof all !== 'number' || one < all) return;
  warn(['plans', plan, 'each-key', 'in-flight'], `is not below the in-flight limit of ${all} ${OF_ALL_KEYS}`);
}

function checkGroups(plan: string, entry: unknown, fault: Note, warn: Note): void {
  const groups = field(entry, 'groups');
  if (isMapping(groups) && Object.keys(groups).length === 0) {
    fault(['plans', plan, 'groups'], 'is empty; name at least one group, or leave it out.');
  }
  for (const [name, group] of entriesOf(groups)) {
    checkRoutes(field(group, 'routes'), ['plans', plan, 'groups', name, 'routes'], fault, warn);
    if (field(group, 'when') !== undefined && field(group, 'routes') === undefined) {
      fault(['plans', plan, 'groups', name, 'when'], 'needs `routes`: it compares the requests on them.', 'key');
    }
  }
}

/** Units and groups of a plan must not have the same names in header fields. */
function checkUnits(plan: string, entry: unknown, fault: Note): void {
  const groups = entriesOf(field(entry, 'groups'));
  const path = ['plans', plan];
  const parts = [
    { units: field(entry, 'units'), path: [...path, 'units'], prefix: '' },
    { units: field(field(entry, 'each-key'), 'units'), path: [...path, 'each-key', 'units'], prefix: '' },
    ...groups.map(([group, of]) => {
      return { units: field(of, 'units'), path: [...path, 'groups', group, 'units'], prefix: `${group}-` };
    }),
  ];
  const names = new Set<string>();
  const ofGroups = groups.map(([name]) => name);
  // The beginnings of the names that windows have in header fields.
  const taken = new Set(ofGroups);
  for (const { units, path: at, prefix } of parts) {
    if (isMapping(units) && Object.keys(units).length === 0)
      fault(at, 'is empty; name at least one unit, or leave it out.');
    for (const [unit] of entriesOf(units)) {
      const name = `${prefix}${unit}`;
      if (taken.has(name) && (prefix !== '' || ofGroups.includes(name)))
        fault(
          [...at, unit],
          `has limits with the same names (${name}-…) as another group or unit; rename one of the two.`,
        );
      taken.add(name);
      names.add(unit);
    }
  }
  if (names.size > MAX_UNITS) fault([...path, 'units'], `and those of groups are more than ${MAX_UNITS} units.`);
}

function entriesOf(value: unknown): readonly (readonly [string, unknown])[] {
  return isMapping(value) ? Object.entries(value) : [];
}

function checkRoutes(routes: unknown, path: readonly string[], fault: Note, warn: Note): void {
  for (const [i, route] of asArray(routes).entries()) {
    if (typeof route !== 'string') continue;
    const problem = faultOfPattern(groupRouteOf(route).path);
    if (problem !== null) fault([...path, i], `${problem}.`);
    else if (/%(?:2f|5c)/i.test(route)) warn([...path, i], 'has an encoded slash, which the gateway refuses.');
  }
}

/** Of a month the schema refuses all of this, because a month neither slides nor needs `align`. */
function checkForm(entry: unknown, path: readonly string[], fault: Note): void {
  if (path.at(-1) === 'month') return;
  const [kind, slices, align, zone] = ['window', 'slices', 'align', 'zone'].map((key) => field(entry, key));
  if (slices !== undefined && kind !== 'sliding')
    fault([...path, 'slices'], 'is of no use without `window: sliding`; add it, or leave out `slices`.');
  if (kind !== undefined && align !== undefined)
    fault(
      [...path, 'align'],
      `stands beside \`window\`: a window is fixed or sliding, or follows the calendar; leave out one of the two.`,
    );
  if (zone !== undefined && align === undefined)
    fault([...path, 'zone'], 'is of no use without `align: calendar`; add it, or leave out `zone`.');
}

function plansOf(file: z.output<typeof plansSchema>): Plans {
  const common = mergeBans(DEFAULT_BANS, file.bans);
  const plans = Object.entries(file.plans).map(([name, entry]): [string, Plan] => {
    const { limits, bans: own, enforce, shadow, 'each-key': eachKey, units, groups, 'in-flight': inFlight } = entry;
    // If bans are off for all plans, a plan with bans of its own starts from the contract's rule.
    const bans = own === undefined ? common : mergeBans(common ?? DEFAULT_BANS, own);
    const bansOfCustomer = (ofOf(own) ?? ofOf(file.bans)) === 'customer' ? true : undefined;
    const watched = { shadow: shadow?.limits ?? {}, shadowForms: shadow?.forms ?? {} };
    return [name, { name, ...limits, bans, enforce, ...watched, eachKey, units, groups, inFlight, bansOfCustomer }];
  });
  return values.deepFreeze({
    plans: new Map(plans),
    removed: file.removed,
    failedAuthenticationPerMinute: file['failed-authentication'].minute,
  });
}

type RawLimit<L> = L | (RawForm & { readonly limit: L }) | undefined;

/** The limits of some windows, and their kinds. */
function partOf<L extends number | string>(entries: Partial<Record<WindowName, RawLimit<L>>>) {
  return {
    limits: eachWindow(entries, (entry) => (typeof entry === 'object' ? entry.limit : entry)),
    forms: eachWindow(entries, writtenForm),
  };
}

function ofOf(own: RawBans): 'key' | 'customer' | undefined {
  return typeof own === 'object' ? own.of : undefined;
}

/** What `of` gives for each window that has an entry, without those for which it is undefined. */
function eachWindow<E, V>(
  entries: Partial<Record<WindowName, E | undefined>>,
  of: (entry: E, window: WindowName) => V | undefined,
): Partial<Record<WindowName, V>> {
  const each: Partial<Record<WindowName, V>> = {};
  for (const window of WINDOWS) {
    const entry = entries[window];
    const value = entry === undefined ? undefined : of(entry, window);
    if (value !== undefined) each[window] = value;
  }
  return each;
}

interface RawForm {
  readonly window?: 'fixed' | 'sliding' | undefined;
  readonly slices?: number | undefined;
  readonly align?: 'calendar' | undefined;
  readonly zone?: string | undefined;
  readonly anchor?: number | undefined;
}

/** Undefined for a fixed window. */
function writtenForm(entry: number | string | RawForm, window: WindowName): WindowForm | undefined {
  if (typeof entry !== 'object') return undefined;
  if (entry.window === 'sliding') return { slices: entry.slices ?? DEFAULT_SLICES };
  if (window === 'second' || window === 'minute') return undefined;
  if (entry.align === undefined && window !== 'month') return undefined;
  return { calendar: { unit: window, zone: entry.zone ?? 'UTC', anchor: entry.anchor ?? 1 } };
}

const DEFAULT_SLICES = 12;

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
