import type { rotateKey } from '../../operations/catalogue/key-operations.ts';
import type { OutputOf } from '../../operations/catalogue/operation.ts';
import type { Looks } from '../operation-command.ts';
import { resumedText, suspendedText } from '../record-commands.ts';
import { heldText, secretLabelOf } from './text-form.ts';

const ONLY_TIME = 'This is the only time that it is shown. Keep it where you keep secrets.\n';

/** What the commands print that make or change one key. */
export const KEY_LOOKS: Looks = {
  createKey: {
    examples: [
      'tollgate keys create --plan pro --name "Jo\'s shop" --limit minute=500 --expires 90d',
      'tollgate keys create --customer CUSTOMER_ID --limit minute=300',
      'tollgate keys create --plan free --data ./data --json',
    ],
    options: {
      data: {
        type: 'string',
        value: 'FOLDER',
        about:
          'The folder of the embedded store, in place of TOLLGATE_DATA; created if it is missing. Required without ' +
          'REDIS_URL and TOLLGATE_DATA where there is no ./data.',
      },
    },
    open: { missingStore: 'make', insistsOnFolder: true },
    text: ({ output: { id, key, plan, customer, expiresAt, ...report } }, { moment, at }) => {
      const ends = expiresAt === null ? '' : `, expires ${moment(expiresAt)}`;
      return (
        `${id}${ofCustomer(customer)} on plan ${plan}${inBrackets(report)}${ends}\n\n  ${key}\n\n${ONLY_TIME}` +
        `It is in ${at}; gateways on another store do not know it.\n`
      );
    },
  },
  updateKey: {
    examples: [
      'tollgate keys update KEY_ID --plan business',
      'tollgate keys update KEY_ID --limit minute=500 --expires never',
    ],
    text: ({ output: { id, plan, customer, expiresAt, ...report } }, { moment }) => {
      const ends = expiresAt === null ? 'never expires' : `expires ${moment(expiresAt)}`;
      return `${id}${ofCustomer(customer)} is on plan ${plan ?? 'unknown'}${inBrackets(report)} and ${ends}.\n`;
    },
  },
  moveKey: {
    examples: [
      'tollgate keys move KEY_ID --customer CUSTOMER_ID',
      'tollgate keys move KEY_ID --no-customer --plan free',
    ],
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
  },
  rotateKey: {
    examples: ['tollgate keys rotate KEY_ID --overlap 24h', 'tollgate keys rotate KEY_ID --leaked'],
    text: ({ output }, { id, moment }) =>
      `${id} has a new secret; the old one ${oldSecretText(output, moment)}.\n\n  ${output.key}\n\n${ONLY_TIME}`,
  },
  endSecret: {
    examples: ['tollgate keys end-secret KEY_ID --last4 xY7z'],
    text: ({ output: { secrets } }, { id }) =>
      `The secret has ended. ${id} still has ${secrets.map(secretLabelOf).join(', ')}.\n`,
  },
  suspendKey: {
    examples: [
      'tollgate keys suspend KEY_ID',
      "tollgate keys suspend KEY_ID --until 24h --reason 'asked for by billing'",
    ],
    text: suspendedText,
  },
  resumeKey: { text: resumedText },
  revokeKey: {
    examples: ['tollgate keys revoke KEY_ID', 'tollgate keys revoke KEY_ID --yes'],
    text: ({ output: { revokedAt }, change }, { id, moment }) =>
      change?.outcome === 'unchanged' ? `${id} was already revoked ${moment(revokedAt!)}.\n` : `${id} is revoked.\n`,
  },
  deleteKey: {
    examples: ['tollgate keys delete KEY_ID', 'tollgate keys delete KEY_ID --yes'],
    isForRevoked: true,
    text: ({ change }, { id }) => `${id} ${change?.outcome === 'unchanged' ? 'was deleted before' : 'is deleted'}.\n`,
  },
};

function ofCustomer(customer: { readonly id: string } | undefined): string {
  return customer === undefined ? '' : ` of ${customer.id}`;
}

function inBrackets(report: Parameters<typeof heldText>[0]): string {
  const text = heldText(report);
  return text === '' ? '' : ` (${text})`;
}

/** Until when the previous secret works. No secret works longer than its key. */
function oldSecretText({ secrets, expiresAt }: OutputOf<typeof rotateKey>, moment: (atMs: number) => string): string {
  const [, old] = secrets;
  if (old === undefined) return 'no longer works';
  const ends = [old.expiresAt, expiresAt].flatMap((time) => (time === null ? [] : [Date.parse(time)]));
  return `stops working ${moment(Math.min(...ends))}`;
}
