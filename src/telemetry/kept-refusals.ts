import { isOfCustomer } from '../admit/account-id.ts';
import type { Allowance } from '../admit/allowance.ts';
import { formOf } from '../admit/windows.ts';
import { CLIENT_CLOSED_REQUEST, type Exchange } from '../gateway/exchange.ts';
import { formText } from '../model/plan.ts';
import { type ENDERS, type Judgement, type KeptRefusal, type PaidAmounts, SOURCES } from '../model/refusal.ts';
import { WINDOWS } from '../model/values.ts';
import { reportedOfCaller } from '../operations/live/found.ts';
import { type RefusalFacts, textsOf } from '../operations/live/refusal-text.ts';

/** Attack: 11,000 refused requests with paths of 16 KiB each would take 180 MB. */
export const MAX_PATH = 512;

/** The numbers of a row, by their place in it. Those that do not apply are NaN. */
const NUMBER = {
  ...{ atMs: 0, status: 1, cost: 2, source: 3, decidedAtMs: 4 },
  /** Of the texts, in their order; that of the path is NaN if the request had none. */
  ...{ idLength: 5, addressLength: 6, methodLength: 7, pathLength: 8 },
  /** Of the verdict that refused the request. */
  ...{ strike: 9, retryAtMs: 10, banNumber: 11, banUntilMs: 12, imposedBan: 13 },
  totalMs: 14,
  /** Then three for each limit that applied: the limit, the count at the decision, and what was left. */
  limits: 15,
} as const;
/** Those of further limits are kept in an array of their own. */
const NUMBERS = NUMBER.limits + 3 * WINDOWS.length;

/** What of a row lives longer than the request anyway: texts of the settings, the caller's id, its limits. */
class Shared {
  judgement: Judgement = 'refused';
  code = '';
  route: string | null = null;
  consumerId: string | null = null;
  accountId: string | null = null;
  plan: string | null = null;
  limits: Exchange['limits'] = [];
  window: Exchange['window'] = null;
  /** The numbers of the limits beyond those that have a place in the row; null if there are none. */
  furtherLimits: readonly number[] | null = null;
  /** For each limit its unit and what the request took of it in advance; null if all count requests. */
  inUnits: readonly (InUnit | null)[] | null = null;
  paid: Exchange['units'] = null;
  allowance: Allowance | null = null;
  policy: string | null = null;
  upstream: string | null = null;
  target: string | null = null;
  cause: string | null = null;
  /** The texts, if they are too long for their place. */
  longText: string | null = null;
}

interface InUnit {
  readonly unit: string;
  readonly needed: number;
}

/** Room for id, address, method and path of a usual request. Of others they are kept as a string. */
const TEXT_BYTES = 160;

/**
 * The last requests that were refused or failed, in a ring of rows of fixed length. Objects and texts are made when an operator
 * asks. (An object for each refusal lived just long enough to be moved twice by the garbage collector: a request of a banned key
 * took 1.4 to 1.9 times as long as without them.)
 */
export class KeptRefusals {
  readonly #rows: number;
  readonly #numbers: Float64Array;
  readonly #texts: Buffer;
  /** An object for each row, made when the row is first used. */
  readonly #shared: Shared[] = [];
  #next = 0;

  /** @param rows how many are kept */
  constructor(rows: number) {
    this.#rows = rows;
    this.#numbers = new Float64Array(rows * NUMBERS);
    // Not from the pool: pages that were never written to take no memory.
    this.#texts = Buffer.from(new ArrayBuffer(rows * TEXT_BYTES));
  }

  /** @param exchange of a request that was refused or failed; its texts but for the cause are ASCII */
  add(exchange: Exchange, atMs: number): void {
    const row = this.#next;
    this.#next = row + 1 === this.#rows ? 0 : row + 1;
    this.#addNumbers(row * NUMBERS, exchange, atMs);
    this.#addVerdict(row * NUMBERS, exchange.refusal ?? null);
    const furtherLimits = this.#addLimits(row * NUMBERS + NUMBER.limits, exchange);
    this.#addShared(row, exchange, furtherLimits, this.#addText(row * TEXT_BYTES, exchange));
  }

  /**
   * Those with this request id, in no order. Clients may repeat their X-Request-Id.
   * @param nowMs Unix milliseconds; the advice depends on what has ended by then
   */
  of(requestId: string, nowMs: number): KeptRefusal[] {
    const wanted = Buffer.from(requestId, 'latin1');
    // Else `\u0170` would find `p`, the character of its last byte.
    if (wanted.toString('latin1') !== requestId) return [];
    const found: KeptRefusal[] = [];
    for (const [row, shared] of this.#shared.entries()) {
      if (this.#hasId(row, wanted)) found.push(this.#refusal(row, shared, nowMs));
    }
    return found;
  }

  /** All of them, in no order. @param nowMs as for `of` */
  all(nowMs: number): KeptRefusal[] {
    return this.#shared.map((shared, row) => this.#refusal(row, shared, nowMs));
  }

  /**
   * Those of a caller that are reported, newest first.
   * @param id of a key, a caller with tokens or a customer
   */
  ofCaller(id: string, nowMs: number): KeptRefusal[] {
    return reportedOfCaller(this.#rowsOf(id)).map(({ row, shared }) => this.#refusal(row, shared, nowMs));
  }

  /** The rows of a caller, the newest first. */
  *#rowsOf(id: string) {
    const rows = this.#shared.length;
    for (let i = 1; i <= rows; i++) {
      const row = (this.#next - i + rows) % rows;
      const shared = this.#shared[row]!;
      const { consumerId, accountId, judgement } = shared;
      if (consumerId === id || (accountId !== null && isOfCustomer(accountId, id))) {
        const [status, imposedBan] = [this.#number(row, 'status'), this.#number(row, 'imposedBan') === 1];
        yield { row, shared, judgement, status, imposedBan };
      }
    }
  }

  #addNumbers(at: number, exchange: Exchange, atMs: number): void {
    const { source, decidedAtMs, path } = exchange;
    const numbers = this.#numbers;
    numbers[at + NUMBER.atMs] = atMs;
    numbers[at + NUMBER.status] = exchange.status;
    numbers[at + NUMBER.cost] = exchange.cost;
    numbers[at + NUMBER.totalMs] = exchange.totalMs;
    numbers[at + NUMBER.source] = source === null ? Number.NaN : SOURCES.indexOf(source);
    numbers[at + NUMBER.decidedAtMs] = decidedAtMs ?? Number.NaN;
    numbers[at + NUMBER.idLength] = exchange.requestId.length;
    numbers[at + NUMBER.addressLength] = exchange.clientAddress.length;
    numbers[at + NUMBER.methodLength] = exchange.method.length;
    numbers[at + NUMBER.pathLength] = path === null ? Number.NaN : path.length;
  }

  #addVerdict(at: number, verdict: NonNullable<Exchange['refusal']> | null): void {
    const numbers = this.#numbers;
    const ban = verdict?.kind === 'banned' ? verdict : null;
    numbers[at + NUMBER.strike] = verdict?.strike ?? Number.NaN;
    numbers[at + NUMBER.retryAtMs] = verdict?.retryAtMs ?? Number.NaN;
    numbers[at + NUMBER.banNumber] = ban?.number ?? Number.NaN;
    numbers[at + NUMBER.banUntilMs] = ban?.untilMs ?? Number.NaN;
    numbers[at + NUMBER.imposedBan] = ban?.imposed ? 1 : 0;
  }

  /**
   * A request that was admitted, and refused afterwards because its route does not serve it, has them too.
   * @returns the numbers of the limits beyond those that have a place in the row; null if there are none
   */
  #addLimits(at: number, { windows }: Exchange): readonly number[] | null {
    const numbers = this.#numbers;
    let further: number[] | null = null;
    for (let i = 0; i < windows.length; i++) {
      const { limit, used, remaining } = windows[i]!;
      if (i >= WINDOWS.length) {
        further ??= [];
        further.push(limit, used, remaining);
        continue;
      }
      numbers[at + 3 * i] = limit;
      numbers[at + 3 * i + 1] = used;
      numbers[at + 3 * i + 2] = remaining;
    }
    return further;
  }

  /** @returns the text, if it is too long for its place; null if it is there */
  #addText(at: number, { requestId, clientAddress, method, path }: Exchange): string | null {
    const text = requestId + clientAddress + method + (path ?? '');
    if (text.length > TEXT_BYTES) return ownCopy(text.slice(0, text.length - (path?.length ?? 0)) + cut(path ?? ''));
    this.#texts.write(text, at, 'latin1');
    return null;
  }

  #addShared(row: number, exchange: Exchange, furtherLimits: readonly number[] | null, longText: string | null): void {
    let shared = this.#shared[row];
    if (shared === undefined) {
      shared = new Shared();
      this.#shared[row] = shared;
    }
    shared.judgement = exchange.judgement;
    shared.code = exchange.code ?? '';
    shared.route = exchange.route;
    shared.consumerId = exchange.consumerId;
    shared.accountId = exchange.accountId ?? null;
    shared.plan = exchange.plan;
    shared.limits = exchange.limits;
    shared.window = exchange.window;
    shared.furtherLimits = furtherLimits;
    shared.inUnits = inUnitsOf(exchange.refusal ?? null);
    shared.paid = exchange.units ?? null;
    shared.allowance = exchange.refusal?.allowance ?? null;
    shared.policy = exchange.policy ?? null;
    shared.upstream = exchange.upstream;
    shared.target = exchange.target;
    shared.cause = exchange.cause === null ? null : ownCopy(exchange.cause.slice(0, MAX_PATH));
    shared.longText = longText;
  }

  #hasId(row: number, wanted: Buffer): boolean {
    const length = this.#number(row, 'idLength');
    if (length !== wanted.length) return false;
    const { longText } = this.#shared[row]!;
    if (longText !== null) return longText.startsWith(wanted.toString('latin1'));
    const at = row * TEXT_BYTES;
    return this.#texts.compare(wanted, 0, length, at, at + length) === 0;
  }

  #refusal(row: number, shared: Shared, nowMs: number): KeptRefusal {
    const { judgement, code, route, consumerId, plan, allowance, policy, cause, window, longText } = shared;
    const { upstream, target } = shared;
    const status = this.#number(row, 'status');
    const decidedAtMs = this.#number(row, 'decidedAtMs');
    const strike = this.#number(row, 'strike');
    const [banNumber, banUntilMs] = [this.#number(row, 'banNumber'), this.#number(row, 'banUntilMs')];
    const retryAtMs = this.#number(row, 'retryAtMs');
    const facts: RefusalFacts = {
      ...this.#textsOf(row, longText),
      ...{ judgement, code, route, consumerId, plan, policy, cause, window, status, upstream, target },
      at: isoTime(this.#number(row, 'atMs')),
      totalMs: Math.round(this.#number(row, 'totalMs')),
      endedBy: enderOf(code, status),
      cost: this.#number(row, 'cost'),
      source: SOURCES[this.#number(row, 'source')] ?? null,
      limits: this.#limitsOf(row, shared),
      units: paidAmounts(shared.paid),
      planLimits: allowance?.budgets[0].planLimits ?? {},
      decidedAt: Number.isNaN(decidedAtMs) ? null : isoTime(decidedAtMs),
      strike: Number.isNaN(strike) ? null : { number: strike, of: allowance!.bans!.after },
      ban: Number.isNaN(banNumber) ? null : { number: banNumber, until: isoTime(banUntilMs) },
      imposedBan: this.#number(row, 'imposedBan') === 1,
      costExceedsLimit: judgement === 'refused' && Number.isNaN(retryAtMs),
      bansOfCustomer: allowance?.bansIn === 1,
      // Rounded up as Retry-After is: the same request succeeds then, and in the sentence it is the same second.
      retryAt: Number.isNaN(retryAtMs) ? null : isoTime(Math.ceil(retryAtMs / 1_000) * 1_000),
    };
    const { cause: _, costExceedsLimit: __, bansOfCustomer: ___, ...shown } = facts;
    return { ...shown, ...textsOf(facts, nowMs) };
  }

  #textsOf(row: number, longText: string | null): Pick<KeptRefusal, 'requestId' | 'clientAddress' | 'method' | 'path'> {
    const [idLength, addressLength] = [this.#number(row, 'idLength'), this.#number(row, 'addressLength')];
    const [methodLength, pathLength] = [this.#number(row, 'methodLength'), this.#number(row, 'pathLength')];
    const [addressAt, methodAt] = [idLength, idLength + addressLength];
    const pathAt = methodAt + methodLength;
    const end = pathAt + (Number.isNaN(pathLength) ? 0 : pathLength);
    const at = row * TEXT_BYTES;
    const text = longText ?? this.#texts.toString('latin1', at, at + end);
    return {
      requestId: text.slice(0, addressAt),
      clientAddress: text.slice(addressAt, methodAt),
      method: text.slice(methodAt, pathAt),
      path: Number.isNaN(pathLength) ? null : text.slice(pathAt),
    };
  }

  #limitsOf(row: number, { limits, furtherLimits, inUnits }: Shared): KeptRefusal['limits'] {
    const at = row * NUMBERS + NUMBER.limits;
    const numbers = [...this.#numbers.subarray(at, at + 3 * WINDOWS.length), ...(furtherLimits ?? [])];
    return limits.map((of, i) => ({
      window: of.name ?? of.window,
      form: formText(of.window, formOf(of)),
      ...inUnits?.[i],
      limit: numbers[3 * i]!,
      used: numbers[3 * i + 1]!,
      remaining: numbers[3 * i + 2]!,
    }));
  }

  #number(row: number, name: Exclude<keyof typeof NUMBER, 'limits'>): number {
    return this.#numbers[row * NUMBERS + NUMBER[name]]!;
  }
}

/**
 * Whether a request failed: with 5xx, by the gateway's own 408, or because the client left before an answer. A 408 of the service is an
 * answer.
 */
export function hasFailed({ code, status, bytesOut }: Exchange): boolean {
  if (status >= 500) return true;
  return code === null ? status === CLIENT_CLOSED_REQUEST && bytesOut === 0 : code === 'request_timeout';
}

function enderOf(code: string, status: number): (typeof ENDERS)[number] {
  if (code === '') return status === CLIENT_CLOSED_REQUEST ? 'client' : 'service';
  return code === 'upstream_unavailable' ? 'service' : 'gateway';
}

function inUnitsOf(verdict: Exchange['refusal'] | null): readonly (InUnit | null)[] | null {
  if (verdict?.allowance.inUnits === undefined) return null;
  return verdict.windows.map(({ unit, needed }) => (unit === null ? null : { unit, needed }));
}

/** As operators see it; undefined if nothing was paid. */
export function paidAmounts(units: Exchange['units']): PaidAmounts | undefined {
  if (units == null) return undefined;
  const each = units.map(({ unit, reserved, settled, why, parts }) => {
    return [unit, { reserved, settled, ...(why === null ? {} : { unknown: why }), ...(parts && { parts }) }] as const;
  });
  return Object.fromEntries(each);
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** A path of at most MAX_PATH characters. */
export function cut(path: string): string {
  return path.length > MAX_PATH ? `${path.slice(0, MAX_PATH - 1)}…` : path;
}

/** A copy: V8 keeps the whole text of which a string is a part, so that a short path would hold a long query. */
export function ownCopy(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8');
}
