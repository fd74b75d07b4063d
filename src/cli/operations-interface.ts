import { type PlansContext, type StoreContext, storeContext } from '../operations/catalogue/contexts.ts';
import { membersOf } from '../operations/catalogue/input.ts';
import type { InputOf, OutputOf } from '../operations/catalogue/operation.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import { PlanDrafts } from '../operations/plans/drafts.ts';
import { PlansFile } from '../operations/plans/plans-file.ts';
import { latestPlans } from '../operations/plans/versions.ts';
import type { OpenStore } from '../serve/open-store.ts';

/**
 * Where a command does its operations: it knows their inputs and outputs, and nothing of a store.
 *
 *     return withOperations(terminal, async (at) => {
 *       const { output } = await at.perform(showKey, { id });
 *       terminal.out(...);
 *       return 0;
 *     });
 *
 * A further need of a command, such as a name in place of an id or a fact for its question, is an operation as well: `meantId` and
 * `confirm` of `operationCommand` get the same interface.
 */
export interface OperationsAt {
  /** For messages, without any password: `the embedded store in /var/lib/tollgate`. */
  readonly name: string;
  /**
   * Does an operation, and records it if it changes something.
   * @param input the members of its path and of its input as one object, before defaults
   * @throws Failure, Refused as the operation
   */
  perform<O extends AnyOperation>(operation: O, input: InputOf<O>, asked?: AskedAt): Promise<Performed<O>>;
}

/** How a command asks for an operation, beside its input. */
export interface AskedAt {
  /** The name under which the change is made once. */
  readonly once?: string | null;
  /** Refuses any version of the file but this one, which the person has seen. */
  readonly version?: string;
}

/** An operation that was done. */
export interface Performed<O> {
  readonly output: OutputOf<O>;
  /** Absent if the operation changes nothing. */
  readonly change?: {
    /** `unchanged`: it already was as requested. */
    readonly outcome: 'done' | 'unchanged';
    /** `unknown`: a failover of the store may undo it. */
    readonly durability: 'durable' | 'unknown';
  };
  /** Under this name it was done before, and nothing was changed now. */
  readonly isRepeated: boolean;
}

/** The most that a page of a list may have. */
const MOST_OF_PAGE = 1_000;

interface Pages {
  /** The member of the output that has the entries. */
  readonly entries?: string;
  /** How many entries a page has, if each takes long. */
  readonly page?: number | undefined;
  /** How many entries are wanted; all unless given. */
  readonly most?: number | undefined;
}

/** The pages of a list; one, if its operation has no pages. */
export async function* pagesOf<O extends AnyOperation>(
  at: OperationsAt,
  operation: O,
  input: Partial<InputOf<O>>,
  { entries = '', page = MOST_OF_PAGE, most = Number.POSITIVE_INFINITY }: Pages = {},
): AsyncGenerator<OutputOf<O>> {
  const isPaged = 'cursor' in membersOf(operation.input);
  let left = most;
  for (let cursor: unknown; cursor !== null && left > 0; ) {
    const asked = isPaged ? { ...input, limit: Math.min(left, page), cursor } : input;
    const { output } = await at.perform(operation, asked as InputOf<O>);
    yield output;
    const found = output as Readonly<Record<string, unknown>>;
    left -= ((found[entries] ?? []) as readonly unknown[]).length;
    cursor = found.cursor ?? null;
  }
}

/** What a person is to do with a secret in place of giving it as an argument. */
export const SECRET_ADVICE =
  'Do not give secrets as arguments, which other users of this machine see: `tollgate keys find` reads one from standard input.';

/** What the operations of commands on the store work on. */
export function contextOn(store: OpenStore): StoreContext {
  const { plans, plansVersion, settings } = store;
  const pepperHistory = async () => store.pepperHistory;
  const inForce = { plans: () => plans, plansVersion: () => plansVersion, settings: () => settings };
  return storeContext({ ...store, ...inForce, pepperHistory, secretAdvice: SECRET_ADVICE, nowMs: () => Date.now() });
}

/** A command has the time that it takes to count all keys: as long as a timer can run. */
const UNHURRIED = { checkMs: 2 ** 31 - 1, countMs: Number.POSITIVE_INFINITY };

/** What those on plans.yaml work on. */
export function plansContextOn(store: OpenStore): PlansContext {
  const { plans, settings, plansHistory, audit } = store;
  const { routes, jwt } = settings;
  const file = new PlansFile(store.plansFile, Date.now);
  const drafts = new PlanDrafts({
    file,
    inForce: () => ({ plans, routes, hasTokens: jwt !== null }),
    recent: null,
    bounds: UNHURRIED,
    nowMs: Date.now,
    monotonicMs: () => performance.now(),
  });
  return {
    drafts,
    file,
    replaced: () => latestPlans(plansHistory),
    inForce: null,
    mayWrite: settings.admin.editPlans,
    users: store,
    audit,
    plansHistory,
  };
}
