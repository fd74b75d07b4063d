import { packed } from '../../kit/message-pack.ts';
import { type Executed, RedisModel } from './redis-model.ts';
import type { Addition, DecisionPart, SettlementCall } from './script-arguments.ts';

/** What a server replies to a command, and what it has done. */
export interface Reply {
  /** An Error is an error reply. */
  readonly value: unknown;
  readonly executed: readonly Executed[];
}

/** How a server treats commands. `silent`: it reads none until it is well again. Else the error with which it refuses writes. */
export type ServerMode = 'well' | 'silent' | 'READONLY' | 'OOM' | 'LOADING';

/** The server in front of the model: its clock, its moods, its script cache. */
export class RedisServer {
  readonly model: RedisModel;
  mode: ServerMode = 'well';
  /** The store's clock minus the monotonic clock of the simulation, milliseconds. */
  clockOffsetMs: number;
  #knowsScript = false;
  #unread: (() => void)[] = [];
  readonly #listeners: ((accountId: string) => void)[] = [];

  constructor(clockOffsetMs: number) {
    this.clockOffsetMs = clockOffsetMs;
    this.model = new RedisModel(() => this.nowMs());
  }

  /** @param listener is called with each account of which leases are called back */
  onRecall(listener: (accountId: string) => void): void {
    this.#listeners.push(listener);
  }

  /** Whole Unix milliseconds. */
  nowMs(): number {
    return Math.floor(performance.now() + this.clockOffsetMs);
  }

  /** Runs a command that has arrived, now or when the server reads again. */
  admit(run: () => void): void {
    if (this.mode === 'silent') this.#unread.push(run);
    else run();
  }

  become(mode: ServerMode): void {
    this.mode = mode;
    if (mode === 'silent') return;
    const unread = this.#unread;
    this.#unread = [];
    for (const run of unread) run();
  }

  /** The server starts again, or another one takes its place. It has lost the last writes and its script cache. */
  replace(lostWrites: number): void {
    this.#unread = [];
    this.#knowsScript = false;
    this.mode = 'well';
    this.model.lose(lostWrites);
  }

  decide(isWhole: boolean, parts: readonly DecisionPart[]): Reply {
    if (!isWhole && !this.#knowsScript) return refusal('NOSCRIPT No matching script.');
    return this.#write(() => {
      this.#knowsScript = true;
      const { reply, executed } = this.model.decide(parts);
      for (const done of executed) {
        for (const accountId of done.kind === 'decision' ? done.recalled : [])
          for (const listener of this.#listeners) listener(accountId);
      }
      return { value: packed(reply), executed };
    });
  }

  reconcile(accountId: string, addition: Addition): Reply {
    return this.#write(() => {
      const { reply, executed } = this.model.reconcile(accountId, addition);
      return { value: reply, executed };
    });
  }

  settle(settlement: SettlementCall): Reply {
    return this.#write(() => {
      const executed = this.model.settle(settlement);
      return { value: executed.length === 0 ? 'CLOCK' : 0, executed };
    });
  }

  reportInFlight(accountId: string, holder: string, count: number): Reply {
    return this.#write(() => ({ value: 0, executed: this.model.reportInFlight(accountId, holder, count) }));
  }

  write(): Reply {
    return this.#write(() => ({ value: 'OK', executed: [] }));
  }

  ping(): Reply {
    return this.mode === 'LOADING'
      ? refusal('LOADING Redis is loading the dataset in memory')
      : { value: 'PONG', executed: [] };
  }

  #write(run: () => Reply): Reply {
    return this.mode === 'well' || this.mode === 'silent' ? run() : refusal(`${this.mode} the server refuses writes.`);
  }
}

function refusal(message: string): Reply {
  const error = new Error(message);
  error.name = 'ReplyError';
  return { value: error, executed: [] };
}
