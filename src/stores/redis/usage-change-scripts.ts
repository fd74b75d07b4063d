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
import type { UndoneTopUp } from '../../engine/operator-changes.ts';
import type { TopUp, TopUpNote } from '../../model/account.ts';
import { MAX_LIMIT } from '../../model/plan.ts';
import { WINDOWS, type WindowName } from '../../model/values.ts';
import { RECALLS_LUA, storedLimits } from './decision-call.ts';
import type { ChangingConnection } from './durable-writes.ts';
import { CHANGES_LUA } from './engine-lua.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { ReplicaLink } from './replication.ts';
import type { StoredTopUp } from './shell/top-up-script.ts';
import type { StoredUndo } from './shell/undo-top-up-script.ts';

/** The scripts of the changes. Exported for the test that compares them with src/engine/operator-changes.ts. */
export const USAGE_CHANGES: UsageChangeScripts = {
  topUp: new LuaScript(`${CHANGES_LUA}return top_up_script()\n`),
  undoTopUp: new LuaScript(`${CHANGES_LUA}return undo_top_up_script()\n`),
  reset: new LuaScript(`${RECALLS_LUA}${CHANGES_LUA}return reset_script()\n`),
};

export interface UsageChangeScripts {
  readonly topUp: LuaScript<Reply>;
  readonly undoTopUp: LuaScript<Reply>;
  readonly reset: LuaScript<Reply>;
}

/** A reset waits this long between two looks at what the store has lent, and this long in all. */
const LENT_AGAIN_MS = 5;
const LENT_FOR_MS = 2_000;
/** How often this class repeats a call with the periods that the store's clock asks for. */
const MAX_ATTEMPTS = 3;

interface UsageChangesOptions extends ChangingConnection {
  readonly scripts?: UsageChangeScripts;
}

/** A change for the script (shell/once.ts). */
interface Change {
  readonly consumerId: string;
  readonly id: string;
  readonly script: LuaScript<Reply>;
  readonly words: string;
  /** As JSON. */
  readonly needs: string;
}

/** How a script answers: a word, then numbers. */
type Reply = readonly [string, ...number[]];

/** Top-ups, their undoing, and resets in Redis: one script call each, which also records the id under which the change was made. */
export class UsageChanges {
  readonly #options: UsageChangesOptions;
  readonly #scripts: UsageChangeScripts;

  constructor(options: UsageChangesOptions) {
    this.#options = options;
    this.#scripts = options.scripts ?? USAGE_CHANGES;
  }

  async topUp(consumerId: string, of: WindowLimit, amount: number, id: string, terms: TopUpTerms) {
    const { limit } = of;
    const topUpId = topUpIdOf(id);
    const words = changeWords({ kind: 'top-up', of, amount, terms: { ...terms, id: topUpId } });
    const noted = { ...terms, id: topUpId, reason: encodeURIComponent(terms.reason ?? '') };
    let nowMs = Math.floor(performance.timeOrigin + performance.now());
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const [asked] = storedLimits([of], nowMs);
      const topUp: StoredTopUp = { limit: asked!, amount, mostLimit: MAX_LIMIT, terms: noted };
      const change = { consumerId, id, script: this.#scripts.topUp, words, needs: JSON.stringify(topUp) };
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
    const undo: StoredUndo = { window, id: topUpId ?? undefined };
    const change = { consumerId, id, script: this.#scripts.undoTopUp, words, needs: JSON.stringify(undo) };
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
    const change = { consumerId, id, script: this.#scripts.reset, words, needs: JSON.stringify(windows) };
    let reply = await this.#run(change);
    const sinceMs = performance.now();
    while (reply[0] === 'lent') {
      // Gateways return what they have borrowed when the store recalls it. A killed gateway delays this by the rest of its lease.
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
    return circuit.run(() => change.script.run(redis, names, ...argumentsOf(change, '')), names[0]);
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
        const [kind] = (await link.eval(change.script.lua, names.length, ...names, ...args)) as Reply;
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

function argumentsOf({ words, needs }: Change, endMs: number | ''): (string | number)[] {
  return [words, endMs, MADE_ONCE_MS, needs];
}

/** The top-ups in a text of the field `T`, as shell/top-up-fields.ts describes it. What does not look like one is left out. */
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
