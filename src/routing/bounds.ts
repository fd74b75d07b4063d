import { isDeepStrictEqual } from 'node:util';
import type { Charge, Reserve } from '../meter/charge.ts';
import { plainPath } from './pattern.ts';
import type { Route, Unbounding } from './route.ts';

/** What one route allows its callers and another does not, or charges them less for, as a phrase; null if nothing. */
type Looser = (one: Route, other: Route) => string | null;

/**
 * When the members of one route that bound or charge its callers are looser than those of another. What is neither the same nor plainly as
 * strict counts as looser.
 *
 * Attack: another spelling of a path, such as `/v1/Report`, `/v1/report;x` or `/v1/report/`, is served by a wider route whose rules
 * for it are looser. So a new member of a route that is neither here nor in `Unbounding` is a type error.
 */
const BOUNDS: { readonly [Member in Exclude<keyof Route, Unbounding>]: Looser } = {
  perAddress: ({ perAddress: one }, { perAddress: other }) => {
    if (one === null) return null;
    if (other === null) return 'no key';
    const limits = new Map(one.allowance.limits.map(({ window, limit }) => [window, limit]));
    const wider = other.allowance.limits.find(({ window, limit }) => limit < (limits.get(window) ?? Infinity));
    if (wider === undefined) return null;
    return `${limits.get(wider.window) ?? 'any number'} instead of ${wider.limit} per ${wider.window} and address`;
  },
  scopes: (one, other) => {
    const spared = lacking(one.scopes, other.scopes);
    return spared.length > 0 ? `without the scope ${spared.join(' ')}` : null;
  },
  addresses: ({ addresses: one }, { addresses: other }) =>
    other !== null && (one === null || lacking(other, one).length > 0) ? 'from other addresses' : null,
  policies: (one, other) => {
    const [spared] = lacking(one.policies, other.policies);
    return spared === undefined ? null : `without the policy ${spared}`;
  },
  description: ({ description: one }, { description: other }) =>
    other !== null && one !== other ? `without the check against ${other}` : null,
  maxBodyBytes: ({ maxBodyBytes: one }, { maxBodyBytes: other }) =>
    (one ?? Infinity) > (other ?? Infinity) ? 'larger bodies' : null,
  allowsBody: (one, other) => (one.allowsBody && !other.allowsBody ? 'bodies of GET, HEAD, DELETE and OPTIONS' : null),
  upgrades: (one, other) => {
    const [more] = lacking(other.upgrades, one.upgrades);
    return more === undefined ? null : `upgrades to ${more}`;
  },
  // A field that only the wider route sets may be a credential, so that it is no stricter for that.
  requestHeaders: (one, other) =>
    isDeepStrictEqual(one.requestHeaders, other.requestHeaders) ? null : 'other rules for request fields',
  responseHeaders: (one, other) => {
    const [shown] = lacking(removedBy(one), removedBy(other));
    return shown === undefined ? null : `without removing the response field ${shown}`;
  },
  cost: (one, other) => (one.cost < other.cost ? `cost ${one.cost} instead of ${other.cost}` : null),
  charges: ({ charges: one }, { charges: other }) => {
    const looser = (other ?? []).filter((charge) => !isChargedBy(one, charge)).map(({ unit }) => unit);
    const [absent, different] = [lacking(one?.map(({ unit }) => unit) ?? null, looser), new Set(looser)];
    for (const unit of absent) different.delete(unit);
    const phrases = [
      ...(absent.length > 0 ? [`without a charge in ${absent.join(', ')}`] : []),
      ...(different.size > 0 ? [`another charge in ${[...different].join(', ')}`] : []),
    ];
    return phrases.length > 0 ? phrases.join(', ') : null;
  },
  deprecated: ({ deprecated: one }, { deprecated: other }) => {
    const [sunsetMs, otherSunsetMs] = [one?.sunsetMs ?? Infinity, other?.sunsetMs ?? Infinity];
    if (sunsetMs > otherSunsetMs) return sunsetMs === Infinity ? 'no sunset' : 'a later sunset';
    const isAnnounced = (own: unknown) => one?.brownouts.some((brownout) => isDeepStrictEqual(brownout, own)) === true;
    return other?.brownouts.every(isAnnounced) === false ? 'without its brownouts' : null;
  },
  reply: ({ reply: one }, { reply: other, path }) => {
    if (one !== null || other === null) return null;
    // `/Docs` that redirects to `/docs`, which the wider route serves.
    const isToItself =
      other.kind === 'redirect' && other.origin === '' && plainPath(other.path.pattern) === plainPath(path);
    return isToItself ? null : 'forwarded';
  },
};

const LOOSER = Object.values(BOUNDS);

/** Whether a route bounds or charges its callers less than another one. */
export function isLooser(one: Route, other: Route): boolean {
  return LOOSER.some((looser) => looser(one, other) !== null);
}

/** The rules of one route that are looser than those of another one, each as a phrase. */
export function looserRules(one: Route, other: Route): readonly string[] {
  return LOOSER.map((looser) => looser(one, other)).filter((rule) => rule !== null);
}

/** What is in the second list and not in the first. */
function lacking(one: readonly string[] | null, other: readonly string[] | null): readonly string[] {
  return other?.filter((item) => one?.includes(item) !== true) ?? [];
}

/** The response fields that no caller gets. */
function removedBy({ responseHeaders: rules }: Route): readonly string[] | null {
  return (
    rules &&
    lacking(
      rules.writes.map(({ name }) => name.toLowerCase()),
      rules.drops,
    )
  );
}

/** Whether one of the charges takes as much as another one, whatever the request and its answer say. */
function isChargedBy(charges: readonly Charge[] | null, other: Charge): boolean {
  const one = charges?.find(({ unit }) => unit === other.unit);
  if (one === undefined) return false;
  if (other.sources.length === 0 && mostOf(other.reserve) === 0) return true;
  return (
    isDeepStrictEqual(one.sources, other.sources) &&
    one.refund.every((status) => other.refund.includes(status)) &&
    (leastOf(one.reserve) >= mostOf(other.reserve) || isDeepStrictEqual(one.reserve, other.reserve))
  );
}

function leastOf(reserve: Reserve): number {
  return reserve.kind === 'fixed' ? reserve.amount : Math.min(reserve.least, reserve.most);
}

function mostOf(reserve: Reserve): number {
  return reserve.kind === 'fixed' ? reserve.amount : reserve.most;
}
