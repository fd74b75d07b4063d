import { isCustomerId } from '../../model/record.ts';
import { unknownCustomer, unknownKey } from '../operator-store.ts';
import { type Recording, recorded } from '../recorded.ts';
import type { Contexts, StoreContext } from './contexts.ts';
import type { Done, Invocation, Operation } from './operation.ts';

/** An operation whose input and output are not looked at. */
export interface AnyOperation extends Omit<Operation, 'run' | 'fromStore'> {
  readonly fromStore?: (context: StoreContext, input: never) => Promise<Done<unknown>>;
  readonly run: (context: never, input: never, invocation: Invocation) => Promise<Done<unknown>>;
}

/** The result of an operation, by its type. */
export type DoneOf<O> = O extends { readonly run: (...args: never) => Promise<infer Result> } ? Result : never;

/** How an operation is asked for that nothing else is known about. */
export const PLAINLY: Invocation = {
  once: null,
  guard: undefined,
  body: undefined,
  versions: null,
  by: null,
  recorded: ({ work }) => work(),
};

/**
 * Does an operation, and records it if it changes something. Its input is read within: an attempt with a wrong input is recorded too.
 * One that is asked for with `dryRun` changes nothing.
 * @param target the id that the operator named; null if the operation makes a key
 * @param ask returns the input, and how the operation is asked for; throws if they are wrong
 * @throws Failure, Refused
 */
export async function perform<O extends AnyOperation>(
  operation: O,
  contexts: Partial<Contexts>,
  recording: Recording | null,
  target: string | null,
  ask: () => { readonly input: object; readonly invocation: Invocation },
): Promise<DoneOf<O>> {
  const read = once(ask);
  const work = async () => {
    const { input, invocation } = read();
    insistOnKind(operation, target);
    const recorder = recording === null ? {} : recorderOf(recording);
    return operation.run(contexts[operation.on] as never, input as never, { ...invocation, ...recorder });
  };
  const { action } = operation;
  if (action === undefined || recording === null || recordsNothing(operation, read)) {
    return (await work()) as DoneOf<O>;
  }
  return (await recorded(recording, { action, target, work, changeOf: ({ change }) => change! })) as DoneOf<O>;
}

/** The same result each time, or the same error. */
function once<T>(work: () => T): () => T {
  let result: { readonly value: T } | { readonly error: unknown } | null = null;
  const done = () => {
    try {
      return { value: work() };
    } catch (error) {
      return { error };
    }
  };
  return () => {
    result ??= done();
    if ('error' in result) throw result.error;
    return result.value;
  };
}

function recorderOf(recording: Recording): Pick<Invocation, 'by' | 'recorded'> {
  return { by: recording.origin.actor, recorded: (change) => recorded(recording, change) };
}

/** Whether there is no entry for the operation as a whole. A wrong input is an attempt to change something. */
function recordsNothing({ recordsEach }: AnyOperation, read: () => { readonly input: object }): boolean {
  try {
    return isDryRun(read().input) || recordsEach === true;
  } catch {
    return false;
  }
}

/** Whether an input asks what would become of it, so that nothing is changed. */
export function isDryRun(input: unknown): boolean {
  return (input as { readonly dryRun?: unknown }).dryRun === true;
}

/**
 * Fault: what is counted is changed alike for keys and customers, so an operation on customers that was given the id of a key changed
 * the key, and the other way round.
 * @throws Failure `not_found`
 */
function insistOnKind({ line }: Pick<AnyOperation, 'line'>, target: string | null): void {
  if (target === null) return;
  if (line.includes(' /customers/{id}') && !isCustomerId(target)) unknownCustomer(target);
  if (line.includes(' /keys/{id}') && isCustomerId(target)) unknownKey(target);
}
