import { z } from 'zod';
import { MAX_INTEGER } from '../http1/fields.ts';
import { count, eachWindow, WINDOWS, type WindowName, windowName } from './values.ts';

/*
 * What a plan allows, and the limits that a key or a customer has in place of those of its plan: schemas, bounds, words, and how options
 * and cells write them. plans.yaml, gateway.yaml, keys.yaml, the admin API, commands, imports and reports are made of these.
 * How plans.yaml writes a plan is in src/config/plans-schema.ts, and what a plan means for one caller in src/admit/allowance.ts.
 */

/** The largest finite limit: a larger one could not be written into a RateLimit field. */
export const MAX_LIMIT = MAX_INTEGER;
/** Groups of routes that a plan may have. */
export const MAX_GROUPS = 15;
/**
 * A set of groups is a number with a bit for each, then this bit: the request belongs to some group by only one reading of its path.
 * In a set of groups and units, the bits of units follow (`bitOfUnit`).
 */
export const IN_ONE_READING = 1 << MAX_GROUPS;
/** Units that a plan may have. */
export const MAX_UNITS = 8;

/** How many requests a window admits: a whole number from 0, or `unlimited`. */
export type Limit = number | 'unlimited';
type ByWindow<T> = Readonly<Partial<Record<WindowName, T>>>;
/** Limits that a key or a customer has in place of those of its plan. */
export type Limits = ByWindow<Limit>;

export const UNLIMITED = z.literal('unlimited');

/** What is said of a limit. @param ending names what may stand in place of a number */
export function limitRule(ending: string): string {
  return `must be a whole number from 0 to ${MAX_LIMIT}${ending}`;
}

/** A limit, or what may stand in its place. @param ending of its rule */
export function limitOr<const O extends readonly z.ZodType[]>(ending: string, ...others: O) {
  const rule = limitRule(ending);
  return z.union([z.int(rule).min(0, rule).max(MAX_LIMIT, rule), ...others], rule);
}

/** In the admin API. */
export const limit = limitOr(' or "unlimited"', UNLIMITED).meta({ id: 'Limit' });
export const limitOrCustom = z.union([limit, z.literal('custom')]);

const editedLimit = limitOr(` or "unlimited", or null for the plan's own`, UNLIMITED, z.null()).meta({
  id: 'EditedLimit',
  description: "Null restores the plan's own number.",
});
const limitsRule = `must be an object with ${WINDOWS.join(', ')}`;
/** Those of a new key or customer, and of reports. */
export const limits = limitsOf(limit, limitsRule).meta({ id: 'Limits' });
/** In a request for a change: those that are absent stay, and null restores the plan's own number. */
export const editedLimits = limitsOf(editedLimit, limitsRule);
export type GivenLimits = Partial<Record<WindowName, Limit | null>>;

/** An object with a limit for some windows. */
export function limitsOf<L extends z.ZodType>(limit: L, rule?: string) {
  return z.strictObject(
    eachWindow(() => limit.optional()),
    rule,
  );
}

/** Reads one `WINDOW=NUMBER`. `WINDOW=default` restores the plan's own number. @returns null for any other text */
export function limitFrom(text: string): { readonly window: WindowName; readonly limit: Limit | null } | null {
  const [window = '', value = '', ...more] = text.split('=');
  const limit = value === 'default' ? null : numberFrom(value);
  return isWindow(window) && limit !== undefined && more.length === 0 ? { window, limit } : null;
}

export function isWindow(text: string): text is WindowName {
  return (WINDOWS as readonly string[]).includes(text);
}

function numberFrom(value: string): Limit | undefined {
  if (value === 'unlimited') return value;
  return /^(0|[1-9][0-9]{0,14})$/.test(value) && Number(value) <= MAX_LIMIT ? Number(value) : undefined;
}

/** Writes what `limitFrom` reads: `minute=500 day=unlimited`. */
export function limitsCell(limits: Readonly<Record<string, Limit | 'custom'>>): string {
  return Object.entries(limits)
    .map(([window, limit]) => `${window}=${limit}`)
    .join(' ');
}

/** Limits with the shortest window first. */
export function inOrder<T>(limits: ByWindow<T>): ByWindow<T> {
  return Object.fromEntries(windowsIn(limits).map((window) => [window, limits[window]])) as ByWindow<T>;
}

/** The windows that have a limit, shortest first. */
export function windowsIn(limits: ByWindow<unknown>): readonly WindowName[] {
  return WINDOWS.filter((window) => limits[window] !== undefined);
}

const calendar = z.strictObject({
  unit: z.enum(['hour', 'day', 'week', 'month']),
  zone: z.string().describe('IANA name of the time zone.'),
  anchor: z.int().min(1).max(31).describe('On which day a month begins.'),
});
/** Which periods a calendar window has. In a month without the day of `anchor`, the last day takes its place. */
export type CalendarForm = Readonly<z.output<typeof calendar>>;

const form = z.strictObject({
  slices: z.int().min(4).max(30).optional().describe('The window slides.'),
  calendar: calendar.optional(),
});
/** The settings of a window besides its limit; none for a fixed window. */
export interface WindowForm {
  readonly slices?: number;
  readonly calendar?: CalendarForm;
}

/** A schema of values by window. The API describes them as values by name. */
function byWindow<V extends z.ZodType>(value: V) {
  return z.record(z.string(), value) as z.ZodType as z.ZodType<ByWindow<z.output<V>>>;
}

const forms = (byWindow(form) as z.ZodType as z.ZodType<ByWindow<WindowForm>>)
  .describe(
    'Windows that slide or follow a calendar. Any other is fixed, except a month, which is then a calendar month of UTC.',
  )
  .meta({ id: 'Forms' });
export type WindowForms = ByWindow<WindowForm>;

/** The windows of a part of a plan, for display. They are made of its `limits` and `forms`. */
const windows = z.array(
  z.strictObject({
    window: windowName,
    limit: limitOrCustom,
    form: z
      .string()
      .describe('The kind of the window in words: `fixed`, `sliding, 12 slices`, `calendar, Europe/Berlin`.'),
    shadow: z.boolean().describe('Whether the limit is only watched.'),
  }),
);

const unit = z.strictObject({
  name: z.string().meta({ examples: ['tokens'] }),
  limits: byWindow(limit),
  forms: forms.optional(),
  windows,
});
const units = z
  .array(unit)
  .optional()
  .describe('Limits in units of their own, such as tokens; left out if there are none.');
const inFlight = count.min(1).optional();
const counts = byWindow(count);

/** When refusals lead to a ban, and how long each further ban lasts (contract section 3). */
const banRule = z.strictObject({
  // Strikes that lead to a ban. The request with the `after`-th strike already gets the ban answer.
  after: z.number(),
  // Strikes start from 0 again when this has passed since the first of them.
  withinMs: z.number(),
  // The n-th ban lasts `firstMs * factor ** (n - 1)`, at most `longestMs`.
  firstMs: z.number(),
  factor: z.number(),
  longestMs: z.number(),
  // The ladder starts at the bottom again when this has passed since the end of the last ban.
  forgetMs: z.number(),
});
export type BanRule = Readonly<z.output<typeof banRule>>;

/** By what requests belong to a group, as plans.yaml writes it and reports show it. Its patterns are read in src/routing/path-groups.ts. */
export const groupMembers = z.strictObject({
  routes: z
    .array(
      z
        .string('must be a pattern such as /v1/search/**, or with methods in front, POST /v1/orders')
        .describe('A pattern as in `routes` of gateway.yaml, or with methods in front: `POST,PUT /v1/orders`.'),
      'must be a list of patterns',
    )
    .max(100, 'must not have more than 100 patterns')
    .describe(
      'Which requests belong to the group, by their path. A request belongs to every group that matches it. Without it, those that a policy counts to it.',
    ),
});
/** The names of `groupMembers`. */
export const GROUP_MEMBERS = groupMembers.keyof().options;

const group = z.strictObject({
  name: z.string(),
  ...groupMembers.shape,
  when: z
    .array(z.strictObject({ header: z.string(), is: z.array(z.string()).nullable() }))
    .optional()
    .describe('What header fields of its requests must be as well; left out if anything. `is` is null for any value.'),
  limits: counts,
  forms: forms.optional(),
  instead: z.boolean().describe("Whether its requests are counted by these limits in place of the plan's own."),
  units,
  windows,
});

/** One plan of plans.yaml, as the admin API shows it. `custom`: each key brings its own number. */
export const shownPlan = z
  .strictObject({
    name: z.string(),
    limits: byWindow(limitOrCustom),
    forms: forms.optional(),
    bans: banRule.nullable().describe('Null if the plan has no bans.'),
    enforce: z.boolean().describe('False: its limits and bans are counted and refuse no request.'),
    shadow: counts.describe('Limits that are only watched, beside the real ones.'),
    shadowForms: forms.optional(),
    windows: windows.describe('The windows of `limits`, then of `shadow`, for display.'),
    eachKey: z
      .strictObject({ limits: counts, forms, inFlight, units, windows })
      .optional()
      .describe("What each key of a customer may take of its customer's limits; left out if all of it."),
    units,
    groups: z
      .array(group)
      .optional()
      .describe('Groups of routes, whose requests have limits of their own; left out if there are none.'),
    inFlight: inFlight.describe(
      'Requests of a key, or of a customer, that may be in flight at a time; left out if any number may.',
    ),
    bansOfCustomer: z.literal(true).optional().describe('A ban is of all keys of the customer.'),
  })
  .meta({ id: 'Plan' });

/** A shown value as the gateway has it. */
type WithoutWindows<T> = T extends readonly (infer One)[]
  ? readonly WithoutWindows<One>[]
  : T extends object
    ? { readonly [K in keyof T as K extends 'windows' ? never : K]: WithoutWindows<T[K]> }
    : T;
export type Plan = WithoutWindows<z.output<typeof shownPlan>>;
/** A group of routes of a plan, whose requests charge a budget of their own. */
export type PlanGroup = WithoutWindows<z.output<typeof group>>;
/** Limits in a unit of its own, such as tokens. */
export type PlanUnit = WithoutWindows<z.output<typeof unit>>;

/** The content of plans.yaml. Frozen; a reload makes a new object. */
export interface Plans {
  readonly plans: ReadonlyMap<string, Plan>;
  /** Names of plans that the operator has removed on purpose, although live keys may have them. */
  readonly removed: readonly string[];
  /** Failed authentications that one client address may make per minute. */
  readonly failedAuthenticationPerMinute: number;
}

/** A set of windows with their limits, of which plans.yaml has several. */
export interface LimitsPart {
  readonly limits: Plan['limits'];
  readonly forms?: WindowForms | undefined;
}

/** A window with its settings in full: a month is always a calendar month. */
export function wholeForm(window: WindowName, { slices, calendar }: WindowForm = {}): WindowForm {
  const periods = calendar ?? (window === 'month' ? MONTH : undefined);
  return { ...(slices === undefined ? {} : { slices }), ...(periods === undefined ? {} : { calendar: periods }) };
}

const MONTH: CalendarForm = { unit: 'month', zone: 'UTC', anchor: 1 };

/** The kind of a window in words: `fixed`, `sliding, 12 slices`, `calendar, Europe/Berlin` or `calendar, UTC, from day 15`. */
export function formText(window: WindowName, form: WindowForm | undefined): string {
  const { slices, calendar } = wholeForm(window, form);
  if (slices !== undefined) return `sliding, ${slices} slices`;
  if (calendar === undefined) return 'fixed';
  const { zone, anchor } = calendar;
  return anchor === 1 ? `calendar, ${zone}` : `calendar, ${zone}, from day ${anchor}`;
}

/** A limit with the kind of its window, unless that is fixed: `60`, `60 (sliding, 12 slices)`. Empty without a limit. */
export function limitText(window: WindowName, { limits, forms }: LimitsPart): string {
  const limit = limits[window];
  if (limit === undefined) return '';
  const kind = formText(window, forms?.[window]);
  return kind === 'fixed' || limit === 'unlimited' ? String(limit) : `${limit} (${kind})`;
}

/** Limits in words, the shortest window first: `minute 60 (sliding, 12 slices), day 1000`. @param prefix of the names of the windows */
export function limitsText(part: LimitsPart, prefix = ''): string {
  return windowsIn(part.limits)
    .map((window) => `${prefix}${window} ${limitText(window, part)}`)
    .join(', ');
}

/** A part of a plan in words: `minute 300, 5 in flight, tokens-day 500`. Empty without bounds. */
export function partText(part: LimitsPart & Pick<Plan, 'inFlight' | 'units'>): string {
  const inFlight = part.inFlight === undefined ? '' : `${part.inFlight} in flight`;
  const ofUnits = (part.units ?? []).map((one) => limitsText(one, `${one.name}-`));
  return [limitsText(part), inFlight, ...ofUnits].filter((text) => text !== '').join(', ');
}

/** A group of routes in words: `minute 10, tokens-day 50 on /v1/search/**`, or `minute 10 instead, on /v1/search/**, POST /v1/reports`. */
export function groupText(group: PlanGroup): string {
  const members = GROUP_MEMBERS.flatMap((kind) => group[kind]).join(', ');
  const when = whenText(group);
  return `${partText(group)}${group.instead ? ' instead,' : ''} ${members === '' ? 'by policies' : `on ${members}`}${when && `, with ${when}`}`;
}

/** What header fields must be for a group, in words: `mcp-name send_mail or send_fax, x-version`. Empty if anything. */
export function whenText({ when = [] }: Pick<PlanGroup, 'when'>): string {
  return when.map(({ header, is }) => (is === null ? header : `${header} ${is.join(' or ')}`)).join(', ');
}
