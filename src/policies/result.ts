import { isErrorCode } from '../errors/catalogue.ts';
import { faultOfRequestField, faultOfText, META_NAME } from '../http1/field-rules.ts';
import { SCOPE_TOKEN, TOKEN } from '../http1/fields.ts';
import type { PolicyRefusal } from './policy.ts';

/** What policies permit for a request. */
export interface Permission {
  readonly kind: 'allowed';
  /** In place of the cost of the route; null for that. */
  readonly cost: number | null;
  /** Fields for the service, by name; null for none. */
  readonly headers: Readonly<Record<string, string>> | null;
  /** In place of those of the caller; null for those. */
  readonly scopes: readonly string[] | null;
  /** Beside that of the caller; null for none. */
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Groups of routes to which the request belongs besides; null for none. */
  readonly groups: readonly string[] | null;
}

/** What a result of a policy says, or what is wrong with it. */
type ResultReading = Permission | ({ readonly kind: 'refused' } & PolicyRefusal['refuse']) | { readonly fault: string };

/** Allows the request as its route does. */
export const ALLOWED: Permission = Object.freeze({
  kind: 'allowed',
  cost: null,
  headers: null,
  scopes: null,
  metadata: null,
  groups: null,
});

const MEMBERS = ['refuse', 'cost', 'scopes', 'metadata', 'budgets', 'headers'];
const MAX_SCOPES = 32;
const MAX_PAIRS = 16;
const MAX_GROUPS = 16;
const PAIR_NAME = new RegExp(`^${META_NAME}$`);
const MAX_COST = 1_000_000_000;
const MAX_FIELDS = 100;
const MAX_NAME = 64;
const MAX_MESSAGE = 1_000;
const CODE = /^[a-z][a-z0-9_]{0,63}$/;
/** A response with one of these must have a field that a policy cannot give: Allow, Proxy-Authenticate, Upgrade (RFC 9110). */
const WITH_OWN_FIELD: ReadonlySet<number> = new Set([405, 407, 426]);

/**
 * Reads what a policy has answered. Every member is read once and nothing of the value is kept, because the policy may
 * change it later.
 *
 * Attack: a typing error in a policy (`refused` for `refuse`, a cost of NaN) lets every request through, and no test of the
 * settings can find it. So a result with anything unknown in it is a fault, never half a result.
 * @returns with `fault`: what is wrong, as a sentence without a full stop
 */
export function readResult(value: unknown): ResultReading {
  if (value === undefined) return ALLOWED;
  if (!isPlain(value)) return { fault: 'the result must be a plain object or undefined' };
  const unknown = Reflect.ownKeys(value).find((name) => !MEMBERS.includes(String(name)));
  if (unknown !== undefined) {
    return { fault: `the result has ${JSON.stringify(String(unknown))}; it may have ${MEMBERS.join(', ')}` };
  }
  const { refuse, cost, headers, scopes, metadata, budgets } = value;
  if (refuse !== undefined) {
    const others = [cost, headers, scopes, metadata, budgets];
    if (others.some((other) => other !== undefined)) return { fault: '`refuse` must be the only member of its result' };
    return readRefusal(refuse);
  }
  if (cost !== undefined && !isWhole(cost, 1, MAX_COST)) {
    return { fault: `\`cost\` must be a whole number from 1 to ${MAX_COST}` };
  }
  const read = {
    headers: headers === undefined ? null : readHeaders(headers),
    scopes: scopes === undefined ? null : readTexts('scopes', scopes, SCOPE_TOKEN, MAX_SCOPES),
    metadata: metadata === undefined ? null : readMetadata(metadata),
    groups: budgets === undefined ? null : readGroups(budgets),
  };
  const fault = Object.values(read).find((part) => typeof part === 'string');
  if (fault !== undefined) return { fault: fault as string };
  return { ...ALLOWED, cost: cost ?? null, ...(read as Pick<Permission, keyof typeof read>) };
}

/** Attack: the members of a Map or of a class are not its own, so that a restriction would be lost without a fault. */
function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** @returns what is wrong, as text */
function readTexts(name: string, value: unknown, form: RegExp, most: number): readonly string[] | string {
  if (!Array.isArray(value) || value.length > most) return `\`${name}\` must be a list of at most ${most} texts`;
  const texts = [...value];
  const wrong = texts.findIndex((text) => typeof text !== 'string' || !form.test(text));
  return wrong < 0 ? texts : `\`${name}\` has an element at ${wrong} that is no valid name`;
}

function readMetadata(value: unknown): Readonly<Record<string, string>> | string {
  if (!isPlain(value)) return '`metadata` must be a plain object of texts';
  const pairs = Object.entries(value);
  if (pairs.length > MAX_PAIRS) return `\`metadata\` must not have more than ${MAX_PAIRS} pairs`;
  for (const [name, text] of pairs) {
    const shown = JSON.stringify(name.slice(0, MAX_NAME));
    if (!PAIR_NAME.test(name)) return `\`metadata\` has ${shown}, which is no name of a pair`;
    const wrong = typeof text === 'string' ? faultOfText(text) : 'is no text';
    if (wrong !== null) return `the value of ${shown} in \`metadata\` ${wrong}`;
  }
  return Object.fromEntries(pairs) as Record<string, string>;
}

function readGroups(value: unknown): readonly string[] | string {
  if (!isPlain(value)) return '`budgets` must be a plain object with `groups`';
  const { groups } = value;
  const unknown = Reflect.ownKeys(value).find((name) => name !== 'groups');
  if (unknown !== undefined) return `\`budgets\` has ${JSON.stringify(String(unknown))}; it may have groups`;
  // Attack: a policy names a group by a field of the client, and `send_mail` there fails the request. A group that no plan can
  // have has no effect, as one that the plan lacks.
  return readTexts('budgets.groups', groups, /^/, MAX_GROUPS);
}

function readRefusal(value: unknown): ResultReading {
  if (!isPlain(value)) return { fault: '`refuse` must be a plain object with `status`, `code` and `message`' };
  const { status, code, message } = value;
  if (!isWhole(status, 400, 599) || WITH_OWN_FIELD.has(status)) {
    return { fault: '`refuse.status` must be a whole number from 400 to 599, except 405, 407 and 426' };
  }
  if (typeof code !== 'string' || !CODE.test(code)) {
    return { fault: '`refuse.code` must be 1 to 64 lower-case letters, digits and `_`, and begin with a letter' };
  }
  // Attack: a client that waits on `rate_limit_exceeded`, or support that reads Explain, would be misled.
  if (isErrorCode(code)) return { fault: `\`refuse.code\` must not be ${code}, which is a code of the gateway` };
  if (typeof message !== 'string' || message === '' || message.length > MAX_MESSAGE) {
    return { fault: `\`refuse.message\` must be a text of 1 to ${MAX_MESSAGE} characters` };
  }
  return { kind: 'refused', status, code, message };
}

/**
 * Attack: a policy puts a text of the client into a field. With a line break it would begin another field, and as
 * `X-Consumer-Id` or `Content-Length` it would change who calls or where the message ends. So names and values obey the
 * rules for `headers` in gateway.yaml.
 */
function readHeaders(value: unknown): Readonly<Record<string, string>> | string {
  if (!isPlain(value)) return '`headers` must be a plain object of texts';
  const entries = Object.entries(value);
  if (entries.length > MAX_FIELDS) return `\`headers\` must not have more than ${MAX_FIELDS} fields`;
  const seen = new Set<string>();
  for (const [name, text] of entries) {
    const shown = JSON.stringify(name.slice(0, MAX_NAME));
    if (name.length > MAX_NAME || !TOKEN.test(name)) return `\`headers\` has ${shown}, which is no name of a field`;
    const reserved = faultOfRequestField(name);
    if (reserved !== null) return `\`headers\` has ${shown}, which ${reserved}`;
    if (seen.has(name.toLowerCase())) return `\`headers\` has ${shown} twice, in other letters`;
    seen.add(name.toLowerCase());
    const wrong = typeof text === 'string' ? faultOfText(text) : 'is no text';
    if (wrong !== null) return `the value of ${shown} in \`headers\` ${wrong}`;
  }
  return Object.fromEntries(entries) as Record<string, string>;
}

function isWhole(value: unknown, least: number, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}
