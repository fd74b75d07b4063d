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
import type { TopUpReport, UndoneTopUpReport } from '../operations/usage-changes.ts';
import { operationCommand } from './operation-command.ts';
import type { Command } from './terminal/command.ts';

// The commands that change what is counted: `topup` and `undo-topup` of keys and customers, `usage reset` and
// `bans lift`.

const TOP_UP_JSON =
  'Prints {"id","window","amount","limit","until","topUp","reason"}, the time in Unix seconds; `topUp` is the id for undo-topup.';
const UNDONE_JSON = 'Prints {"id","window","amount","limit","until"}: what was taken back, and what stays.';

/** `tollgate keys topup`: adds to one window of a key for a time. */
export const keysTopUp: Command = operationCommand({
  name: 'keys topup',
  operation: topUp,
  examples: [
    'tollgate keys topup KEY_ID --window day --amount 500',
    'tollgate keys topup KEY_ID --window day --amount 500 --until today --zone Europe/Berlin --reason TICKET-12',
  ],
  json: TOP_UP_JSON,
  text: ({ output }, { seconds }) => topUpText(output, seconds),
});

/** `tollgate customers topup`: adds to a limit that the keys of a customer share. */
export const customersTopUp: Command = operationCommand({
  name: 'customers topup',
  operation: topUpCustomer,
  positional: 'CUSTOMER_ID',
  examples: ['tollgate customers topup CUSTOMER_ID --window day --amount 500'],
  json: TOP_UP_JSON,
  text: ({ output }, { seconds }) => topUpText(output, seconds),
});

function topUpText({ id, window, limit, until, topUp: made }: TopUpReport, seconds: (at: number) => string): string {
  if (until === null) return `The top-up has ended or was undone: the ${window} limit of ${id} is ${limit}.\n`;
  const noun = isCustomerId(id) ? 'customers' : 'keys';
  const undo = `\`tollgate ${noun} undo-topup ${id} ${made}\` takes it back.`;
  return `The ${window} limit of ${id} is ${limit}; the top-up ends ${seconds(until)}.\n${undo}\n`;
}

/** `tollgate keys undo-topup`: takes a top-up of a key back. */
export const keysUndoTopUp: Command = operationCommand({
  name: 'keys undo-topup',
  operation: undoTopUp,
  part: 'TOP_UP',
  examples: ['tollgate keys undo-topup KEY_ID TOP_UP_ID', 'tollgate keys undo-topup KEY_ID day'],
  json: UNDONE_JSON,
  text: ({ output }, { seconds }) => undoneText(output, seconds),
});

/** `tollgate customers undo-topup`: takes a top-up of a customer back. */
export const customersUndoTopUp: Command = operationCommand({
  name: 'customers undo-topup',
  operation: undoCustomerTopUp,
  positional: 'CUSTOMER_ID',
  part: 'TOP_UP',
  examples: ['tollgate customers undo-topup CUSTOMER_ID TOP_UP_ID', 'tollgate customers undo-topup CUSTOMER_ID day'],
  json: UNDONE_JSON,
  text: ({ output }, { seconds }) => undoneText(output, seconds),
});

function undoneText({ id, window, amount, limit, until }: UndoneTopUpReport, seconds: (at: number) => string): string {
  const rest = until === null ? '' : `; what is still added to it ends ${seconds(until)}`;
  return `${amount} were taken back: the ${window} limit of ${id} is ${limit}${rest}.\n`;
}

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
