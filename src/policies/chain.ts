import type { Policy, PolicyCaller, PolicyRequest } from './policy.ts';
import { ALLOWED, type Allowed, readResult } from './result.ts';

/** How long a policy may take from its call to its result. */
const MAX_POLICY_MS = 50;

/** A policy, and its name in gateway.yaml. */
interface NamedPolicy {
  readonly name: string;
  readonly policy: Policy;
}

/** What the policies of a route make of a request. */
export type Ruling =
  | Allowed
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

/** Is told of each run of a policy. */
export interface PolicyObserver {
  /** @param ms from the call to the result, or until the policy was no longer waited for */
  ran(policy: string, outcome: Ruling['kind'], ms: number): void;
  /** @param error what the policy has thrown; undefined if it has thrown nothing */
  failed(policy: string, reason: string, error: unknown): void;
}

/** How a call of a policy has ended. */
type End = { readonly value: unknown } | { readonly error: unknown } | 'late';

/**
 * The policies of one route, which run one after the other in the order of gateway.yaml. The first that refuses, or fails, ends
 * the run. Of several costs the last one counts, and of several scopes, and of several fields or metadata of one name.
 *
 * Attack: a policy that never answers would keep its requests, and their connections, for ever. So each has 50 ms, by the
 * clock. A policy that keeps the thread is not interrupted, because nothing in this thread could do so; its result
 * is refused afterwards, and the watchdog ends a process that does not turn.
 */
export class PolicyChain {
  readonly #policies: readonly NamedPolicy[];
  readonly #observer: PolicyObserver;
  readonly #monotonicMs: () => number;

  constructor(policies: readonly NamedPolicy[], observer: PolicyObserver, monotonicMs: () => number) {
    this.#policies = policies;
    this.#observer = observer;
    this.#monotonicMs = monotonicMs;
  }

  /** @returns the ruling, at once unless a policy returns a promise. Never throws or rejects because of a policy. */
  run(request: PolicyRequest, caller: PolicyCaller): Ruling | Promise<Ruling> {
    return this.#runFrom(0, ALLOWED, request, caller);
  }

  /** @param before what the policies before `index` allow */
  #runFrom(index: number, before: Allowed, request: PolicyRequest, caller: PolicyCaller): Ruling | Promise<Ruling> {
    let allowed = before;
    for (let i = index; i < this.#policies.length; i++) {
      const ruling = this.#runOne(this.#policies[i]!, request, caller);
      if (ruling instanceof Promise) {
        return ruling.then((later) =>
          later.kind === 'allowed' ? this.#runFrom(i + 1, joined(allowed, later), request, caller) : later,
        );
      }
      if (ruling.kind !== 'allowed') return ruling;
      allowed = joined(allowed, ruling);
    }
    return allowed;
  }

  #runOne({ name, policy }: NamedPolicy, request: PolicyRequest, caller: PolicyCaller): Ruling | Promise<Ruling> {
    const calledAtMs = this.#monotonicMs();
    let value: unknown;
    try {
      value = policy(request, caller);
      if (!isThenable(value)) return this.#rulingOf(name, calledAtMs, { value });
    } catch (error) {
      return this.#rulingOf(name, calledAtMs, { error });
    }
    const leftMs = Math.max(0, calledAtMs + MAX_POLICY_MS - this.#monotonicMs());
    return endOf(value, leftMs).then((end) => this.#rulingOf(name, calledAtMs, end));
  }

  #rulingOf(policy: string, calledAtMs: number, end: End): Ruling {
    const ms = this.#monotonicMs() - calledAtMs;
    const ruling = rulingOf(policy, ms > MAX_POLICY_MS ? 'late' : end);
    this.#observer.ran(policy, ruling.kind, ms);
    if (ruling.kind === 'failed') {
      this.#observer.failed(policy, ruling.reason, end !== 'late' && 'error' in end ? end.error : undefined);
    }
    return ruling;
  }
}

function rulingOf(policy: string, end: End): Ruling {
  if (end === 'late') return { kind: 'failed', policy, reason: `it took longer than ${MAX_POLICY_MS} ms` };
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

/** Waits for the result, or until it is late. What the policy does afterwards has no effect. Never rejects. */
function endOf(value: PromiseLike<unknown>, leftMs: number): Promise<End> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve('late'), leftMs);
    const ended = (end: End) => {
      clearTimeout(timer);
      resolve(end);
    };
    Promise.resolve(value).then(
      (result) => ended({ value: result }),
      (error: unknown) => ended({ error }),
    );
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

function joined(one: Allowed, other: Allowed): Allowed {
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

/** An exception on one line. Attack: a thrown value whose conversion to text throws itself. */
function thrownText(error: unknown): string {
  try {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return text.split('\n', 1)[0]!.slice(0, MAX_THROWN);
  } catch {
    return 'a value without a text';
  }
}
