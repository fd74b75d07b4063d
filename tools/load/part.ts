import { randomBytes } from 'node:crypto';
import { mint } from '../../src/identify/api-key.ts';
import { call, type Pace } from './caller.ts';
import { type Exchange, NO_REFUSAL, NOTHING_TOLD, refusalOf, type Subject, toldFields } from './exchange.ts';
import type { Answer, HttpClient } from './http-client.ts';
import type { Observed } from './judge/judge.ts';
import { outcomeOf } from './judge/verdict.ts';
import type { ClientKind } from './scenario.ts';
import type { Credential, Stand } from './stand.ts';

export interface PartOptions {
  readonly stand: Stand;
  readonly http: HttpClient;
  readonly clients: readonly ClientKind[];
  readonly durationMs: number;
  readonly onExchange: (exchange: Exchange) => void;
  readonly signal: AbortSignal;
  /** Whether callers may have loopback addresses of their own. */
  readonly addresses: boolean;
  /** Addresses that have called without a good key before. This part's are added. */
  readonly knownAddresses: Set<string>;
}

interface Caller {
  readonly kind: ClientKind;
  readonly subject: Subject;
  readonly pace: Pace;
  readonly address: string | null;
  readonly authorization: () => string | null;
}

/** A part is over when so many requests were made, whatever its duration. */
const MAX_REQUESTS = 50_000;
/** One who gets no answer at all does not ask again at once. */
const AFTER_NO_ANSWER_MS = 100;
/** Requests of one client under way at a time, where nothing else bounds them. */
const PATIENT_IN_FLIGHT = 8;
const IN_FLIGHT = 64;

/** Runs clients of one scenario side by side, each key with counters of its own, and returns all that was exchanged. */
export async function runPart(options: PartOptions): Promise<readonly Observed[]> {
  const { stand, durationMs, onExchange, signal, http } = options;
  const lent: Credential[] = [];
  const callers: Caller[] = [];
  try {
    for (const kind of options.clients) callers.push(...(await callersOf(kind, options, lent)));
    const seen = new Map<Subject, Exchange[]>(callers.map(({ subject }) => [subject, []]));
    const full = new AbortController();
    let requests = 0;
    await Promise.all(
      callers.map(({ kind, subject, pace, address, authorization }, i) =>
        call({
          pace,
          durationMs,
          delayMs: (pace.everyMs * i) / callers.length,
          signal: AbortSignal.any([signal, full.signal]),
          send: async (dueAtMs) => {
            if (++requests === MAX_REQUESTS) full.abort();
            const sentAtMs = Date.now();
            const answer = await http.get({ path: kind.path, authorization: authorization(), address });
            const exchange = exchangeOf(kind.name, answer, sentAtMs, dueAtMs);
            seen.get(subject)!.push(exchange);
            onExchange(exchange);
            return silenceMs(kind, exchange);
          },
        }),
      ),
    );
    return [...seen].map(([subject, exchanges]) => ({ subject, exchanges }));
  } finally {
    stand.release(lent);
  }
}

async function callersOf(kind: ClientKind, options: PartOptions, lent: Credential[]): Promise<Caller[]> {
  const { stand, addresses } = options;
  const { plan, standIn, limits, keys } = kind;
  const address = addresses ? (kind.address ?? null) : null;
  if (kind.credentials !== 'key') {
    const subject = addressSubject(kind, address, options);
    const pace = paceOf(kind, null);
    const authorization = () => badAuthorization(kind.credentials);
    return Array.from({ length: keys }, () => ({ kind, subject, pace, address, authorization }));
  }
  const credentials = await stand.keys({ plan, standIn, limits, count: keys });
  lent.push(...credentials);
  return credentials.map((credential, i) => {
    const pace = paceOf(kind, credential.bans?.after ?? null);
    const atOnce = pace.inFlight - 1 + pace.size;
    const subject: Subject = {
      name: keys === 1 ? kind.name : `${kind.name} ${i + 1}`,
      plan: credential.plan,
      kind: 'key',
      limits: credential.limits,
      bans: credential.bans,
      expected: kind.expect,
      cost: kind.cost,
      waits: kind.refused === 'wait' && atOnce < (credential.bans?.after ?? Number.POSITIVE_INFINITY),
      fresh: credential.fresh,
    };
    return { kind, subject, pace, address, authorization: () => credential.authorization };
  });
}

/** All callers from one address spend from one budget, whatever is wrong with their keys. */
function addressSubject(kind: ClientKind, address: string | null, { stand, knownAddresses }: PartOptions): Subject {
  const name = `address ${address ?? 'of the test'}`;
  const fresh = stand.freshAddresses && address !== null && !knownAddresses.has(name);
  knownAddresses.add(name);
  return {
    name,
    plan: 'no key',
    kind: 'address',
    limits: [{ window: 'failed-authentication', lengthMs: 60_000, limit: stand.failedAuthentications }],
    bans: null,
    expected: kind.expect,
    cost: 1,
    waits: false,
    fresh,
  };
}

function paceOf({ rate, burst, inFlight, refused }: ClientKind, after: number | null): Pace {
  // Who is patient sends the next burst when the one before is answered.
  if (burst !== undefined) {
    return { size: burst.size, everyMs: burst.every, inFlight: refused === 'wait' ? 1 : burst.size };
  }
  if (inFlight !== undefined) return { size: 1, everyMs: 0, inFlight };
  const few = Math.min(PATIENT_IN_FLIGHT, (after ?? Number.POSITIVE_INFINITY) - 1);
  return { size: 1, everyMs: 1000 / rate!, inFlight: refused === 'wait' ? Math.max(few, 1) : IN_FLIGHT };
}

function badAuthorization(credentials: ClientKind['credentials']): string | null {
  if (credentials === 'missing') return null;
  return credentials === 'wrong' ? `Bearer ${mint(randomBytes)}` : 'Bearer tg_live_nonsense';
}

function exchangeOf(client: string, answer: Answer, sentAtMs: number, dueAtMs: number): Exchange {
  const told = { client, sentAtMs, receivedAtMs: Date.now(), latencyMs: performance.now() - dueAtMs };
  if ('fault' in answer) {
    return { ...told, status: 0, fields: NOTHING_TOLD, refusal: NO_REFUSAL, fault: answer.fault };
  }
  const { status, headers, body } = answer;
  const refusal = status >= 400 ? refusalOf(body) : NO_REFUSAL;
  return { ...told, status, fields: toldFields(headers), refusal, fault: null };
}

function silenceMs({ refused }: ClientKind, exchange: Exchange): number {
  if (exchange.status === 0) return AFTER_NO_ANSWER_MS;
  const waits = refused === 'wait' || (refused === 'wait-out-bans' && outcomeOf(exchange) === 'banned');
  return exchange.status === 429 && waits ? (exchange.fields.retryAfterS ?? 0) * 1000 : 0;
}
