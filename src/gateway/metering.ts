import type { Allowance } from '../admit/allowance.ts';
import type { Amounts } from '../engine/types.ts';
import { type FieldValues, fieldValues, valuesOf } from '../http1/fields.ts';
import type { Head } from '../http1/request-head.ts';
import { AnswerReader, type StartDecoding } from '../meter/answer-reader.ts';
import { isInBody, readableCodings } from '../meter/asked-answer.ts';
import { numberIn } from '../meter/body-reader.ts';
import { type Charge, isRefunded, leastOf, needsOf, type PlainReserve, reserveBy } from '../meter/charge.ts';
import {
  type ChosenRows,
  type CostReading,
  factorIn,
  type PaidPart,
  rowIn,
  type Table,
  wholeNumberOf,
} from '../meter/cost.ts';

/** What one request took of a unit in advance, and what it paid in the end. */
interface PaidUnit {
  readonly unit: string;
  readonly reserved: number;
  readonly settled: number;
  /** Why its real cost is not known, so that it paid what it took in advance; null if it is known. */
  readonly why: Extract<CostReading, { kind: 'unknown' }>['why'] | null;
  /** What its cost is the sum of; left out if it is no sum, or not known. */
  readonly parts?: readonly PaidPart[];
}

/**
 * How a request ended. `replied`: the gateway answered in place of a service. `failed`: no answer of the service came, or the request
 * was not forwarded. `upgraded`: it became a tunnel. `whole`: its answer passed. `cut`: a part of its answer passed. `left`: its
 * client left, or broke its own body.
 */
export type Ended = 'replied' | 'failed' | 'upgraded' | 'whole' | 'cut' | 'left';

/** What a request charges, of the units that its plan limits; null if nothing. */
export function chargesOf(allowance: Allowance, charges: readonly Charge[] | null): readonly Charge[] | null {
  const inUnits = allowance.inUnits ?? allowance.shadow?.inUnits;
  if (inUnits === undefined || charges === null) return null;
  const isLimited = ({ unit }: Charge) => inUnits.includes(unit);
  return charges.every(isLimited) ? charges : charges.filter(isLimited);
}

/** Whether the body must be read before the request can be counted. */
export function readsBody(charges: readonly Charge[], { body }: Head): boolean {
  return body !== 'none' && needsOf(charges).hasBody;
}

/** The rows of tables that a request names, or a table with a row that it does not name as it has to. */
type NamedRows = { readonly rows: ChosenRows | null } | { readonly unnamed: Table };

/**
 * The rows that a request names.
 *
 * Attack: to pay the price of a cheap model, a client names it in a form that its service reads and the gateway does not: `Model`, the name
 * twice, or in a body that is compressed. So such a request is refused, whether the table has a default or not.
 * @param body of JSON, if it has been read
 */
export function rowsOf(charges: readonly Charge[], head: Head, body: Buffer | null): NamedRows {
  const { tables } = needsOf(charges);
  if (tables.length === 0) return NO_TABLES;
  const rows = new Map<Table, number>();
  for (const table of tables) {
    const { source } = table.by;
    const found =
      source.kind === 'json'
        ? body === null || body.length === 0
          ? 'absent'
          : numberIn(body, source.pointer, rowIn(table))
        : rowInField(table, source.name, head);
    const row = found === 'absent' ? table.rows.size : found;
    if (row === 'invalid' || (row === table.rows.size && !table.hasDefault)) return { unnamed: table };
    rows.set(table, row);
  }
  return { rows };
}

const NO_TABLES: NamedRows = { rows: null };

function rowInField(table: Table, name: string, { fields, connectionNames }: Head): number | 'absent' | 'invalid' {
  const values = connectionNames.has(name) ? [] : valuesOf(fields.rawHeaders, name);
  if (values.length > 1) return 'invalid';
  return values.length === 0 ? 'absent' : rowIn(table).read(values[0]!)!;
}

/** What all requests with these charges take in advance. */
const alike = new WeakMap<readonly Charge[], Amounts>();

/**
 * What a request takes in advance.
 * @param body of JSON, if it has been read
 * @param rows that it names
 */
export function amountsOf(
  charges: readonly Charge[],
  head: Head,
  body: Buffer | null,
  rows: ChosenRows | null = null,
): Amounts {
  if (needsOf(charges).isAsked) return amountsBy(charges, head, body, rows);
  let amounts = alike.get(charges);
  if (amounts === undefined) {
    amounts = amountsBy(charges, head, body, rows);
    alike.set(charges, amounts);
  }
  return amounts;
}

function amountsBy(charges: readonly Charge[], head: Head, body: Buffer | null, rows: ChosenRows | null): Amounts {
  return Object.fromEntries(
    charges.map(({ unit, reserve }) => {
      const amount = reserveBy(
        reserve,
        (plain) => reservedBy(plain, head, body),
        (times) => factorIn(times, rows),
      );
      return [unit, amount];
    }),
  );
}

/** The least that a request may take in advance, whatever its body says. */
export function leastAmountsOf(charges: readonly Charge[], head: Head): Amounts {
  return Object.fromEntries(
    charges.map(({ unit, reserve }) => {
      return [unit, reserve.kind === 'header' ? reservedBy(reserve, head, null) : leastOf(reserve)];
    }),
  );
}

/**
 * Attack: a client lists the field in Connection, so that the service never gets the small number by which the gateway set the
 * reserve. So such a field counts as absent.
 *
 * Attack: to pay the default, a client asks for more than any amount can be, or in a form that its service reads and the gateway does
 * not: `09000`, `"9e3"`, the number twice, or with a comma behind it. So the gateway takes `most` for every value that is not one number
 * from 0.
 */
function reservedBy(reserve: PlainReserve, { fields, connectionNames }: Head, body: Buffer | null): number {
  if (reserve.kind === 'fixed') return reserve.amount;
  const { otherwise, least, most } = reserve;
  let asked: number | 'absent' | 'invalid' = 'absent';
  if (reserve.kind === 'json') {
    if (body !== null && body.length > 0) asked = numberIn(body, reserve.pointer);
  } else if (!connectionNames.has(reserve.name)) {
    const values = valuesOf(fields.rawHeaders, reserve.name);
    if (values.length > 0) asked = (values.length === 1 ? wholeNumberOf(values[0]!) : null) ?? 'invalid';
  }
  if (asked === 'invalid') return most;
  return Math.min(Math.max(asked === 'absent' ? otherwise : asked, least), most);
}

/** How the answer of a request is decompressed: `Decoders` for its consumer. */
export interface Decompression {
  /** Takes a place, for a request that asks for a coding with a large window. @returns false if no place is free */
  take(): boolean;
  /** Gives it back. */
  leave(): void;
  readonly start: StartDecoding;
}

/** Follows the answer of an admitted request to find what the request cost in units. It is settled once, when it has ended. */
export class Metering {
  readonly #charges: readonly Charge[];
  readonly #reserved: Amounts;
  readonly #decompression: Decompression;
  readonly #rows: ChosenRows | null;
  /** Whether it has a place among the requests that ask for a coding with a large window. */
  #hasPlace = false;
  /** The charges whose cost is read from the answer. */
  #read: readonly Charge[] = [];
  #reader: AnswerReader | null = null;
  #hasHead = false;
  /** When the request was last written to a connection to the service; null before that. */
  #sentAtMs: number | null = null;

  /**
   * @param charges with at least one
   * @param rows of tables that the request names
   */
  constructor(
    charges: readonly Charge[],
    reserved: Amounts,
    decompression: Decompression,
    rows: ChosenRows | null = null,
  ) {
    this.#rows = rows;
    this.#charges = charges;
    this.#reserved = reserved;
    this.#decompression = decompression;
  }

  /**
   * The Accept-Encoding that the gateway sends to the service; null if it forwards that of the client. Called once, before the request
   * is forwarded.
   */
  asks({ fields }: Head): string | null {
    if (!this.#charges.some(({ sources }) => isInBody(sources))) return null;
    const { all, small } = fields.derived(readableCodings);
    this.#hasPlace = all !== small && this.#decompression.take();
    return this.#hasPlace ? all : small;
  }

  /**
   * Notes that the request is written to a connection to the service; called again for each further attempt.
   *
   * Attack: keys fill all connections of an upstream, and another caller pays for the milliseconds that it waits for one.
   * @param nowMs monotonic
   */
  sent(nowMs: number): void {
    this.#sentAtMs = nowMs;
  }

  /** Reads the head of the answer. */
  head(status: number, fields: FieldValues): void {
    this.#hasHead = true;
    const isRead = (charge: Charge) => charge.sources.length > 0 && !isRefunded(charge, status);
    this.#read = this.#charges.every(isRead) ? this.#charges : this.#charges.filter(isRead);
    if (this.#read.length > 0) {
      this.#reader = new AnswerReader(this.#read, fields, this.#decompression.start, this.#rows);
    }
    if (this.#reader?.isCompressed !== true) this.#leave();
  }

  /** Reads a piece of its body. */
  chunk(bytes: Buffer): void {
    this.#reader?.chunk(bytes);
  }

  /** Whether the body arrives faster than it is read, so that the next piece should wait. */
  get isBehind(): boolean {
    return this.#reader?.isBehind === true;
  }

  /** Calls `next` once it is no longer behind. */
  whenCaughtUp(next: () => void): void {
    this.#reader?.whenCaughtUp(next);
  }

  /**
   * What the request paid: nothing if it was never written to a connection to the service. Never rejects.
   *
   * Attack: keys hold all connections of an upstream with slow requests, and another caller, whose requests wait in the queue until
   * they get 503, pays their reserves.
   *
   * Attack: a client reads a stream up to its last event, leaves, and has the status 499 in the log, which `refund: [4xx]` covers. Or
   * it sends a malformed chunk once the service has worked on the ones before, and gets 400.
   * @param status that the client got
   * @param nowMs monotonic
   */
  end(ended: Ended, status: number, nowMs: number): PaidUnits | Promise<PaidUnits> {
    // A client that leaves before the head pays for the time it took, where that is the cost.
    if (!this.#hasHead && ended === 'left') this.head(0, NO_FIELDS);
    const elapsedMs = this.#sentAtMs === null ? 0 : nowMs - this.#sentAtMs;
    const read = this.#reader?.end(ended === 'whole', elapsedMs) ?? [];
    if (read instanceof Promise) {
      return read.then((readings) => {
        this.#leave();
        return this.#paid(ended, status, readings);
      });
    }
    this.#leave();
    return this.#paid(ended, status, read);
  }

  #leave(): void {
    if (!this.#hasPlace) return;
    this.#hasPlace = false;
    this.#decompression.leave();
  }

  /** @param readings of the charges that are read */
  #paid(ended: Ended, status: number, readings: readonly CostReading[]): PaidUnits {
    return this.#charges.map((charge): PaidUnit => {
      const { unit } = charge;
      const reserved = this.#reserved[unit]!;
      const isUnsent = this.#sentAtMs === null && ended !== 'replied';
      if (isUnsent || (ended !== 'left' && isRefunded(charge, status))) {
        return { unit, reserved, settled: 0, why: null };
      }
      const reading = readings[this.#read.indexOf(charge)];
      if (reading === undefined) return { unit, reserved, settled: reserved, why: null };
      if (reading.kind === 'known') {
        const { amount: settled, parts } = reading;
        return parts === undefined
          ? { unit, reserved, settled, why: null }
          : { unit, reserved, settled, why: null, parts };
      }
      return { unit, reserved, settled: Math.max(reserved, reading.seen ?? 0), why: reading.why };
    });
  }
}

/** One for each unit that the request charges. */
export type PaidUnits = readonly PaidUnit[];

const NO_FIELDS = fieldValues([]);

/** The payment of a request that was not even forwarded: nothing. @param amounts what it took in advance, or would have taken */
export function unpaid(amounts: Amounts): PaidUnits {
  return Object.entries(amounts).map(([unit, reserved]) => ({ unit, reserved, settled: 0, why: null }));
}
