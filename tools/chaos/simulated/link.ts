import type { RecallFeed } from '../../../src/admit/leases.ts';
import type { LeaseTerms } from '../../../src/engine/types.ts';
import type { WindowName } from '../../../src/model/values.ts';
import { IN_FLIGHT } from '../../../src/stores/redis/ledger.ts';
import { SETTLE } from '../../../src/stores/redis/settlement-calls.ts';
import { RECONCILE, TRIAL } from '../../../src/stores/redis/usage-reconciler.ts';
import type { RedisServer, Reply } from './redis-server.ts';
import { accountIn, additionIn, decisionParts, settlementIn } from './script-arguments.ts';

/** How a link treats what passes over it. */
export interface LinkMode {
  /** How long a command, and its reply, is on the way, milliseconds. */
  readonly thereMs: number;
  readonly backMs: number;
  /** What never arrives. */
  readonly loses: 'nothing' | 'commands' | 'replies';
  /** Each reply that tells of something done arrives a second time. */
  readonly doubles: boolean;
}

export const GOOD_LINK: LinkMode = { thereMs: 1, backMs: 1, loses: 'nothing', doubles: false };

/** A command that a gateway has sent. */
export interface WireCall {
  readonly number: number;
  readonly gateway: string;
  /** What it counts, by account; empty for a call that cannot count. */
  readonly counts: readonly Counted[];
  /** The consumers of a decision, in order. */
  readonly consumerIds: readonly string[];
  /** The accounts that it is about. */
  readonly accountIds: readonly string[];
  readonly isDecision: boolean;
  /** What tells a decision from others of the same gateway that are on the way, as text. */
  readonly about: string;
  /** It only returns what is borrowed. */
  readonly isReturn: boolean;
  /** `undone`: answered, and certainly nothing was counted. `unknown`: the connection ended without a reply. */
  state: 'sent' | 'answered' | 'undone' | 'unknown';
  /** The gateway no longer waits for the reply. */
  isGivenUp?: true;
  /** What the server has done, as soon as it has. */
  reply?: Reply;
  /** When the server did it, by the number of the history's disturbances so far. */
  executedAt?: number;
}

export interface Counted {
  readonly accountId: string;
  /** The consumer of a decision; null for usage. */
  readonly consumerId: string | null;
  /** What it adds to windows and to the history; a decision names none. */
  readonly adds: readonly { readonly to: WindowName | 'history'; readonly cost: number }[];
}

/** Is called with what happens on a link. */
export interface WireListener {
  onSent(call: WireCall): void;
  onExecuted(call: WireCall): void;
  /** The call has its final state; called before the gateway learns of it. */
  onEnded(call: WireCall): void;
}

const NO_DECISION = {
  counts: [],
  consumerIds: [],
  accountIds: [],
  isDecision: false,
  about: '',
  isReturn: false,
} as const;

/** What tells a part of a decision from others: no two gateways and calls use the same lease. */
export function aboutOf(consumerId: string, n: number, { borrows, returned }: LeaseTerms = {}): string {
  return `${consumerId} ${n} ${borrows?.id ?? 0} ${returned?.id ?? 0}`;
}

/** What ioredis's `Command` has and the link needs. */
interface Command {
  readonly name: string;
  readonly args: readonly unknown[];
  resolve(reply: unknown): void;
  reject(error: Error): void;
}

interface OpenCall {
  readonly call: WireCall;
  readonly execute: () => Reply;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

/**
 * One gateway's connection to the model of Redis, with the methods of an ioredis client that the stores use. Commands arrive
 * in order, and so do replies.
 */
export class Link {
  mode = GOOD_LINK;
  readonly #gateway: string;
  readonly #server: RedisServer;
  readonly #listener: WireListener;
  readonly #open = new Set<OpenCall>();
  readonly #recallListeners: ((accountId: string) => void)[] = [];
  /** On a connection of its own, as in production: messages keep no order with replies, and one that is lost stays lost. */
  readonly recalls: RecallFeed = { isHeard: true, subscribe: (listener) => void this.#recallListeners.push(listener) };
  #isUp = true;
  #isAbandoned = false;
  #calls = 0;
  /** The number of the command that has arrived last. One that was sent before it and was lost never arrives. */
  #lastArrived = -1;
  #recalls = 0;
  #lastArrivalMs = 0;
  #lastReplyMs = 0;

  constructor(gateway: string, server: RedisServer, listener: WireListener) {
    this.#gateway = gateway;
    this.#server = server;
    this.#listener = listener;
    server.onRecall((accountId) => this.#hear(accountId));
  }

  #hear(accountId: string): void {
    const { loses, backMs, doubles } = this.mode;
    if (!this.#isUp || loses !== 'nothing') return;
    const tell = () => {
      if (this.#isUp) for (const listener of this.#recallListeners) listener(accountId);
    };
    // Every other message overtakes replies that were sent at the same time.
    this.#recalls++;
    setTimeout(tell, Math.max(backMs - (this.#recalls % 2), 0));
    if (doubles) setTimeout(tell, backMs + 40);
  }

  connect(): void {
    this.#isUp = !this.#isAbandoned;
  }

  /** Ends the connection. @param arrives whether commands that are on the way still reach the server */
  cut(arrives: boolean): void {
    this.#isUp = false;
    for (const open of [...this.#open]) {
      if (arrives && open.call.number > this.#lastArrived) this.#execute(open);
      this.#end(open, 'unknown');
      open.reject(new Error('Connection is closed.'));
    }
  }

  /** The gateway is gone: nobody listens to replies any more. Commands on the way still arrive. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#open.clear();
    this.#isUp = false;
  }

  // The methods of ioredis.

  sendCommand({ name, args, resolve, reject }: Command): void {
    const [, size, ...rest] = args as string[];
    const parts = decisionParts(rest.slice(0, Number(size)), rest.slice(Number(size)));
    const consumerIds = parts.map(({ accountIds }) => accountIds[0]!);
    const accountIds = parts.flatMap((part) => part.accountIds);
    const about = parts.map(({ n, leaseTerms }, i) => aboutOf(consumerIds[i]!, n, leaseTerms)).join();
    const isReturn = parts.every(({ n }) => n === 0);
    const counts = parts
      .filter(({ n }) => n > 0)
      .flatMap((part) =>
        part.accountIds.map((id, _, [consumerId]) => ({ accountId: id, consumerId: consumerId!, adds: [] })),
      );
    this.#send({ counts, consumerIds, accountIds, isDecision: true, about, isReturn }, resolve, reject, () => {
      return this.#server.decide(name === 'eval', parts);
    });
  }

  [RECONCILE.command](_size: number, key: string, _history: string, usage: string): Promise<unknown> {
    const accountId = accountIn(key);
    const addition = additionIn(usage);
    const windows = addition.windows.map(({ window, spent }) => ({ to: window, cost: spent }));
    const hours = addition.hours.map(({ cost }) => ({ to: 'history' as const, cost }));
    const adds = [...windows, ...hours];
    const counts = adds.length === 0 ? [] : [{ accountId, consumerId: null, adds }];
    return this.#call(accountId, counts, () => this.#server.reconcile(accountId, addition));
  }

  /** It counts in no way that a later decision must wait for: each is sent once, and the store is right without it. */
  [SETTLE.command](size: number, ...args: (string | number)[]): Promise<unknown> {
    const settlement = settlementIn(args.slice(0, size).map(String), String(args[size]));
    const { accountId } = settlement;
    return this.#call(accountId, [], () => this.#server.settle(settlement));
  }

  [IN_FLIGHT.command](_size: number, key: string, holder: string, count: number): Promise<unknown> {
    const accountId = accountIn(key);
    return this.#call(accountId, [], () => this.#server.reportInFlight(accountId, holder, count));
  }

  [TRIAL.command](): Promise<unknown> {
    return this.#ask(() => this.#server.write());
  }

  ping(): Promise<unknown> {
    return this.#ask(() => this.#server.ping());
  }

  #call(accountId: string, counts: readonly Counted[], execute: () => Reply): Promise<unknown> {
    const call = { ...NO_DECISION, counts, accountIds: [accountId] };
    return new Promise((resolve, reject) => this.#send(call, resolve, reject, execute));
  }

  #ask(execute: () => Reply): Promise<unknown> {
    return new Promise((resolve, reject) => this.#send(NO_DECISION, resolve, reject, execute));
  }

  #send(
    what: Omit<WireCall, 'number' | 'gateway' | 'state'>,
    resolve: (reply: unknown) => void,
    reject: (error: Error) => void,
    execute: () => Reply,
  ): void {
    const call: WireCall = { ...what, number: this.#calls++, gateway: this.#gateway, state: 'sent' };
    if (!this.#isUp) {
      reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
      return;
    }
    const open: OpenCall = { call, execute, resolve, reject };
    this.#open.add(open);
    this.#listener.onSent(call);
    if (this.mode.loses === 'commands') return;
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, performance.now() + this.mode.thereMs);
    setTimeout(() => this.#server.admit(() => this.#arrive(open)), this.#lastArrivalMs - performance.now());
  }

  #arrive(open: OpenCall): void {
    if (open.call.state !== 'sent') return;
    this.#execute(open);
    const { mode } = this;
    if (mode.loses === 'replies') return;
    this.#lastReplyMs = Math.max(this.#lastReplyMs, performance.now() + mode.backMs);
    const afterMs = this.#lastReplyMs - performance.now();
    setTimeout(() => this.#answer(open), afterMs);
    if (mode.doubles) setTimeout(() => open.call.state === 'answered' && this.#settle(open), afterMs + 40);
  }

  #execute(open: OpenCall): void {
    this.#lastArrived = open.call.number;
    open.call.reply = open.execute();
    this.#listener.onExecuted(open.call);
  }

  #answer(open: OpenCall): void {
    if (!this.#open.has(open)) return;
    const { reply } = open.call;
    this.#end(open, open.call.counts.length > 0 && reply!.executed.length === 0 ? 'undone' : 'answered');
    this.#settle(open);
  }

  #settle({ call, resolve, reject }: OpenCall): void {
    if (call.state === 'unknown') return;
    const { value } = call.reply!;
    if (value instanceof Error) reject(value);
    else resolve(value);
  }

  #end(open: OpenCall, state: WireCall['state']): void {
    this.#open.delete(open);
    open.call.state = state;
    this.#listener.onEnded(open.call);
  }
}
