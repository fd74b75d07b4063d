import { randomBytes, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { ResetUsage, TopUpTerms } from '../../admit/account-changes.ts';
import { partsOfAccount } from '../../admit/account-id.ts';
import type { Allowance } from '../../admit/allowance.ts';
import {
  type DecisionRequest,
  type Durability,
  type FoundBan,
  type Ledger,
  type MadeOnce,
  NothingDone,
  type Settlement,
  type SettlementOutcome,
} from '../../admit/ledger.ts';
import type { WindowLimit } from '../../admit/windows.ts';
import type { Decision } from '../../engine/types.ts';
import type { StoreChange } from '../../identify/record-store.ts';
import type { Ban, TopUpNote } from '../../model/account.ts';
import type { WindowName } from '../../model/values.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { DecisionCalls } from './decision-call.ts';
import type { ChangingConnection, DurableWrites, LastingWrite } from './durable-writes.ts';
import { CHANGES_LUA } from './engine-lua.ts';
import { ACCOUNT_PREFIX, accountIdIn, keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import { NOTED_LUA } from './record-writes.ts';
import type { ReplicaLink } from './replication.ts';
import { timeOf } from './server-clocks.ts';
import { SettlementCalls } from './settlement-calls.ts';
import type { Calls } from './shards.ts';
import type { CarriedBan } from './shell/carry-ban-script.ts';
import type { ReadBan } from './shell/read-bans-script.ts';
import { connectionsOf, holdWrites, pagesOf } from './string-values.ts';
import { placeOfAccount, type UsageChangeScripts, UsageChanges } from './usage-change-scripts.ts';

const LIFT = new LuaScript<string | null>(`${NOTED_LUA}${CHANGES_LUA}return lift_script()\n`);
/** Exported for its test. */
export const IN_FLIGHT = new LuaScript(`${CHANGES_LUA}return in_flight_script()\n`);
const READ_BANS = new LuaScript<readonly ReadBan[]>(`${CHANGES_LUA}return read_bans_script()\n`);
const CARRY_BAN = new LuaScript<number>(`${CHANGES_LUA}return carry_ban_script()\n`);

interface RedisLedgerOptions extends ChangingConnection {
  /** The gateway's own clock, Unix milliseconds. Left out: histories follow the store's clock unconditionally. */
  readonly wallMs?: () => number;
  /** Called with the name of a history that the store cannot read, so that it records nothing in it. */
  readonly onUnrecorded?: (history: string) => void;
  /** Left out: DECIDE_LUA. */
  readonly decideLua?: string;
  /** Left out: USAGE_CHANGES. */
  readonly usageChanges?: UsageChangeScripts;
}

/**
 * The ledger in Redis: one hash per consumer, one script call for all requests of a turn, Redis's clock. In a cluster, one
 * script call for each consumer of the turn, and one socket write for each primary.
 */
export class RedisLedger implements Ledger {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #publish: (change: StoreChange) => Promise<void>;
  readonly #writes: DurableWrites;
  readonly #decisions: DecisionCalls;
  readonly #settlements: SettlementCalls;
  readonly #usageChanges: UsageChanges;
  /** The name under which this process has requests in flight. */
  readonly #holder = randomBytes(9).toString('base64url');

  constructor({ redis, circuit, publish, writes, wallMs, onUnrecorded, decideLua, usageChanges }: RedisLedgerOptions) {
    this.#decisions = new DecisionCalls({ redis, circuit, holder: this.#holder, lua: decideLua, wallMs, onUnrecorded });
    this.#settlements = new SettlementCalls(redis, circuit, wallMs, () => this.#decisions.storeNowMs);
    this.#redis = redis;
    this.#circuit = circuit;
    this.#publish = publish;
    this.#writes = writes;
    const scripts = usageChanges === undefined ? {} : { scripts: usageChanges };
    this.#usageChanges = new UsageChanges({ redis, circuit, publish, writes, ...scripts });
  }

  decide(requests: readonly DecisionRequest[], isRead = false): Promise<readonly (Decision | null)[]> {
    return this.#redis instanceof ClusterClient
      ? this.#decideApart(requests, isRead)
      : this.#decisions.decide(requests, isRead);
  }

  /**
   * A script may only use the names of one slot. Consumers in the same slot are rare within a turn and are not combined: a
   * call for a single name never gets TRYAGAIN while its slot moves. The consumers of a customer with a limit on requests in flight
   * share one call, because each decision must count what the others have begun. If a primary does not answer, only its own
   * consumers are left without a decision.
   */
  async #decideApart(requests: readonly DecisionRequest[], isRead: boolean): Promise<readonly (Decision | null)[]> {
    const groups = [...Map.groupBy(requests, callOf).values()];
    const held = holdWrites(this.#redis);
    const calls = groups.map((group) => this.#decisions.decide(group, isRead));
    held.release();
    const settled = await Promise.allSettled(calls);
    const failures = settled.flatMap((result) => (result.status === 'rejected' ? [result.reason as Error] : []));
    const undone = failures.find((failure) => failure instanceof NothingDone);
    if (undone === undefined && failures[0] !== undefined && failures.length === groups.length) throw failures[0];
    const decisions = new Map(
      groups.flatMap((group, i) => group.map((request, j) => [request, decidedOf(settled[i]!, j)])),
    );
    if (undone !== undefined) {
      const answered = requests.map((request) => decisions.get(request));
      throw new NothingDone(undone.message, undone.cause, answered);
    }
    return requests.map((request) => decisions.get(request) ?? null);
  }

  async present(consumerId: string, allowance: Allowance): Promise<Decision | null> {
    const [decision] = await this.decide([{ consumerId, allowance, cost: 1, n: 0 }], true);
    return decision ?? null;
  }

  settle(settlements: readonly Settlement[]): Promise<readonly SettlementOutcome[]> {
    return this.#settlements.settle(settlements);
  }

  async reportInFlight(counts: readonly { readonly accountId: string; readonly count: number }[]): Promise<void> {
    const held = holdWrites(this.#redis);
    const calls = counts.map(({ accountId, count }) => {
      const name = keyspace.account(accountId);
      return this.#circuit.run(() => IN_FLIGHT.run(this.#redis, [name], this.#holder, count), name);
    });
    held.release();
    await Promise.all(calls);
  }

  placeOf(consumerId: string): string {
    return placeOfAccount(consumerId);
  }

  async lift(consumerId: string): Promise<Durability | null> {
    const names = [keyspace.account(consumerId), keyspace.changesTo(consumerId)] as const;
    const change = randomUUID();
    const endedAt = await this.#circuit.run(() => LIFT.run(this.#redis, names, change, ''), names[0]);
    if (endedAt === null) return null;
    const announce = () => this.#publish({ kind: 'account', keyId: consumerId });
    await announce();
    return this.#writes.secure(liftAgain(consumerId, change, endedAt, announce));
  }

  async carryBan(fromAccountId: string, toAccountId: string): Promise<void> {
    const [from, to] = [keyspace.account(fromAccountId), keyspace.account(toAccountId)];
    const [[read], keptMs] = await this.#circuit.run(
      () => Promise.all([READ_BANS.run(this.#redis, [from]), this.#redis.pttl(from)]),
      from,
    );
    const ban = banIn(read!);
    if (ban === null) return;
    const carried: CarriedBan = { ban, keptMs };
    const carry = () => CARRY_BAN.run(this.#redis, [to], JSON.stringify(carried));
    if ((await this.#circuit.run(carry, to)) === 1) await this.#publish({ kind: 'account', keyId: toAccountId });
  }

  topUp(consumerId: string, of: WindowLimit, amount: number, id: string, terms: TopUpTerms = {}) {
    return this.#usageChanges.topUp(consumerId, of, amount, id, terms);
  }

  undoTopUp(consumerId: string, window: WindowName, topUpId: string | null, id: string) {
    return this.#usageChanges.undoTopUp(consumerId, window, topUpId, id);
  }

  topUpNotes(consumerId: string): Promise<readonly TopUpNote[]> {
    return this.#usageChanges.topUpNotes(consumerId);
  }

  resetUsage(consumerId: string, windows: readonly WindowName[], id: string): Promise<MadeOnce<ResetUsage>> {
    return this.#usageChanges.reset(consumerId, windows, id);
  }

  async forget(...accountIds: readonly string[]): Promise<void> {
    await Promise.all(
      accountIds.map((id) => {
        const names = [keyspace.account(id), keyspace.history(id)] as const;
        return this.#circuit.run(() => this.#redis.del(...names), names[0]);
      }),
    );
  }

  /** Scans all accounts, a thousand at a time. An index of bans could disagree with the accounts. */
  async bans(): Promise<readonly FoundBan[]> {
    const found = new Map<string, FoundBan>();
    await Promise.all(connectionsOf(this.#redis).map((server) => this.#bansOn(server, found)));
    return [...found.values()];
  }

  async #bansOn(server: Redis, found: Map<string, FoundBan>): Promise<void> {
    const scan = (cursor: string) => server.scan(cursor, 'MATCH', `${ACCOUNT_PREFIX}{*`, 'COUNT', 1000);
    for await (const names of pagesOf((cursor) => this.#circuit.read(() => scan(cursor), server))) {
      if (names.length === 0) continue;
      const nowMs = await this.#circuit.read(() => timeOf(server), server);
      for (const [i, read] of (await this.#readBans(names)).entries()) {
        const ban = banIn(read);
        const consumerId = accountIdIn(names[i]!, ACCOUNT_PREFIX);
        if (ban !== null && nowMs < ban.untilMs) found.set(consumerId, { consumerId, ban });
        else if (read[0] === 0) found.set(consumerId, { consumerId, ban: null });
      }
    }
  }

  /** Asks the cluster and not the scanned node: a slot may have moved since the scan. */
  async #readBans(names: readonly string[]): Promise<readonly ReadBan[]> {
    const atOnce = this.#redis instanceof ClusterClient ? 1 : READ_AT_ONCE;
    const held = holdWrites(this.#redis);
    const calls = [];
    for (let i = 0; i < names.length; i += atOnce) {
      const some = names.slice(i, i + atOnce);
      calls.push(this.#circuit.read(() => READ_BANS.run(this.#redis, some), some[0]!));
    }
    held.release();
    return (await Promise.all(calls)).flat();
  }
}

/** Accounts in one call of READ_BANS, which takes Redis about a millisecond. */
const READ_AT_ONCE = 100;

function banIn(read: ReadBan): Ban | null {
  if (read.length === 1) return null;
  const [, number, untilMs, window, budget] = read;
  const ban = { number, untilMs, window };
  return budget === '' ? ban : { ...ban, budget };
}

/** Lifts a ban again that a failover has restored. A ban that the store has imposed since has another end and stays. */
function liftAgain(consumerId: string, change: string, endedAt: string, announce: () => Promise<void>): LastingWrite {
  const names = [keyspace.account(consumerId), keyspace.changesTo(consumerId)] as const;
  let isAnnounced = true;
  return {
    about: consumerId,
    kind: 'change',
    remake: async (linkOf: (name: string) => Promise<ReplicaLink>) => {
      const link = await linkOf(names[0]);
      const outcome = (await link.eval(LIFT.lua, 2, ...names, change, endedAt)) === null ? 'there' : 'remade';
      if (outcome === 'remade') isAnnounced = false;
      if (!isAnnounced) await announce();
      isAnnounced = true;
      return outcome;
    },
  };
}

/** Names what a cluster decides about in one call: a consumer, or a customer with a limit on requests in flight. */
function callOf({ consumerId, allowance: { boundsInFlight } }: DecisionRequest): string {
  return boundsInFlight ? (partsOfAccount(consumerId).customerId ?? consumerId) : consumerId;
}

/** What one call to Redis decided about each of its requests. */
type CallResult = PromiseSettledResult<readonly (Decision | null)[]>;

/** Undefined if the store has certainly done nothing, null if that is not known. */
function decidedOf(result: CallResult, i: number): Decision | null | undefined {
  if (result.status === 'fulfilled') return result.value[i] ?? null;
  return result.reason instanceof NothingDone ? undefined : null;
}
