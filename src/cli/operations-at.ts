import { DURABLE } from '../admit/ledger.ts';
import { Failure, Refused } from '../failure.ts';
import { partsOf, performGiven } from '../operations/catalogue/methods.ts';
import type { InputOf, OutputOf } from '../operations/catalogue/operation.ts';
import { type AnyOperation, PLAINLY } from '../operations/catalogue/perform.ts';
import { type OpenOptions, type OpenStore, withStore } from '../serve/open-store.ts';
import { contextOn } from './operations.ts';
import { recordingOf } from './recorded-change.ts';
import type { Terminal } from './terminal/command.ts';

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
interface AskedAt {
  /** The name under which the change is made once. */
  readonly once?: string | null;
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

/** Opens the store of the gateways, runs `work` with it, and closes it in any case. @throws as `openStore` and `work` */
export function withOperations<T>(
  terminal: Terminal,
  work: (at: OperationsAt) => Promise<T>,
  options: OpenOptions = {},
): Promise<T> {
  const here = (store: OpenStore) => work(operationsHere(store, terminal.error));
  return withStore(terminal.env, here, { warn: terminal.error, ...options });
}

/**
 * Does operations on a store that this process has open.
 * @param warn called with a line for stderr if the record of a change is missing or lacks the outcome
 */
export function operationsHere(store: OpenStore, warn: (line: string) => void): OperationsAt {
  const contexts = { store: contextOn(store) };
  return {
    name: store.name,
    async perform<O extends AnyOperation>(operation: O, input: InputOf<O>, { once = null }: AskedAt = {}) {
      const asked = { ...PLAINLY, once };
      const recording = recordingOf(store, warn);
      const done = await performGiven(operation, contexts, recording, partsOf(operation, input), asked).catch(
        asCommand,
      );
      const { output, change, isRepeated = false } = done as Awaited<ReturnType<AnyOperation['run']>>;
      const { outcome = 'done', durability = DURABLE } = change ?? {};
      return {
        output: output as OutputOf<O>,
        isRepeated,
        ...(change === undefined
          ? {}
          : { change: { outcome: outcome === 'unchanged' ? outcome : 'done', durability: durability.kind } }),
      };
    },
  };
}

const REUSED = 'Another change was made under this --id. Use a new one.';

/** @throws the error of an operation, in the words of a command */
function asCommand(error: unknown): never {
  if (error instanceof Refused && error.refusal === 'idempotency_key_reused') throw new Failure('conflict', REUSED);
  throw error;
}
