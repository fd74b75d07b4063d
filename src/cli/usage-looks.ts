import { isCustomerId } from '../model/record.ts';
import { resetCustomerUsage } from '../operations/catalogue/usage-operations.ts';
import type { Looks } from './operation-command.ts';
import { topUpText, undoneText } from './record-commands.ts';

/** What the commands print that change what is counted. */
export const USAGE_LOOKS: Looks = {
  topUp: {
    examples: [
      'tollgate keys topup KEY_ID --window day --amount 500',
      'tollgate keys topup KEY_ID --window day --amount 500 --until today --zone Europe/Berlin --reason TICKET-12',
    ],
    text: topUpText,
  },
  topUpCustomer: {
    examples: ['tollgate customers topup CUSTOMER_ID --window day --amount 500'],
    text: topUpText,
  },
  undoTopUp: { text: undoneText },
  undoCustomerTopUp: { text: undoneText },
  resetUsage: {
    ofCustomer: resetCustomerUsage,
    examples: ['tollgate usage reset KEY_ID', 'tollgate usage reset CUSTOMER_ID --window day'],
    text: ({ output: { id, windows, ban } }, { seconds }) =>
      `The usage of ${id} is reset: ${windows.join(', ')}.\n${
        ban === null
          ? ''
          : `It is still banned; the ban ends ${seconds(ban.until)}. \`tollgate bans lift ${id}\` lifts it.\n`
      }`,
  },
  liftBan: {
    examples: ['tollgate bans lift KEY_ID', 'tollgate bans lift CUSTOMER_ID --reason TICKET-12'],
    text: ({ output: { id, spent } }, { seconds }) => {
      const lines = (spent ?? []).map(({ window, resetAt }) => {
        const noun = isCustomerId(id) ? 'customers' : 'keys';
        const topUp = `tollgate ${noun} topup ${id} --window ${window} --amount N`;
        const reset = `tollgate usage reset ${id} --window ${window}`;
        return `Its ${window} quota is spent and resets ${seconds(resetAt)}. \`${topUp}\` adds N to it, \`${reset}\` resets it.\n`;
      });
      return `The ban of ${id} is lifted.\n${lines.join('')}`;
    },
  },
};
