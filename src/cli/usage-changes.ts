import { isCustomerId } from '../model/record.ts';
import { liftBan } from '../operations/catalogue/bans.ts';
import {
  resetCustomerUsage,
  resetUsage,
  topUp,
  topUpCustomer,
  undoCustomerTopUp,
  undoTopUp,
} from '../operations/catalogue/usage.ts';
import { operationCommand } from './operation-command.ts';
import { recordCommands } from './record-commands.ts';
import type { Command } from './terminal/command.ts';

// The commands that change what is counted: `topup` and `undo-topup` of keys and customers, `usage reset` and
// `bans lift`.

const [KEYS, CUSTOMERS] = [recordCommands('key'), recordCommands('customer')];

/** `tollgate keys topup`: adds to one window of a key for a time. */
export const keysTopUp: Command = operationCommand({
  ...KEYS.toppingUp,
  operation: topUp,
  examples: [
    ...KEYS.toppingUp.examples,
    'tollgate keys topup KEY_ID --window day --amount 500 --until today --zone Europe/Berlin --reason TICKET-12',
  ],
});

/** `tollgate customers topup`: adds to a limit that the keys of a customer share. */
export const customersTopUp: Command = operationCommand({ ...CUSTOMERS.toppingUp, operation: topUpCustomer });

/** `tollgate keys undo-topup`: takes a top-up of a key back. */
export const keysUndoTopUp: Command = operationCommand({ ...KEYS.undoing, operation: undoTopUp });

/** `tollgate customers undo-topup`: takes a top-up of a customer back. */
export const customersUndoTopUp: Command = operationCommand({ ...CUSTOMERS.undoing, operation: undoCustomerTopUp });

/** `tollgate usage reset`: sets what a key has used to nothing. */
export const usageReset: Command = operationCommand({
  name: 'usage reset',
  operation: resetUsage,
  ofCustomer: resetCustomerUsage,
  positional: 'ID',
  examples: ['tollgate usage reset KEY_ID', 'tollgate usage reset CUSTOMER_ID --window day'],
  spelled: {
    windows: {
      option: 'window',
      about: 'Only this window; may be given once per window. Without it, all windows that the plan of the key counts.',
      read: (given: readonly string[]) => [...new Set(given)],
    },
  },
  json: 'Prints {"id","windows","ban"}; `ban` is the ban that stays, or null.',
  text: ({ output: { id, windows, ban } }, { seconds }) =>
    `The usage of ${id} is reset: ${windows.join(', ')}.\n${
      ban === null
        ? ''
        : `It is still banned; the ban ends ${seconds(ban.until)}. \`tollgate bans lift ${id}\` lifts it.\n`
    }`,
});

/** `tollgate bans lift`: ends a ban now. */
export const bansLift: Command = operationCommand({
  name: 'bans lift',
  operation: liftBan,
  positional: 'ID',
  examples: ['tollgate bans lift KEY_ID', 'tollgate bans lift CUSTOMER_ID --reason TICKET-12'],
  json: 'Prints {"id","lifted","spent"}: the windows that still refuse, or null if they are not known.',
  // An operator can lift a ban also while plans.yaml has a fault.
  open: { needsPlans: false },
  text: ({ output: { id, spent } }, { seconds }) => {
    const lines = (spent ?? []).map(({ window, resetAt }) => {
      const noun = isCustomerId(id) ? 'customers' : 'keys';
      const topUp = `tollgate ${noun} topup ${id} --window ${window} --amount N`;
      const reset = `tollgate usage reset ${id} --window ${window}`;
      return `Its ${window} quota is spent and resets ${seconds(resetAt)}. \`${topUp}\` adds N to it, \`${reset}\` resets it.\n`;
    });
    return `The ban of ${id} is lifted.\n${lines.join('')}`;
  },
});
