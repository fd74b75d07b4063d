import { Failure } from '../failure.ts';
import type { RecordKind } from '../model/attributes.ts';
import { isCustomerId } from '../model/record.ts';
import type { KeyReport } from '../operations/key-report.ts';
import type { TopUpReport, UndoneTopUpReport } from '../operations/usage-changes.ts';
import { spelledAttributes } from './keys/attribute-options.ts';
import { readLimits, readMoment } from './keys/text-form.ts';
import type { Placeholder } from './meant-id.ts';
import type { Print } from './operation-command.ts';
import type { Terminal, Words } from './terminal/command.ts';

/** What a command has done, as far as both kinds of records have it. */
interface Done<Out> {
  readonly output: Out;
  readonly change?: { readonly outcome: 'done' | 'unchanged' };
}

/** What the commands on keys and those on customers have in common, as parts of an `operationCommand`. */
export function recordCommands(what: RecordKind) {
  const nouns = `${what}s`;
  const positional: Placeholder = what === 'key' ? 'KEY_ID' : 'CUSTOMER_ID';
  const json = `Prints the ${what} as \`${nouns} list\` does.`;
  const part = (verb: string, ...further: readonly string[]) => ({
    name: `${nouns} ${verb}`,
    positional,
    examples: further.map((words) => `tollgate ${nouns} ${verb} ${positional}${words}`),
    json,
  });
  return {
    /** @param verb `update` of keys, `edit` of customers */
    changing: (verb: string) => part(verb, ' --plan business', ' --limit minute=500 --expires never'),
    suspending: {
      ...part('suspend', '', " --until 24h --reason 'asked for by billing'"),
      spelled: {
        until: {
          value: 'WHEN',
          about:
            'When it ends by itself: in 24h, or on 2030-12-31, or at an RFC 3339 time; left out, only when it is resumed.',
          read: (when: string) => checkedMoment('--until', when),
        },
        reason: { value: 'TEXT', about: 'For operators, one line of up to 200 characters. The caller never sees it.' },
      },
      open: { needsPlans: false },
      text: suspendedText,
    },
    resuming: { ...part('resume', ''), open: { needsPlans: false }, text: resumedText },
    deleting: {
      name: `${nouns} delete`,
      positional,
      options: {
        yes: {
          type: 'boolean',
          short: 'y',
          about: 'Deletes without asking; required where there is no terminal to ask on.',
        },
      },
      open: { needsPlans: false },
      check({ options }: Words, { question = null }: Terminal) {
        if (options.yes === true || question !== null) return;
        throw new Failure('bad_usage', `A deleted ${what} cannot be restored. Give --yes to delete it.`);
      },
    },
    toppingUp: {
      ...part('topup', ' --window day --amount 500'),
      json: 'Prints {"id","window","amount","limit","until","topUp","reason"}, the time in Unix seconds; `topUp` is the id for undo-topup.',
      text: topUpText,
    },
    undoing: {
      ...part('undo-topup', ' TOP_UP_ID', ' day'),
      part: 'TOP_UP',
      json: 'Prints {"id","window","amount","limit","until"}: what was taken back, and what stays.',
      text: undoneText,
    },
  } as const;
}

/**
 * How the attributes of a record, its limits and its end are spelled.
 * @param atItsEnd a sentence with what its end leads to
 */
export function spelledRecord(kind: RecordKind, what: 'new' | 'change', atItsEnd = '') {
  const about =
    what === 'new'
      ? "A limit of its own in place of its plan's, such as minute=500."
      : "A limit of its own, such as minute=500; minute=default goes back to its plan's.";
  return {
    expiresAt: {
      option: 'expires',
      value: 'WHEN',
      about: `When it ends: in 90d, or on 2030-12-31, or at an RFC 3339 time, or never.${atItsEnd}`,
      read: (when: string) => (when === 'never' ? null : checkedMoment('--expires', when)),
    },
    ...spelledAttributes(kind, what),
    limits: {
      option: 'limit',
      value: 'WINDOW=NUMBER',
      about: `${about} May be given once per window.`,
      read: (_: unknown, words: Words) => readLimits(words, what === 'change'),
    },
  };
}

/** Returns the moment of an option as it was given. @throws Failure `bad_usage` */
function checkedMoment(option: string, when: string): string {
  readMoment(option, when, 0);
  return when;
}

type Suspendable = { readonly id: string; readonly suspended?: { readonly until: string | null } | undefined };

function suspendedText({ output: { id, suspended }, change }: Done<Suspendable>, { moment }: Print): string {
  const end = suspended?.until == null ? 'until it is resumed' : `and works again ${moment(suspended.until)}`;
  return `${id} ${change?.outcome === 'unchanged' ? 'was already' : 'is'} suspended ${end}.\n`;
}

function resumedText({ output: { id, customer }, change }: Done<Pick<KeyReport, 'id' | 'customer'>>): string {
  const done = `${id} ${change?.outcome === 'unchanged' ? 'was not suspended' : 'is resumed'}.`;
  if (customer?.state !== 'suspended') return `${done}\n`;
  return `${done} Its customer is suspended, and so its requests are refused: \`tollgate customers resume ${customer.id}\`.\n`;
}

function topUpText({ output: { id, window, limit, until, topUp } }: Done<TopUpReport>, { seconds }: Print): string {
  if (until === null) return `The top-up has ended or was undone: the ${window} limit of ${id} is ${limit}.\n`;
  const nouns = isCustomerId(id) ? 'customers' : 'keys';
  const undo = `\`tollgate ${nouns} undo-topup ${id} ${topUp}\` takes it back.`;
  return `The ${window} limit of ${id} is ${limit}; the top-up ends ${seconds(until)}.\n${undo}\n`;
}

function undoneText({ output }: Done<UndoneTopUpReport>, { seconds }: Print): string {
  const { id, window, amount, limit, until } = output;
  const rest = until === null ? '' : `; what is still added to it ends ${seconds(until)}`;
  return `${amount} were taken back: the ${window} limit of ${id} is ${limit}${rest}.\n`;
}
