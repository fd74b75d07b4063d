import { isCustomer } from './kit/callers.tsx';
import { OPERATIONS } from './operations.js';

// What operations on a key or a customer say of themselves.

type OperationWords = (typeof OPERATIONS)[number];

/** Whether an operation is on keys, or on customers, as the id is; a ban may be of either. */
export function isOn(id: string, { line }: OperationWords): boolean {
  return line.includes(isCustomer(id) ? ' /customers/{id}' : ' /keys/{id}') || line.includes(' /bans/{id}');
}

export function verbOf({ action }: OperationWords): string {
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

/** Whether an action of the record of changes ends a ban. */
export function isEnding(action: string | null): boolean {
  return OPERATIONS.some((one) => one.action === action && one.endsBan === true);
}
