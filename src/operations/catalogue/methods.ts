import type { Recording } from '../recorded.ts';
import { OPERATIONS } from './all.ts';
import type { StoreContext } from './contexts.ts';
import { type InputOf, type OutputOf, readInput } from './operation.ts';
import { type AnyOperation, PLAINLY, perform } from './perform.ts';

type StoreOperation = Extract<(typeof OPERATIONS)[number], { readonly on: 'store' }>;

/** How a program asks for an operation, beside its input. */
interface MethodOptions {
  /** Makes a creation, a top-up or a reset once: the same call with the same name changes nothing for 24 h. */
  readonly once?: string;
}

/** Every operation on the store as a method of the same name: it takes the members of the path and of the input as one object. */
export type OperationMethods = {
  readonly [O in StoreOperation as O['name']]: (
    input: InputOf<O>,
    options?: MethodOptions,
  ) => Promise<OutputOf<O> & Durability>;
};

interface Durability {
  /** Present if Redis has not confirmed in time that its replicas have the change, so that a failover may undo it. */
  readonly durability?: 'unknown';
}

/**
 * The operations as methods. They throw Failure `refused` for a wrong input, and otherwise as the operations do.
 * @param contextOf called for each operation; throws if the store must not be used
 */
export function methodsOn(contextOf: () => StoreContext, recording: Recording): OperationMethods {
  const all = (OPERATIONS as readonly AnyOperation[]).filter(({ on }) => on === 'store');
  return Object.fromEntries(
    all.map((operation) => [operation.name, methodOf(operation, contextOf, recording)]),
  ) as never;
}

function methodOf(operation: AnyOperation, contextOf: () => StoreContext, recording: Recording) {
  const members = [...operation.line.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  return async (given: Readonly<Record<string, unknown>>, { once = null }: { readonly once?: string | null } = {}) => {
    const ofPath = Object.fromEntries(members.map((name) => [name, String(given[name])]));
    const body = Object.fromEntries(Object.entries(given).filter(([name]) => !members.includes(name)));
    const ask = () => ({
      input: { ...(operation.input === undefined ? {} : (readInput(operation.input, body) as object)), ...ofPath },
      asked: { ...PLAINLY, once, body },
    });
    const target = members[0] === undefined ? null : ofPath[members[0]]!;
    const { output, change } = await perform(operation, { store: contextOf() }, recording, target, ask);
    return change?.durability?.kind === 'unknown' ? { ...(output as object), durability: 'unknown' } : output;
  };
}
