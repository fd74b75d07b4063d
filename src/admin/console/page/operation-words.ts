import { isCustomer } from './kit/callers.ts';
import { OPERATIONS } from './operations.js';
import type { Action } from './screens/caller-card.ts';
import { may, useSession } from './signed-in.ts';

// What operations on a key or a customer say of themselves.

/** The verbs of the operations that screens place among their actions themselves. */
const PLACED = ['lift', 'resume', 'topup', 'reset', 'rotate', 'end', 'move', 'suspend', 'revoke', 'delete'];

/** The other operations on a key or a customer that need no input, those that the reader may use. */
export function useFurtherActions(id: string): readonly Action[] {
  const { role } = useSession();
  return OPERATIONS.filter((one) => {
    return isOn(id, one) && one.needsInput === undefined && !PLACED.includes(verbOf(one)) && may(role, one.role);
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

/** @param verb of the action in the record of changes, such as `revoke` */
export function operationOn(id: string, verb: string): OperationWords {
  return OPERATIONS.find((one) => isOn(id, one) && verbOf(one) === verb)!;
}

/** What becomes of a key or a customer. */
export function effectOf(id: string, verb: string): string {
  return operationOn(id, verb).effect;
}
