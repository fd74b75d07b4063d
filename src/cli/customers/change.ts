import { Failure } from '../../failure.ts';
import {
  createCustomer,
  deleteCustomer,
  resumeCustomer,
  suspendCustomer,
  updateCustomer,
} from '../../operations/catalogue/customers.ts';
import { spelledAttributes } from '../keys/attribute-options.ts';
import { resumedText, SUSPENSION_SPELLED, suspendedText } from '../keys/suspension-options.ts';
import { heldText, readLimits, readMoment } from '../keys/text-form.ts';
import { operationCommand } from '../operation-command.ts';
import { type Command, isYes, type Words } from '../terminal/command.ts';

// The commands that make, change, suspend, resume and delete a customer.

const expiresAt = {
  option: 'expires',
  value: 'WHEN',
  about: 'When it ends: in 90d, or on 2030-12-31, or at an RFC 3339 time, or never. Its keys are refused from then on.',
  read: (when: string) => {
    if (when === 'never') return null;
    readMoment('--expires', when, 0);
    return when;
  },
};

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
    expiresAt,
    ...spelledAttributes('customer', 'new'),
    limits: {
      option: 'limit',
      value: 'WINDOW=NUMBER',
      about: "A limit of its own in place of its plan's, such as minute=500. May be given once per window.",
      read: (_: unknown, words: Words) => readLimits(words, false),
    },
  },
  json: 'Prints one JSON object: the customer.',
  text: ({ output }) =>
    `${output.id} on plan ${output.plan} (${heldText(output)})\n\n` +
    `\`tollgate keys create --customer ${output.id}\` makes a key that shares these limits with its other keys.\n`,
});

/** `tollgate customers edit`. */
export const customersEdit: Command = operationCommand({
  name: 'customers edit',
  operation: updateCustomer,
  positional: 'CUSTOMER_ID',
  examples: [
    'tollgate customers edit CUSTOMER_ID --plan business',
    'tollgate customers edit CUSTOMER_ID --limit minute=500 --expires never',
  ],
  spelled: {
    plan: { about: 'Moves it, with all its keys, to another plan of plans.yaml.' },
    expiresAt,
    ...spelledAttributes('customer', 'change'),
    limits: {
      option: 'limit',
      value: 'WINDOW=NUMBER',
      about:
        "A limit of its own, such as minute=500; minute=default goes back to its plan's. May be given once per window.",
      read: (_: unknown, words: Words) => readLimits(words, true),
    },
  },
  json: 'Prints the customer as `customers list` does.',
  text: ({ output: { id, plan, expiresAt: ends, ...report } }, { moment }) =>
    `${id} is on plan ${plan} (${heldText(report)}) and ${ends === null ? 'never expires' : `expires ${moment(ends)}`}.\n`,
});

/** `tollgate customers suspend`: its keys and tokens are refused until it is resumed, or for a while. */
export const customersSuspend: Command = operationCommand({
  name: 'customers suspend',
  operation: suspendCustomer,
  positional: 'CUSTOMER_ID',
  examples: [
    'tollgate customers suspend CUSTOMER_ID',
    "tollgate customers suspend CUSTOMER_ID --until 24h --reason 'asked for by billing'",
  ],
  spelled: SUSPENSION_SPELLED,
  json: 'Prints the customer as `customers list` does.',
  open: { needsPlans: false },
  text: ({ output, change }, { id, moment }) => suspendedText(id, output.suspended, change, moment),
});

/** `tollgate customers resume`: ends a suspension. */
export const customersResume: Command = operationCommand({
  name: 'customers resume',
  operation: resumeCustomer,
  positional: 'CUSTOMER_ID',
  examples: ['tollgate customers resume CUSTOMER_ID'],
  json: 'Prints the customer as `customers list` does.',
  open: { needsPlans: false },
  text: ({ change }, { id }) => resumedText(id, change),
});

/** `tollgate customers delete`. */
export const customersDelete: Command = operationCommand({
  name: 'customers delete',
  operation: deleteCustomer,
  positional: 'CUSTOMER_ID',
  examples: ['tollgate customers delete CUSTOMER_ID', 'tollgate customers delete CUSTOMER_ID --keys revoke --yes'],
  spelled: {
    keys: {
      value: 'revoke',
      about: 'First revokes its keys for good. Without it a customer with keys that are not revoked is not deleted.',
    },
  },
  options: {
    yes: {
      type: 'boolean',
      short: 'y',
      about: 'Deletes without asking; required where there is no terminal to ask on.',
    },
  },
  json: 'Prints {"id","deleted","keysRevoked","unreadable"}; unreadable are keys that may be its and whose records cannot be read, so that they were not revoked.',
  open: { needsPlans: false },
  check({ options }, { question = null }) {
    if (options.yes === true || question !== null) return;
    throw new Failure('bad_usage', 'A deleted customer cannot be restored. Give --yes to delete it.');
  },
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
