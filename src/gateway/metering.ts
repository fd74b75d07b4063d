import type { Amounts } from '../admit/decide.ts';
import type { Allowance } from '../admit/plan.ts';
import { onlyValue } from '../http1/fields.ts';
import type { Head } from '../http1/request-head.ts';
import { AnswerReader, type StartDecoding } from '../meter/answer-reader.ts';
import { type Charge, isRefunded, type Reserve } from '../meter/charge.ts';
import { amountOf, type CostReading } from '../meter/cost.ts';
import { numberAt } from '../meter/json-number.ts';

/** What one request took of a unit in advance, and what it paid in the end. */
interface PaidUnit {
  readonly reserved: number;
  readonly settled: number;
  /** Why its real cost is not known, so that it paid what it took in advance; null if it is known. */
  readonly why: Extract<CostReading, { kind: 'unknown' }>['why'] | null;
}

/**
 * How a request ended. `unsent`: it was not forwarded. `replied`: the gateway answered in place of a service. `failed`: no answer
 * of the service came. `upgraded`: it became a tunnel. `whole`: its answer passed. `cut`: a part of its answer passed.
 */
export type Ended = 'unsent' | 'replied' | 'failed' | 'upgraded' | 'whole' | 'cut';

/** What a request charges, of the units that its plan limits; null if nothing. */
export function chargesOf(allowance: Allowance, charges: readonly Charge[] | null): readonly Charge[] | null {
  const inUnits = allowance.inUnits ?? allowance.shadow?.inUnits;
  if (inUnits === undefined || charges === null) return null;
  return charges.filter(({ unit }) => inUnits.includes(unit));
}

/** Whether the body must be read before the request can be counted. */
export function readsBody(charges: readonly Charge[], { body }: Head): boolean {
  return body !== 'none' && charges.some(({ reserve }) => reserve.kind === 'json');
}

/** What a request takes in advance. @param body of JSON, if it has been read */
export function amountsOf(charges: readonly Charge[], head: Head, body: Buffer | null): Amounts {
  return Object.fromEntries(charges.map(({ unit, reserve }) => [unit, reservedBy(reserve, head, body)]));
}

/** The least that a request may take in advance, whatever its body says. */
export function leastAmountsOf(charges: readonly Charge[], head: Head): Amounts {
  return Object.fromEntries(
    charges.map(({ unit, reserve }) => {
      return [unit, reserve.kind === 'json' ? Math.min(reserve.least, reserve.most) : reservedBy(reserve, head, null)];
    }),
  );
}

function reservedBy(reserve: Reserve, { fields }: Head, body: Buffer | null): number {
  if (reserve.kind === 'fixed') return reserve.amount;
  const { otherwise, least, most } = reserve;
  const amount =
    reserve.kind === 'header'
      ? amountOf(onlyValue(fields.rawHeaders, reserve.name) ?? '')
      : numberIn(body, reserve.pointer);
  return Math.min(Math.max(amount ?? otherwise, least), most);
}

function numberIn(body: Buffer | null, pointer: readonly string[]): number | null {
  const found = body === null ? 'absent' : numberAt(body, pointer);
  return typeof found === 'number' ? found : null;
}

/** Follows the answer of an admitted request to find what the request cost in units. It is settled once, when it has ended. */
export class Metering {
  readonly #charges: readonly Charge[];
  readonly #reserved: Amounts;
  readonly #decode: StartDecoding;
  #reader: AnswerReader | null = null;
  #hasHead = false;

  /** @param charges with at least one @param decode begins to read a compressed answer */
  constructor(charges: readonly Charge[], reserved: Amounts, decode: StartDecoding) {
    this.#charges = charges;
    this.#reserved = reserved;
    this.#decode = decode;
  }

  /** The answer of the service begins. */
  head(status: number, fields: readonly string[]): void {
    this.#hasHead = true;
    const read = this.#charges.filter((charge) => charge.sources.length > 0 && !isRefunded(charge, status));
    if (read.length === 0) return;
    this.#reader = new AnswerReader(read, fields, this.#decode);
  }

  /** A piece of its body. */
  chunk(bytes: Buffer): void {
    this.#reader?.chunk(bytes);
  }

  /**
   * What the request paid, by unit. Never rejects.
   *
   * Attack: a client reads a stream up to its last event, leaves, and has the status 499 in the log, which `refund: [4xx]` covers.
   * @param status that the client got; null if it left
   * @param elapsedMs since it was forwarded
   */
  end(ended: Ended, status: number | null, elapsedMs: number): PaidUnits | Promise<PaidUnits> {
    // A client that leaves before the head pays for the time it took, where that is the cost.
    if (!this.#hasHead && ended === 'cut') this.head(0, []);
    const read = this.#reader?.end(ended === 'whole', elapsedMs) ?? NOTHING_READ;
    if (read instanceof Promise) return read.then((readings) => this.#paid(ended, status, readings));
    return this.#paid(ended, status, read);
  }

  #paid(ended: Ended, status: number | null, readings: Readonly<Record<string, CostReading>>): PaidUnits {
    return Object.fromEntries(
      this.#charges.map((charge) => {
        const reserved = this.#reserved[charge.unit]!;
        const reading = readings[charge.unit];
        const isFree = ended === 'unsent' || (status !== null && isRefunded(charge, status));
        if (isFree) return [charge.unit, { reserved, settled: 0, why: null }];
        if (reading === undefined) return [charge.unit, { reserved, settled: reserved, why: null }];
        if (reading.kind === 'known') return [charge.unit, { reserved, settled: reading.amount, why: null }];
        return [charge.unit, { reserved, settled: Math.max(reserved, reading.seen ?? 0), why: reading.why }];
      }),
    );
  }
}

export type PaidUnits = Readonly<Record<string, PaidUnit>>;

const NOTHING_READ: Readonly<Record<string, CostReading>> = Object.freeze({});

/** What a refused request would have taken in advance. It paid nothing. */
export function unitsOfRefused(amounts: Amounts): PaidUnits {
  return Object.fromEntries(
    Object.entries(amounts).map(([unit, reserved]) => [unit, { reserved, settled: 0, why: null }]),
  );
}

/** What a request has used of each unit. */
export function usedOf(paid: PaidUnits): Amounts {
  return Object.fromEntries(Object.entries(paid).map(([unit, { settled }]) => [unit, settled]));
}

/** What a request has used that did not even begin. */
export function nothingOf(amounts: Amounts): Amounts {
  return Object.fromEntries(Object.keys(amounts).map((unit) => [unit, 0]));
}
