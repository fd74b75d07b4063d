import { isOn, titleOf, verbOf } from './operation-words.ts';
import { OPERATIONS } from './operations.js';
import type { Action } from './screens/caller-card.ts';
import { may, useSession } from './signed-in.ts';

/** The verbs of the operations that screens place among their actions themselves. */
const PLACED = ['lift', 'resume', 'topup', 'reset', 'rotate', 'end', 'move', 'suspend', 'revoke', 'delete'];

/** The other operations on a key or a customer that need no input and that the reader may use. What ends a ban is among them only while there is one. */
export function useFurtherActions(id: string, isBanned: boolean): readonly Action[] {
  const { role } = useSession();
  return OPERATIONS.filter((one) => {
    const isMeant = isOn(id, one) && one.needsInput === undefined && !PLACED.includes(verbOf(one));
    return isMeant && (isBanned || one.endsBan === undefined) && may(role, one.role);
  }).map((one) => [verbOf(one), `${titleOf(verbOf(one))}…`, 'more']);
}
