import { z } from 'zod';
import { count, time } from '../model/values.ts';

// From where a key was called, and attempts with its ended secrets: one record for each key, of all gateways together.

/** Calls are counted in periods of this many days. The present one and the three before are kept: the last 30 to 40 days. */
const PERIOD_DAYS = 10;
const PERIODS = 4;
const DAY_S = 86_400;
/**
 * Networks, and ended secrets, that a record has by name. The rest is counted together.
 *
 * Attack: a caller comes from ever new networks, to fill the store or to hide one among them. The half with the most calls and the half
 * called from last stay.
 */
export const MAX_SEEN = 20;
/** The name of all that have no name of their own. */
export const OTHERS = '';

/** Calls from one network, or with one ended secret. */
export interface Seen {
  /** Unix seconds. */
  first: number;
  last: number;
  /** By the number of the period since 1970. */
  readonly calls: Record<string, number>;
  /** The network of the last attempt with an ended secret. */
  from?: string | undefined;
}

interface KeyNetworks {
  readonly networks: ReadonlyMap<string, Seen>;
  /** By the last four characters. */
  readonly ended: ReadonlyMap<string, Seen>;
}

/** The period of a moment. @param atS Unix seconds */
export function periodOf(atS: number): number {
  return Math.floor(atS / DAY_S / PERIOD_DAYS);
}

const whole = z.int().min(0);
const seen = z.tuple([whole, whole, z.record(z.string(), whole)], z.string());
const record = z.object({ n: z.record(z.string(), seen), e: z.record(z.string(), seen) });

function decoded(text: string | null): KeyNetworks {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch {
    // Damaged, or another program's: it is begun anew.
  }
  const { n = {}, e = {} } = record.safeParse(value).data ?? {};
  const mapOf = (each: z.output<typeof record>['n']) =>
    new Map(Object.entries(each).map(([name, [first, last, calls, from]]) => [name, { first, last, calls, from }]));
  return { networks: mapOf(n), ended: mapOf(e) };
}

/**
 * The record with what one gateway has counted since.
 * @param text the record as it was; null for none
 * @param nowS Unix seconds
 */
export function withCounted(text: string | null, counted: KeyNetworks, nowS: number): string {
  const { networks, ended } = decoded(text);
  const encoded = (before: ReadonlyMap<string, Seen>, more: ReadonlyMap<string, Seen>) =>
    Object.fromEntries(
      [...bounded(added(kept(before, nowS), more))].map(([name, { first, last, calls, from }]) => [
        name,
        [first, last, calls, ...(from === undefined ? [] : [from])],
      ]),
    );
  return JSON.stringify({ n: encoded(networks, counted.networks), e: encoded(ended, counted.ended) });
}

/** Without the calls, and the networks, of periods that are over for long. */
function kept(all: ReadonlyMap<string, Seen>, nowS: number): Map<string, Seen> {
  const from = periodOf(nowS) - PERIODS;
  const recent = [...all].map(([name, one]) => {
    const calls = Object.fromEntries(Object.entries(one.calls).filter(([period]) => Number(period) > from));
    return [name, { ...one, calls }] as const;
  });
  return new Map(recent.filter(([, { calls }]) => Object.keys(calls).length > 0));
}

function added(all: Map<string, Seen>, more: ReadonlyMap<string, Seen>): Map<string, Seen> {
  for (const [name, one] of more) all.set(name, together(all.get(name), one));
  return all;
}

function together(one: Seen | undefined, other: Seen): Seen {
  if (one === undefined) return other;
  const calls = { ...one.calls };
  for (const [period, n] of Object.entries(other.calls)) calls[period] = (calls[period] ?? 0) + n;
  const later = one.last > other.last ? one : other;
  return { first: Math.min(one.first, other.first), last: later.last, calls, from: later.from };
}

function bounded(all: Map<string, Seen>): Map<string, Seen> {
  const named = [...all].filter(([name]) => name !== OTHERS);
  if (named.length <= MAX_SEEN) return all;
  const half = MAX_SEEN / 2;
  const latest = named.toSorted(([, a], [, b]) => b.last - a.last).slice(0, half);
  const most = named.filter((one) => !latest.includes(one)).sort(([, a], [, b]) => callsOf(b) - callsOf(a));
  const folded = most.slice(MAX_SEEN - half).map(([, one]) => one);
  const others = folded.reduce(together, all.get(OTHERS));
  return new Map([...latest, ...most.slice(0, MAX_SEEN - half), ...(others ? [[OTHERS, others] as const] : [])]);
}

function callsOf({ calls }: Seen): number {
  return Object.values(calls).reduce((sum, n) => sum + n, 0);
}

const share = z.number().min(0).max(1).describe('Of all its calls that were counted, from 0 to 1.');
const calls = count.describe('Since `since`; refused ones are among them.');
const firstAt = time.describe(
  'May be before `since`. It is forgotten once nothing has come from there for 30 to 40 days.',
);

export const keyNetworks = z
  .strictObject({
    since: time.describe('From when on the calls are counted: 30 to 40 days ago.'),
    networks: z
      .array(
        z.strictObject({
          network: z.string().describe('A /24 of IPv4 or a /48 of IPv6; `unknown` where the client had no address.'),
          firstAt,
          lastAt: time,
          calls,
          share,
        }),
      )
      .max(MAX_SEEN)
      .describe('The ten that it was called from last, and those with the most calls: by calls, the most first.'),
    others: z
      .strictObject({ lastAt: time, calls, share })
      .nullable()
      .describe('All further networks together; null if there are no more.'),
    endedSecrets: z
      .array(
        z.strictObject({
          last4: z.string().nullable().describe('The last four characters of the secret; null if they are not known.'),
          firstAt: time,
          lastAt: time,
          network: z.string().describe('From where the last attempt came.'),
          refused: count.describe('Attempts since `since`. Each of them got the 401 that an unknown secret gets.'),
        }),
      )
      .max(MAX_SEEN + 1)
      .describe('Secrets of the key that are replaced, revoked or expired and were sent all the same, the last first.'),
    isKept: z
      .boolean()
      .describe('False if `usage.networks` or `usage.history` is off, so that nothing is added at present.'),
  })
  .meta({
    id: 'KeyNetworks',
    examples: [
      {
        since: '2026-10-27T00:00:00Z',
        networks: [
          {
            network: '203.0.113.0/24',
            firstAt: '2026-11-02T09:14:00Z',
            lastAt: '2026-11-30T11:48:12Z',
            calls: 48211,
            share: 0.97,
          },
        ],
        others: null,
        endedSecrets: [
          {
            last4: '7YUi',
            firstAt: '2026-11-30T11:48:12Z',
            lastAt: '2026-11-30T12:03:40Z',
            network: '198.51.100.0/24',
            refused: 1240,
          },
        ],
        isKept: true,
      },
    ],
  });

/** @param text the record; null for none @param nowMs Unix milliseconds */
export function networksReport(text: string | null, nowMs: number): Omit<z.output<typeof keyNetworks>, 'isKept'> {
  const nowS = Math.floor(nowMs / 1_000);
  const read = decoded(text);
  const [networks, ended] = [kept(read.networks, nowS), kept(read.ended, nowS)];
  const total = [...networks.values()].reduce((sum, one) => sum + callsOf(one), 0);
  const others = networks.get(OTHERS) ?? null;
  networks.delete(OTHERS);
  const told = (one: Seen) => ({ lastAt: timeText(one.last), calls: callsOf(one), share: callsOf(one) / total });
  return {
    since: timeText((periodOf(nowS) - PERIODS + 1) * PERIOD_DAYS * DAY_S),
    networks: [...networks]
      .map(([network, one]) => ({ network, firstAt: timeText(one.first), ...told(one) }))
      .sort((a, b) => b.calls - a.calls),
    others: others === null ? null : told(others),
    endedSecrets: [...ended]
      .sort(([, a], [, b]) => b.last - a.last)
      .map(([last4, one]) => ({
        last4: last4 || null,
        firstAt: timeText(one.first),
        lastAt: timeText(one.last),
        network: one.from ?? 'unknown',
        refused: callsOf(one),
      })),
  };
}

function timeText(atS: number): string {
  return new Date(atS * 1_000).toISOString();
}
