import { Failure } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import {
  deleteKey,
  endSecret,
  moveKey,
  resumeKey,
  revokeKey,
  rotateKey,
  showKey,
  suspendKey,
  updateKey,
} from '../../operations/catalogue/keys.ts';
import type { OutputOf } from '../../operations/catalogue/operation.ts';
import { shortReport, type WholeKeyReport, withSecret } from '../../operations/key-report.ts';
import { operationCommand } from '../operation-command.ts';
import type { OperationsAt } from '../operations-at.ts';
import { recordCommands, spelledRecord } from '../record-commands.ts';
import { type Command, isYes } from '../terminal/command.ts';
import { heldText, readDuration, secretLabelOf } from './text-form.ts';

// The commands that change one key: `keys update`, `rotate`, `end-secret`, `suspend`, `resume`, `revoke` and `delete`.

const KEYS = recordCommands('key');

/** `tollgate keys update`: changes the attributes of a key. Its secrets, counters and bans stay. */
export const keysUpdate: Command = operationCommand({
  ...KEYS.changing('update'),
  operation: updateKey,
  spelled: { plan: { about: 'Moves it to another plan of plans.yaml.' }, ...spelledRecord('key', 'change') },
  asJson: ({ output }) => shortReport(output),
  text: ({ output: { id, plan, customer, expiresAt, ...report } }, { moment }) => {
    const text = heldText(report);
    const own = text === '' ? '' : ` (${text})`;
    const whose = customer === undefined ? '' : ` of ${customer.id}`;
    const ends = expiresAt === null ? 'never expires' : `expires ${moment(expiresAt)}`;
    return `${id}${whose} is on plan ${plan ?? 'unknown'}${own} and ${ends}.\n`;
  },
});

/** `tollgate keys move`: moves a key to a customer, or away from its own. */
export const keysMove: Command = operationCommand({
  name: 'keys move',
  operation: moveKey,
  examples: ['tollgate keys move KEY_ID --customer CUSTOMER_ID', 'tollgate keys move KEY_ID --no-customer --plan free'],
  spelled: {
    customer: {
      value: 'CUSTOMER_ID',
      about: 'The customer that it belongs to from now on, by id or name, with the plan and the limits of it.',
      idOf: 'CUSTOMER_ID',
    },
    plan: { about: 'The plan of a key that leaves its customer; that of the customer unless given.' },
  },
  options: {
    'no-customer': { type: 'boolean', about: 'Takes the key away from its customer.' },
  },
  given: ({ options }) => {
    const leaves = options['no-customer'] === true;
    if (leaves === (options.customer !== undefined)) {
      throw new Failure('bad_usage', 'Give either --customer CUSTOMER_ID or --no-customer.');
    }
    return leaves ? { customer: null } : {};
  },
  json: 'Prints the key as `keys list` does, with the ban that has moved along.',
  asJson: ({ output }) => ({ ...shortReport(output), ban: output.ban }),
  text: ({ output: { plan, customer, ban }, change }, { id, seconds }) => {
    const where =
      customer === undefined ? `belongs to no customer and is on plan ${plan}` : `belongs to ${customer.id}`;
    if (change?.outcome === 'unchanged') return `${id} already ${where}; nothing was changed.\n`;
    const banned = ban === null ? '' : ` Its ban moved along and ends ${seconds(ban.until)}.`;
    const refused =
      customer !== undefined && customer.state !== 'active'
        ? ` Its customer is ${customer.state}, so it is refused.`
        : '';
    const counts = 'Its counts start anew, except for what it used there before in windows that are still open.';
    return `${id} ${where}. ${counts}${banned}${refused}\n`;
  },
});

/** `tollgate keys rotate` (contract section 5). */
export const keysRotate: Command = operationCommand({
  name: 'keys rotate',
  operation: rotateKey,
  examples: ['tollgate keys rotate KEY_ID --overlap 24h', 'tollgate keys rotate KEY_ID --leaked'],
  spelled: {
    overlap: {
      value: 'DURATION',
      about: 'How long the secrets before it keep working, 24h by default; 0s ends them at once.',
      read: (given: string) => {
        readDuration('--overlap', given);
        return given;
      },
    },
    leaked: {
      about:
        'Ends the secrets before it at once, because somebody else may have one. On a terminal the command asks, unless --overlap or --leaked is given.',
    },
  },
  json: 'Prints the same JSON object as `keys create`, with the new secret.',
  open: { makesSecrets: true },
  check({ options }) {
    if (options.leaked !== true || options.overlap === undefined) return;
    throw new Failure('bad_usage', 'A leaked secret has no overlap: give --leaked or --overlap.');
  },
  async ask(at, { options, positionals }, { question = null }) {
    if (question === null || options.leaked === true || options.overlap !== undefined) return {};
    const key = await shownKey(at, positionals[0]!);
    // Nothing is asked about a key that does not exist or was revoked.
    if (key === null || key.revokedAt !== null) return {};
    const answer = await question('Was the old secret leaked? Then it ends at once, and otherwise in 24 h. [y/N] ');
    if (answer === null) throw new Failure('refused', 'Nothing was rotated.');
    return isYes(answer) ? { leaked: true } : {};
  },
  asJson: ({ output }) => withSecret(shortReport(output), output.key),
  text: ({ output }, { id, moment }) =>
    `${id} has a new secret; the old one ${oldSecretText(output, moment)}.\n\n  ${output.key}\n\n` +
    'This is the only time that it is shown. Keep it where you keep secrets.\n',
});

/** Until when the previous secret works. No secret works longer than its key. */
function oldSecretText({ secrets, expiresAt }: WholeKeyReport, moment: (atMs: number) => string): string {
  const [, old] = secrets;
  if (old === undefined) return 'no longer works';
  const ends = [old.expiresAt, expiresAt].flatMap((time) => (time === null ? [] : [Date.parse(time)]));
  return `stops working ${moment(Math.min(...ends))}`;
}

/** `tollgate keys end-secret`: ends one of several secrets. */
export const keysEndSecret: Command = operationCommand({
  name: 'keys end-secret',
  operation: endSecret,
  examples: ['tollgate keys end-secret KEY_ID --last4 xY7z'],
  spelled: {
    last4: {
      value: 'CHARACTERS',
      read: (given: string) => {
        // What was given may be the whole secret, so it is not repeated.
        if (given.length > 4)
          throw new Failure('bad_usage', '--last4 takes the last four characters of the secret, and no more of it.');
        return given;
      },
    },
  },
  json: 'Prints the key as `keys list` does.',
  open: { needsPlans: false },
  asJson: ({ output }) => shortReport(output),
  text: ({ output: { secrets } }, { id }) =>
    `The secret has ended. ${id} still has ${secrets.map(secretLabelOf).join(', ')}.\n`,
});

/** `tollgate keys suspend`: a key that is refused until it is resumed, or for a while. */
export const keysSuspend: Command = operationCommand({
  ...KEYS.suspending,
  operation: suspendKey,
  json: 'Prints the key as `keys list` does, with suspended.',
  asJson: ({ output }) => ({ ...shortReport(output), ...(output.suspended && { suspended: output.suspended }) }),
});

/** `tollgate keys resume`: ends a suspension. */
export const keysResume: Command = operationCommand({
  ...KEYS.resuming,
  operation: resumeKey,
  asJson: ({ output }) => shortReport(output),
});

/** `tollgate keys revoke`: ends a key for good (contract section 1). */
export const keysRevoke: Command = operationCommand({
  name: 'keys revoke',
  operation: revokeKey,
  examples: ['tollgate keys revoke KEY_ID', 'tollgate keys revoke KEY_ID --yes'],
  options: {
    yes: { type: 'boolean', short: 'y', about: 'Revokes without asking. Only on a terminal the command asks first.' },
  },
  json: 'Prints the key as `keys list` does, with revokedAt.',
  // An operator can revoke a leaked key also while plans.yaml has a fault.
  open: { needsPlans: false },
  async confirm(at, { options, positionals }, { question = null }) {
    if (options.yes === true || question === null) return null;
    const key = await shownKey(at, positionals[0]!);
    // Nothing is asked about a key that does not exist or was revoked before.
    if (key === null || key.revokedAt !== null) return null;
    const lastUse = key.lastUsedOn === null ? 'no use on record' : `last used ${key.lastUsedOn}`;
    return (await isConfirmed('Revoke', key, lastUse, question)) ? null : 'Nothing was revoked.';
  },
  asJson: ({ output }) => ({ ...shortReport(output), revokedAt: output.revokedAt }),
  text: ({ output: { revokedAt }, change }, { id, moment }) =>
    change?.outcome === 'unchanged' ? `${id} was already revoked ${moment(revokedAt!)}.\n` : `${id} is revoked.\n`,
});

/** `tollgate keys delete`: permanently removes a key that is revoked or has expired. */
export const keysDelete: Command = operationCommand({
  ...KEYS.deleting,
  isForRevoked: true,
  operation: deleteKey,
  examples: ['tollgate keys delete KEY_ID', 'tollgate keys delete KEY_ID --yes'],
  json: 'Prints {"id","deleted"}.',
  async confirm(at, { options, positionals }, { question }) {
    if (options.yes === true) return null;
    const key = await shownKey(at, positionals[0]!);
    // Nothing is asked about a key that does not exist or was deleted before.
    if (key === null || (await isConfirmed('Delete', key, null, question!))) return null;
    return 'Nothing was deleted.';
  },
  text: ({ change }, { id }) => `${id} ${change?.outcome === 'unchanged' ? 'was deleted before' : 'is deleted'}.\n`,
});

/** The key that a question is about; null if there is none. */
async function shownKey(at: OperationsAt, id: string): Promise<ShownKey | null> {
  try {
    return (await at.perform(showKey, { id })).output;
  } catch (error) {
    if (error instanceof Failure && error.code === 'not_found') return null;
    throw error;
  }
}

type ShownKey = OutputOf<typeof showKey>;

/** @param lastUse when it was used last, in words; null if that does not matter */
async function isConfirmed(
  verb: 'Revoke' | 'Delete',
  { id, plan, name, owner }: ShownKey,
  lastUse: string | null,
  question: (text: string) => Promise<string | null>,
): Promise<boolean> {
  const facts = [
    `plan ${plan}`,
    ...(name === null ? [] : [`"${escapedText(name)}"`]),
    ...(owner === null ? [] : [`of ${escapedText(owner)}`]),
    ...(lastUse === null ? [] : [lastUse]),
  ];
  const answer = await question(`${verb} ${id} (${facts.join(', ')}) for good? This cannot be undone. [y/N] `);
  return isYes(answer);
}
