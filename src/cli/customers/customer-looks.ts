import { heldText } from '../keys/text-form.ts';
import type { Looks } from '../operation-command.ts';
import { resumedText, suspendedText } from '../record-commands.ts';

/** What the commands print that make or change one customer. */
export const CUSTOMER_LOOKS: Looks = {
  createCustomer: {
    examples: [
      'tollgate customers create --name "Acme Ltd" --plan pro --owner sales@example.com',
      'tollgate customers create --plan pro --limit day=50000 --expires 2030-12-31 --json',
      'tollgate customers create --plan pro --scope orders:read --address 203.0.113.0/24 --meta team=blue',
    ],
    text: ({ output }) =>
      `${output.id} on plan ${output.plan} (${heldText(output)})\n\n` +
      `\`tollgate keys create --customer ${output.id}\` makes a key that shares these limits with its other keys.\n`,
  },
  updateCustomer: {
    examples: [
      'tollgate customers edit CUSTOMER_ID --plan business',
      'tollgate customers edit CUSTOMER_ID --limit minute=500 --expires never',
    ],
    text: ({ output: { id, plan, expiresAt: ends, ...report } }, { moment }) =>
      `${id} is on plan ${plan} (${heldText(report)}) and ${ends === null ? 'never expires' : `expires ${moment(ends)}`}.\n`,
  },
  suspendCustomer: {
    examples: [
      'tollgate customers suspend CUSTOMER_ID',
      "tollgate customers suspend CUSTOMER_ID --until 24h --reason 'asked for by billing'",
    ],
    text: suspendedText,
  },
  resumeCustomer: { text: resumedText },
  deleteCustomer: {
    examples: ['tollgate customers delete CUSTOMER_ID', 'tollgate customers delete CUSTOMER_ID --keys revoke --yes'],
    text: ({ change, output: { keysRevoked } }, { id }) => {
      if (change?.outcome === 'unchanged') return `${id} was deleted before.\n`;
      if (keysRevoked === 0) return `${id} is deleted.\n`;
      return `${id} is deleted, and ${keysRevoked === 1 ? 'its key is' : `its ${keysRevoked} keys are`} revoked.\n`;
    },
  },
};
