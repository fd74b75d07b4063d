import { ReplyDeadlines } from '../io/deadlines.ts';
import { inPolicy } from './context.ts';
import type { Policy, PolicyCaller, PolicyRequest } from './policy.ts';
import { ALLOWED, type Permission, readResult } from './result.ts';

/** A policy, and its name in gateway.yaml. */
interface NamedPolicy {
  readonly name: string;
  readonly policy: Policy;
}

/** What the policies of a route make of a request. */
export type PolicyDecision =
  | Permission
  /** The policy of this name refuses it. */
  | {
      readonly kind: 'refused';
      readonly policy: string;
      readonly status: number;
      readonly code: string;
      readonly message: string;
    }
  /** The policy of this name has failed, so nothing is known of the request. `reason` is for operators. */
  | { readonly kind: 'failed'; readonly policy: string; readonly reason: string };

/** Observes each run of a policy. */
export interface PolicyObserver {
  /** @param ms from the call to the result, or until the policy was no longer waited for */
  ran(policy: string, outcome: PolicyDecision['kind'], ms: number): void;
  /** @param error what the policy has thrown; undefined if it has thrown nothing */
  failed(policy: string, reason: string, error: unknown): void;
  /** Before its result or its promise was there, the policy kept the thread for longer than it may wait. */
  wasSlow(policy: string, ms: number): void;
}

/** How long a policy may take from its call to the result of its promise, and the clock for that. */
interface PolicyTime {
  readonly timeoutMs: number;
  readonly monotonicMs: () => number;
}

/** How a call of a policy has ended. */
type End = { readonly value: unknown } | { readonly error: unknown } | 'late';

/**
 * The policies of one route, which run one after the other in the order of gateway.yaml. The first that refuses, or fails, ends
 * the run. Of several costs the last one counts, and of several scopes, and of several fields or metadata of one name.
 *
 * Attack: a promise that never settles would keep its requests, and their connections, for ever. So each has a deadline.
 *
 * Fault: a quota of the processor or a garbage collection stops the process for 100 ms, and a policy of two lines fails because of
 * the clock. So a result that is there counts, whenever it came. A policy that keeps the thread is not interrupted, because
 * nothing in this thread could do so: it is reported, and the watchdog ends a process that does not turn.
 */
export class PolicyChain {
  readonly #policies: readonly NamedPolicy[];
  readonly #observer: PolicyObserver;
  readonly #time: PolicyTime;
  readonly #deadlines = new ReplyDeadlines();

  constructor(policies: readonly NamedPolicy[], observer: PolicyObserver, time: PolicyTime) {
    this.#policies = policies;
    this.#observer = observer;
    this.#time = time;
  }

  /** @returns the decision, at once unless a policy returns a promise. Never throws or rejects because of a policy. */
  run(request: PolicyRequest, caller: PolicyCaller): PolicyDecision | Promise<PolicyDecision> {
    return this.#runFrom(0, ALLOWED, request, caller);
  }

  /** @param before what the policies before `index` permit */
  #runFrom(
    index: number,
    before: Permission,
    request: PolicyRequest,
    caller: PolicyCaller,
  ): PolicyDecision | Promise<PolicyDecision> {
    let allowed = before;
    for (let i = index; i < this.#policies.length; i++) {
      const decision = this.#runOne(this.#policies[i]!, request, caller);
      if (decision instanceof Promise) {
        return decision.then((later) =>
          later.kind === 'allowed' ? this.#runFrom(i + 1, joined(allowed, later), request, caller) : later,
        );
      }
      if (decision.kind !== 'allowed') return decision;
      allowed = joined(allowed, decision);
    }
    return allowed;
  }

  #runOne(
    { name, policy }: NamedPolicy,
    request: PolicyRequest,
    caller: PolicyCaller,
  ): PolicyDecision | Promise<PolicyDecision> {
    const { timeoutMs, monotonicMs } = this.#time;
    const calledAtMs = monotonicMs();
    let end: Exclude<End, 'late'>;
    let promise: Promise<unknown> | null = null;
    try {
      const value = inPolicy(name, policy, request, caller);
      if (isThenable(value)) promise = inPolicy(name, adopted, value);
      end = { value };
    } catch (error) {
      end = { error };
    }
    const ms = monotonicMs() - calledAtMs;
    if (ms > timeoutMs) this.#observer.wasSlow(name, ms);
    if (promise === null) return this.#decisionOf(name, ms, end);
    const settled = promise.then<End, End>(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    // What the policy does when it is late has no effect.
    return this.#deadlines
      .within(settled, timeoutMs - ms, () => 'late' as const)
      .then((later) => this.#decisionOf(name, monotonicMs() - calledAtMs, later));
  }

  #decisionOf(policy: string, ms: number, end: End): PolicyDecision {
    const decision = policyDecisionOf(policy, end, this.#time.timeoutMs);
    this.#observer.ran(policy, decision.kind, ms);
    if (decision.kind === 'failed') {
      this.#observer.failed(policy, decision.reason, end !== 'late' && 'error' in end ? end.error : undefined);
    }
    return decision;
  }
}

function policyDecisionOf(policy: string, end: End, timeoutMs: number): PolicyDecision {
  if (end === 'late') return { kind: 'failed', policy, reason: `it took longer than ${timeoutMs} ms` };
  if ('error' in end) return { kind: 'failed', policy, reason: `it threw ${thrownText(end.error)}` };
  try {
    const read = readResult(end.value);
    if ('fault' in read) return { kind: 'failed', policy, reason: read.fault };
    return read.kind === 'refused' ? { ...read, policy } : read;
  } catch (error) {
    // A member of the result is a getter that throws.
    return { kind: 'failed', policy, reason: `its result threw ${thrownText(error)}` };
  }
}

/**
 * A promise of the gateway's own with the result of another. Attack: `Promise.resolve` would return the promise of the policy
 * itself, whose `constructor` or `then` may throw when it is used; here that is its rejection.
 */
function adopted(value: PromiseLike<unknown>): Promise<unknown> {
  return new Promise((resolve) => resolve(value));
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

function joined(one: Permission, other: Permission): Permission {
  if (one === ALLOWED) return other;
  const cost = other.cost ?? one.cost;
  const headers =
    one.headers === null || other.headers === null
      ? (other.headers ?? one.headers)
      : joinedFields(one.headers, other.headers);
  const scopes = other.scopes ?? one.scopes;
  const metadata = one.metadata === null ? other.metadata : { ...one.metadata, ...other.metadata };
  const groups = one.groups === null ? other.groups : [...one.groups, ...(other.groups ?? [])];
  return { kind: 'allowed', cost, headers, scopes, metadata, groups };
}

function joinedFields(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>) {
  const replaced = new Set(Object.keys(other).map((name) => name.toLowerCase()));
  const kept = Object.entries(one).filter(([name]) => !replaced.has(name.toLowerCase()));
  return { ...Object.fromEntries(kept), ...other };
}

const MAX_THROWN = 200;

/**
 * An exception on one line. Attack: a thrown value whose conversion to text throws itself, or is so long that the records of
 * refusals would fill the memory: V8 keeps the whole text of which a string is a part, so this is a copy.
 */
function thrownText(error: unknown): string {
  try {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return Buffer.from(text.slice(0, MAX_THROWN)).toString().split('\n', 1)[0]!;
  } catch {
    return 'a value without a text';
  }
}
