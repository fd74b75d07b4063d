import {
  ENDS_KEPT_MS,
  type FleetMessage,
  type FleetNews,
  type FleetStore,
  MAX_ANSWERS,
  MAX_ENDS,
  MAX_QUESTIONS,
  PART_KEPT_MS,
  QUESTION_KEPT_MS,
  REPORT_KEPT_MS,
  SHOWN_FOR_MS,
} from '../../operations/fleet/fleet-store.ts';
import type { RedisClient } from './connection.ts';
import { useOwn } from './foreign-values.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript, luaFile } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';

type Reply = [now: number, reports: string[], questions: string[], answers: string[], ends: string[]];

const EXCHANGE = new LuaScript<Reply>(luaFile('./fleet.lua'));

/** The messages of gateways to each other in Redis, all in one slot of a cluster. */
export class RedisFleet implements FleetStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
  }

  async exchange({ id, report, readsReports, questions, answers, ends }: FleetMessage): Promise<FleetNews> {
    const { seen, reports, questions: open, ends: ended, answers: answersTo } = keyspace.fleet;
    const names = [seen, reports, open, ended, answersTo(id), ...answers.map(({ to }) => answersTo(to))];
    const bounds = [SHOWN_FOR_MS, REPORT_KEPT_MS, QUESTION_KEPT_MS, MAX_QUESTIONS, MAX_ANSWERS, ENDS_KEPT_MS, MAX_ENDS];
    const more = [...[...questions].flat(), ends.size, ...[...ends].flat(), ...answers.map(({ text }) => text)];
    const args = [id, report ?? '', readsReports ? 1 : 0, ...bounds, questions.size, ...more];
    const [nowMs, reported, asked, answered, over] = await this.#run(() => EXCHANGE.run(this.#redis, names, ...args));
    const found = Array.from({ length: reported.length / 3 }, (_, i) => {
      return { id: reported[3 * i]!, atMs: Number(reported[3 * i + 1]), text: reported[3 * i + 2]! };
    });
    return {
      nowMs,
      reports: found,
      questions: new Map(pairsOf(asked)),
      answers: answered.toReversed(),
      ends: new Map(pairsOf(over).map(([name, before]) => [name, Number(before)])),
    };
  }

  async leavePart(name: string, bytes: Uint8Array): Promise<void> {
    await this.#run(() => this.#redis.set(keyspace.fleet.part(name), Buffer.from(bytes), 'PX', PART_KEPT_MS));
  }

  async takePart(name: string): Promise<Uint8Array | null> {
    const key = keyspace.fleet.part(name);
    const bytes = await this.#run(() => this.#redis.getBuffer(key));
    if (bytes !== null) await this.#run(() => this.#redis.del(key));
    return bytes;
  }

  async leave(gatewayId: string): Promise<void> {
    await this.#run(() => this.#redis.zrem(keyspace.fleet.seen, gatewayId));
    await this.#run(() => this.#redis.hdel(keyspace.fleet.reports, gatewayId));
  }

  #run<T>(call: () => Promise<T>): Promise<T> {
    const message =
      'Gateways cannot exchange messages: a name `tg:{fleet}:…` in Redis belongs to another program, or this user may not use it.';
    const foreign = /WRONGTYPE|NOPERM|user executing the script can't|user_script/;
    return useOwn({ circuit: this.#circuit, name: keyspace.fleet.seen, message, foreign }, call);
  }
}

function pairsOf(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i]!, flat[2 * i + 1]!]);
}
