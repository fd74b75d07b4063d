import { hash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import {
  changeWords,
  noTopUp,
  type ResetUsage,
  refuseOtherEnd,
  refusePastEnd,
  refuseTooMuch,
  type TopUpTerms,
} from '../../admit/account-changes.ts';
import {
  type Durability,
  foreignAccount,
  MADE_ONCE_MS,
  type MadeOnce,
  NothingDone,
  topUpIdOf,
} from '../../admit/ledger.ts';
import type { WindowLimit } from '../../admit/windows.ts';
import { MAX_TOP_UP_NOTES, type UndoneTopUp } from '../../engine/changes.ts';
import type { TopUp, TopUpNote } from '../../model/account.ts';
import { MAX_LIMIT } from '../../model/plan.ts';
import { WINDOWS, type WindowName } from '../../model/values.ts';
import { RECALLS_LUA, WINDOWS_LUA } from './decision-call.ts';
import type { ChangingConnection } from './durable-writes.ts';
import { keyspace } from './keyspace.ts';
import { luaFile } from './lua-script.ts';
import type { ReplicaLink } from './replication.ts';

const ONCE_LUA = WINDOWS_LUA + RECALLS_LUA + luaFile('./once.lua');
const TOP_UPS_LUA = luaFile('./top-ups.lua');

/** The scripts of the changes. Exported for the test that compares them with src/engine/changes.ts. */
export const USAGE_CHANGES_LUA: UsageChangesLua = {
  topUp: ONCE_LUA + TOP_UPS_LUA + luaFile('./top-up.lua'),
  undoTopUp: ONCE_LUA + TOP_UPS_LUA + luaFile('./undo-top-up.lua'),
  reset: ONCE_LUA + luaFile('./reset-usage.lua'),
};

export interface UsageChangesLua {
  readonly topUp: string;
  readonly undoTopUp: string;
  readonly reset: string;
}

/** A reset waits this long between two looks at what is lent, and no longer than that in all. */
const LENT_AGAIN_MS = 5;
const LENT_FOR_MS = 2_000;
/** How often a call is repeated with the periods that the store's clock asks for. */
const MAX_ATTEMPTS = 3;

interface UsageChangesOptions extends ChangingConnection {
  readonly lua?: UsageChangesLua;
}

/** A change for the script: its first arguments are described in once.lua. */
interface Change {
  readonly consumerId: string;
  readonly id: string;
  readonly lua: string;
  readonly words: string;
  readonly args: readonly (string | number)[];
}

/** How a script answers: a word, then numbers. */
type Reply = readonly [string, ...number[]];

/** Top-ups, their undoing, and resets in Redis: one script call each, which also records the id under which the change was made. */
export class UsageChanges {
  readonly #options: UsageChangesOptions;
  readonly #lua: UsageChangesLua;

  constructor(options: UsageChangesOptions) {
    this.#options = options;
    this.#lua = options.lua ?? USAGE_CHANGES_LUA;
  }

  async topUp(consumerId: string, of: WindowLimit, amount: number, id: string, terms: TopUpTerms) {
    const { window, limit, slices = 0, calendar } = of;
    const { untilMs = 0, reason = '' } = terms;
    const topUpId = topUpIdOf(id);
    const words = changeWords({ kind: 'top-up', of, amount, terms: { ...terms, id: topUpId } });
    const noted = [topUpId, `=${encodeURIComponent(reason)}`];
    const fixed = [indexOf(window), limit, slices, amount, MAX_LIMIT, untilMs, MAX_TOP_UP_NOTES, ...noted];
    let nowMs = Math.floor(performance.timeOrigin + performance.now());
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const instants = calendar === undefined ? [] : calendar.instantsAround(nowMs);
      const change = { consumerId, id, lua: this.#lua.topUp, words, args: [...fixed, ...instants] };
      const reply = await this.#run(change);
      const [kind, first = 0, second = 0, third = 0] = reply;
      if (kind === 'too_much') refuseTooMuch(limit, first, amount);
      if (kind === 'past') refusePastEnd();
      if (kind === 'other_end') refuseOtherEnd({ amount: first, untilMs: second });
      if (kind !== 'outside') return this.#made<TopUp>(change, reply, { amount: second, untilMs: third });
      nowMs = first;
    }
    throw new NothingDone("The store's clock jumps: no period of a calendar window contains it.");
  }

  async undoTopUp(consumerId: string, window: WindowName, topUpId: string | null, id: string) {
    const words = changeWords({ kind: 'undo-top-up', window, id: topUpId });
    const change = { consumerId, id, lua: this.#lua.undoTopUp, words, args: [indexOf(window), topUpId ?? ''] };
    const reply = await this.#run(change);
    const [kind, untilMs = 0, amount = 0, left = 0] = reply;
    if (kind === 'none') throw noTopUp();
    return this.#made<UndoneTopUp>(change, reply, { amount, left, untilMs });
  }

  async topUpNotes(consumerId: string): Promise<readonly TopUpNote[]> {
    const { redis, circuit } = this.#options;
    const name = keyspace.account(consumerId);
    return topUpNotesIn((await circuit.read(() => redis.hget(name, 'T'), name)) ?? '');
  }

  async reset(consumerId: string, windows: readonly WindowName[], id: string): Promise<MadeOnce<ResetUsage>> {
    const words = changeWords({ kind: 'reset', windows });
    const change = { consumerId, id, lua: this.#lua.reset, words, args: windows.map(indexOf) };
    let reply = await this.#run(change);
    const sinceMs = performance.now();
    while (reply[0] === 'lent') {
      // Gateways return what they have borrowed when they are called back. A killed one delays this by the rest of its lease.
      if (performance.now() - sinceMs > LENT_FOR_MS) throw new NothingDone('Gateways still use units of this account.');
      await setTimeout(LENT_AGAIN_MS);
      reply = await this.#run(change);
    }
    const [, , strikes = 0, ...counts] = reply;
    const used = Object.fromEntries(windows.map((window, i) => [window, counts[i]]));
    return this.#made(change, reply, { used, strikes });
  }

  #run(change: Change): Promise<Reply> {
    const { redis, circuit } = this.#options;
    const names = namesOf(change);
    return circuit.run(
      () => redis.eval(change.lua, names.length, ...names, ...argumentsOf(change, '')) as Promise<Reply>,
      names[0],
    );
  }

  async #made<T>(change: Change, [kind, endMs = 0]: Reply, value: T): Promise<MadeOnce<T>> {
    if (kind === 'reused') return { kind };
    if (kind === 'foreign') throw foreignAccount(change.consumerId, placeOfAccount(change.consumerId));
    if (kind === 'repeated') return { kind, durability: await this.#secure(change, endMs) };
    await this.#announce(change);
    return { kind: 'made', value, durability: await this.#secure(change, endMs) };
  }

  /** @param endMs a repetition after a failover changes nothing that ends later */
  #secure(change: Change, endMs: number): Promise<Durability> {
    const names = namesOf(change);
    let isAnnounced = true;
    return this.#options.writes.secure({
      about: change.consumerId,
      kind: 'change',
      remake: async (linkOf: (name: string) => Promise<ReplicaLink>) => {
        const link = await linkOf(names[0]);
        const args = argumentsOf(change, endMs);
        const [kind] = (await link.eval(change.lua, names.length, ...names, ...args)) as Reply;
        if (kind === 'made') isAnnounced = false;
        if (!isAnnounced) await this.#announce(change);
        isAnnounced = true;
        if (kind === 'repeated') return 'there';
        return kind === 'made' ? 'remade' : 'superseded';
      },
    });
  }

  #announce({ consumerId }: Change): Promise<void> {
    return this.#options.publish({ kind: 'account', keyId: consumerId });
  }
}

export function placeOfAccount(consumerId: string): string {
  return `${keyspace.account(consumerId)} in Redis`;
}

function namesOf({ consumerId, id }: Change) {
  return [keyspace.account(consumerId), keyspace.madeOnce(consumerId, hash('sha256', id, 'base64url'))] as const;
}

function argumentsOf({ words, args }: Change, endMs: number | ''): (string | number)[] {
  return [words, endMs, MADE_ONCE_MS, ...args];
}

function indexOf(window: WindowName): number {
  return WINDOWS.indexOf(window) + 1;
}

/** The top-ups in a text of the field `T`, as top-ups.lua describes it. What does not look like one is left out. */
function topUpNotesIn(text: string): TopUpNote[] {
  const words = text.split(' ');
  const notes: TopUpNote[] = [];
  for (let i = 0; i + 7 <= words.length; ) {
    const note = topUpNoteIn(words.slice(i, i + 7));
    if (note !== null) notes.push(note);
    i += note === null ? 1 : 7;
  }
  return notes;
}

function topUpNoteIn(words: readonly string[]): TopUpNote | null {
  if (!/^\S+ [1-6] \d+ \d+ [01] \d+ =\S*$/.test(words.join(' '))) return null;
  const [id, index, amount, ends, own, at, reason] = words as [string, string, string, string, string, string, string];
  return {
    id,
    window: WINDOWS[Number(index) - 1]!,
    amount: Number(amount),
    untilMs: Number(ends),
    hasOwnEnd: own === '1',
    atMs: Number(at),
    reason: decodedReason(reason.slice(1)),
  };
}

function decodedReason(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Another program has written it.
    return text;
  }
}
