import { isCustomer } from './kit/callers.ts';
import { OPERATIONS } from './operations.js';
import type { Action } from './screens/caller-card.ts';
import { may, useSession } from './signed-in.ts';

// What operations on a key or a customer say of themselves.

/** The verbs of the operations that screens place among their actions themselves. */
const PLACED = ['lift', 'resume', 'topup', 'reset', 'rotate', 'end', 'move', 'suspend', 'revoke', 'delete'];

/** The other operations on a key or a customer that need no input, those that the reader may use; of those that end a ban, only while there is one. */
export function useFurtherActions(id: string, isBanned: boolean): readonly Action[] {
  const { role } = useSession();
  return OPERATIONS.filter((one) => {
    const isMeant = isOn(id, one) && one.needsInput === undefined && !PLACED.includes(verbOf(one));
    return isMeant && (isBanned || one.endsBan === undefined) && may(role, one.role);
  }).map((one) => [verbOf(one), `${titleOf(verbOf(one))}…`, 'more']);
}

type OperationWords = (typeof OPERATIONS)[number];

/** Whether an operation is on keys, or on customers, as the id is; a ban may be of either. */
function isOn(id: string, { line }: OperationWords): boolean {
  return line.includes(isCustomer(id) ? ' /customers/{id}' : ' /keys/{id}') || line.includes(' /bans/{id}');
}

function verbOf({ action }: OperationWords): string {
  return action.split('.')[1]!;
}

export function titleOf(verb: string): string {
  return `${verb.charAt(0).toUpperCase()}${verb.slice(1)}`;
}

/** The actions in the record of changes of what ends a ban. */
export const ENDING_BANS: readonly string[] = OPERATIONS.flatMap(({ action, endsBan }) => (endsBan ? [action] : []));

/** @param verb of the action in the record of changes, such as `revoke` */
export function operationOn(id: string, verb: string): OperationWords {
  return OPERATIONS.find((one) => isOn(id, one) && verbOf(one) === verb)!;
}

/** What becomes of a key or a customer. */
export function effectOf(id: string, verb: string): string {
  return operationOn(id, verb).effect;
}
