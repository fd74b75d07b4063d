import type { DatabaseSync } from 'node:sqlite';
import {
  type Called,
  calledOn,
  type DeprecatedCalls,
  KEPT_DAYS,
  MAX_CONSUMERS,
  OTHERS,
} from '../../operations/deprecated-calls.ts';
import { answering, transaction } from './database.ts';

/** Calls of deprecated routes in the embedded store: a row for each day, route and consumer. */
export class EmbeddedDeprecatedCalls implements DeprecatedCalls {
  readonly #db: DatabaseSync;

  constructor({ db }: { readonly db: DatabaseSync }) {
    this.#db = db;
  }

  async add(day: string, route: string, calls: ReadonlyMap<string, number>): Promise<void> {
    const write = () => {
      const known = new Set(
        this.#db
          .prepare('SELECT consumer FROM deprecated_calls WHERE day = ? AND route = ?')
          .all(day, route)
          .map(({ consumer }) => String(consumer)),
      );
      const add = this.#db.prepare(
        `INSERT INTO deprecated_calls (day, route, consumer, calls) VALUES (?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET calls = calls + excluded.calls`,
      );
      for (const [consumerId, n] of calls) {
        const hasRoom = known.has(consumerId) || known.size < MAX_CONSUMERS;
        if (hasRoom) known.add(consumerId);
        add.run(day, route, hasRoom ? consumerId : OTHERS, n);
      }
      this.#db.prepare(`DELETE FROM deprecated_calls WHERE day <= date(?, '-${KEPT_DAYS} days')`).run(day);
    };
    // The counter sends calls again that the store cannot write now.
    answering(() => transaction(this.#db, write));
  }

  async of(days: readonly string[], route: string): Promise<ReadonlyMap<string, Called>> {
    const [from, to] = [days.reduce((a, b) => (a < b ? a : b)), days.reduce((a, b) => (a > b ? a : b))];
    const rows = answering(() =>
      this.#db
        .prepare(
          `SELECT consumer, sum(calls) AS calls, max(day) AS lastDay FROM deprecated_calls
           WHERE route = ? AND day BETWEEN ? AND ? GROUP BY consumer`,
        )
        .all(route, from, to),
    );
    return new Map(
      rows.map(({ consumer, calls, lastDay }) => [
        String(consumer),
        { calls: Number(calls), lastDay: String(lastDay) },
      ]),
    );
  }
  async ofConsumer(days: readonly string[], route: string, consumerId: string): Promise<Called | null> {
    const ofDay = this.#db.prepare('SELECT calls FROM deprecated_calls WHERE day = ? AND route = ? AND consumer = ?');
    // SQLite looks each up by the primary key.
    return answering(() =>
      calledOn(days.map((day) => ({ day, calls: Number(ofDay.get(day, route, consumerId)?.calls ?? 0) }))),
    );
  }
}
