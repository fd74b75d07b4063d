import { isCustomer } from './kit/callers.tsx';
import { OPERATIONS } from './operations.js';
import type { OperationWords } from './words.ts';

// What the operations that change something say of themselves.

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

/** @param line such as `POST /keys` */
export function operationAt(line: string): OperationWords {
  return OPERATIONS.find((one) => one.line === line)!;
}

/** Whether an action of the record of changes ends a ban. */
export function isEnding(action: string | null): boolean {
  return OPERATIONS.some((one) => one.action === action && one.endsBan === true);
}
