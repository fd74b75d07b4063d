import {
  createCustomer,
  deleteCustomer,
  resumeCustomer,
  suspendCustomer,
  updateCustomer,
} from '../../operations/catalogue/customers.ts';
import { heldText } from '../keys/text-form.ts';
import { operationCommand } from '../operation-command.ts';
import { recordCommands, spelledRecord } from '../record-commands.ts';
import { type Command, isYes } from '../terminal/command.ts';

// The commands that make, change, suspend, resume and delete a customer.

const CUSTOMERS = recordCommands('customer');
const AT_ITS_END = ' Its keys are refused from then on.';

/** `tollgate customers create`. */
export const customersCreate: Command = operationCommand({
  name: 'customers create',
  operation: createCustomer,
  positional: null,
  examples: [
    'tollgate customers create --name "Acme Ltd" --plan pro --owner sales@example.com',
    'tollgate customers create --plan pro --limit day=50000 --expires 2030-12-31 --json',
    'tollgate customers create --plan pro --scope orders:read --address 203.0.113.0/24 --meta team=blue',
  ],
  spelled: {
    plan: { about: 'The plan whose limits its keys share, one of plans.yaml. Required.' },
    ...spelledRecord('customer', 'new', AT_ITS_END),
  },
  json: 'Prints one JSON object: the customer.',
  text: ({ output }) =>
    `${output.id} on plan ${output.plan} (${heldText(output)})\n\n` +
    `\`tollgate keys create --customer ${output.id}\` makes a key that shares these limits with its other keys.\n`,
});

/** `tollgate customers edit`. */
export const customersEdit: Command = operationCommand({
  ...CUSTOMERS.changing('edit'),
  operation: updateCustomer,
  spelled: {
    plan: { about: 'Moves it, with all its keys, to another plan of plans.yaml.' },
    ...spelledRecord('customer', 'change', AT_ITS_END),
  },
  text: ({ output: { id, plan, expiresAt: ends, ...report } }, { moment }) =>
    `${id} is on plan ${plan} (${heldText(report)}) and ${ends === null ? 'never expires' : `expires ${moment(ends)}`}.\n`,
});

/** `tollgate customers suspend`: its keys and tokens are refused until it is resumed, or for a while. */
export const customersSuspend: Command = operationCommand({ ...CUSTOMERS.suspending, operation: suspendCustomer });

/** `tollgate customers resume`: ends a suspension. */
export const customersResume: Command = operationCommand({ ...CUSTOMERS.resuming, operation: resumeCustomer });

/** `tollgate customers delete`. */
export const customersDelete: Command = operationCommand({
  ...CUSTOMERS.deleting,
  operation: deleteCustomer,
  examples: ['tollgate customers delete CUSTOMER_ID', 'tollgate customers delete CUSTOMER_ID --keys revoke --yes'],
  spelled: {
    keys: {
      value: 'revoke',
      about: 'First revokes its keys for good. Without it a customer with keys that are not revoked is not deleted.',
    },
  },
  json: 'Prints {"id","deleted","keysRevoked","unreadable"}; unreadable are keys that may be its and whose records cannot be read, so that they were not revoked.',
  async confirm(_, { options, positionals }, { question }) {
    if (options.yes === true) return null;
    const keys = options.keys === 'revoke' ? ' and revoke its keys' : '';
    const answer = await question!(`Delete ${positionals[0]}${keys} for good? This cannot be undone. [y/N] `);
    return isYes(answer) ? null : 'Nothing was deleted.';
  },
  text: ({ change, output: { keysRevoked } }, { id }) => {
    if (change?.outcome === 'unchanged') return `${id} was deleted before.\n`;
    if (keysRevoked === 0) return `${id} is deleted.\n`;
    return `${id} is deleted, and ${keysRevoked === 1 ? 'its key is' : `its ${keysRevoked} keys are`} revoked.\n`;
  },
});
