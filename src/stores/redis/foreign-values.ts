import { Failure } from '../../failure.ts';
import type { Calls } from './shards.ts';

/** What Redis answers where a name holds a value of another kind, or the ACL of the user forbids a command. */
const FOREIGN = /WRONGTYPE|NOPERM|user executing the script can't/;

interface Use {
  readonly circuit: Calls;
  /** The name in Redis that the call uses. */
  readonly name: string;
  /** The message of the failure if the value is another program's, or may not be used. */
  readonly message: string;
  /** The errors that say so. */
  readonly foreign?: RegExp;
  /** The call writes nothing. False if left out. */
  readonly isRead?: boolean;
}

/**
 * Makes a call that a foreign value, or an ACL, can make fail for as long as it is there. Such an error does not open the circuit, because
 * the store is present.
 * @throws Failure `store_corrupt` for such an error
 */
export async function useOwn<T>(
  { circuit, name, message, foreign = FOREIGN, isRead = false }: Use,
  call: () => Promise<T>,
): Promise<T> {
  const outcome = await circuit[isRead ? 'read' : 'run']<{ readonly value: T } | { readonly cause: Error }>(
    () =>
      call().then(
        (value) => ({ value }),
        (cause: Error) => {
          if (foreign.test(cause.message)) return { cause };
          throw cause;
        },
      ),
    name,
  );
  if ('value' in outcome) return outcome.value;
  throw new Failure('store_corrupt', message, outcome.cause);
}
