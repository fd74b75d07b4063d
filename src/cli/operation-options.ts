import type { z } from 'zod';
import { Failure } from '../failure.ts';
import { editedLimits, type GivenLimits, isWindow, limitFrom, limits, MAX_LIMIT } from '../model/plan.ts';
import { isLimitName, WINDOWS } from '../model/values.ts';
import {
  choicesOf,
  isNullable,
  isOptional,
  kindOf,
  layersOf,
  membersOf,
  readWords,
} from '../operations/catalogue/input.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import { customerId, duration, moment } from '../operations/catalogue/record-operations.ts';
import { MOMENT_RULE, momentFrom } from '../operations/operation-values.ts';
import { attributeForm } from './keys/attribute-options.ts';
import { type Meaning, meantId } from './meant-id.ts';
import type { OperationsAt } from './operations-at.ts';
import type { Form, Option, Placeholder, Words } from './terminal/command.ts';

// The options of a command that does an operation. Each is made of a member of the input: of its schema, its description, and the form in
// which values of its kind are written.

/** An operation, with how a command spells some members of its input otherwise than they are spelled by themselves. */
interface InputSpelling {
  readonly operation: AnyOperation;
  readonly spelled?: Readonly<Record<string, Spelling>>;
}
export type Spelling = Partial<Form>;

const EACH_WINDOW = 'May be given once per window.';
const LIMIT = { option: 'limit', value: 'WINDOW=NUMBER', isMultiple: true } as const;

/** By the schema of the values. */
const FORMS: ReadonlyMap<z.ZodType, Form> = new Map<z.ZodType, Form>([
  [
    moment,
    {
      value: 'WHEN',
      hint: 'In 90d, or on 2030-12-31, or at an RFC 3339 time, or never.',
      read: (when: string, option) => (when === 'never' ? null : checkedMoment(option, when)),
    },
  ],
  [duration, { value: 'DURATION' }],
  [customerId, { value: 'CUSTOMER_ID', hint: 'Its name will do.', idOf: 'CUSTOMER_ID' }],
  [
    limits,
    {
      ...LIMIT,
      hint: `Such as minute=500. ${EACH_WINDOW}`,
      read: (given: readonly string[]) => readLimits(given, false),
    },
  ],
  [
    editedLimits,
    {
      ...LIMIT,
      hint: `Such as minute=500; minute=default goes back to its plan's. ${EACH_WINDOW}`,
      read: (given: readonly string[]) => readLimits(given, true),
    },
  ],
]);

/** Returns the moment of an option as it was given: what it means is read with the operation. @throws Failure `bad_usage` */
function checkedMoment(option: string, when: string): string {
  if (momentFrom(when, 0) !== null) return when;
  throw new Failure('bad_usage', `${option} is '${when}'; it ${MOMENT_RULE}.`);
}

/**
 * Reads every `--limit WINDOW=NUMBER`. The operator may give it once for each window.
 * @param withDefault whether `WINDOW=default` is allowed, which restores the plan's own number
 * @throws Failure `bad_usage`
 */
function readLimits(texts: readonly string[], withDefault: boolean): GivenLimits {
  const limits: GivenLimits = {};
  for (const text of texts) {
    const given = limitFrom(text);
    if (given === null || (given.limit === null && !withDefault)) throw wrong(text, withDefault);
    if (given.window in limits) throw new Failure('bad_usage', `--limit is given twice for ${given.window}.`);
    limits[given.window] = given.limit;
  }
  return limits;
}

function wrong(text: string, withDefault: boolean): Failure {
  const [name = ''] = text.split('=');
  if (isLimitName(name) && !isWindow(name)) {
    return new Failure(
      'bad_usage',
      `--limit is '${text}'; the limit ${name}, of a group of routes or a unit, is that of the plan for all its keys. Change it in plans.yaml, give another plan with --plan, or add to it for a while: \`tollgate keys topup\` or \`tollgate customers topup\` with --window ${name}.`,
    );
  }
  const words = withDefault ? '`unlimited` or `default`' : '`unlimited`';
  return new Failure(
    'bad_usage',
    `--limit is '${text}'; it must be WINDOW=NUMBER, such as minute=500: the window one of ${WINDOWS.join(', ')}, the number whole from 0 to ${MAX_LIMIT}, or ${words}.`,
  );
}

/** How a member is spelled by itself. */
function formOf(operation: AnyOperation, member: string, type: z.ZodType): Form {
  const layers = layersOf(type);
  const known = layers.map((layer) => FORMS.get(layer)).find((form) => form !== undefined);
  if (known !== undefined) return known;
  const attribute = attributeForm(member, layers, isCreation(operation) ? 'new' : 'change');
  if (attribute !== null) return attribute;
  if (kindOf(type) === 'array') return listForm(member);
  const choices = choicesOf(type);
  if (choices.length > 0) return { value: choices.join('|') };
  return { value: kindOf(type) === 'number' ? 'NUMBER' : wordOf(member).toUpperCase().replaceAll('-', '_') };
}

/** Whether an operation makes a record, whose members then need not be given. */
function isCreation({ action }: AnyOperation): boolean {
  return action?.endsWith('.create') === true;
}

function listForm(member: string): Form {
  const option = member.replace(/s$/, '');
  return {
    option,
    value: option.toUpperCase(),
    hint: 'May be given several times.',
    isMultiple: true,
    read: (given: readonly string[]) => [...new Set(given)],
  };
}

/** The name of an option: `lastUse` is `last-use`, and the moment `expiresAt` is `expires`. */
function wordOf(member: string): string {
  return member.replace(/At$/, '').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

interface MemberOption {
  readonly member: string;
  readonly option: string;
  readonly form: Form;
  readonly type: z.ZodType;
  /** The option that says that there is none, in place of an id. */
  readonly without: string | null;
}

function membersIn({ operation, spelled = {} }: InputSpelling): readonly MemberOption[] {
  return Object.entries(membersOf(operation.input)).map(([member, type]) => {
    const form = { ...formOf(operation, member, type), ...spelled[member] };
    const option = form.option ?? wordOf(member);
    const isReference = form.idOf !== undefined && isNullable(type);
    return { member, option, form, type, without: isReference ? `no-${option}` : null };
  });
}

/** The options that an operation takes. */
export function optionsOf(operation: InputSpelling): Readonly<Record<string, Option>> {
  const members = membersIn(operation);
  const entries = members.flatMap(({ option, form, type, without }): [string, Option][] => {
    const about = form.about ?? aboutOf(type, form, members);
    if (kindOf(type) === 'boolean') return [[option, { type: 'boolean', about }]];
    const multiple = form.isMultiple === true ? { multiple: true } : {};
    const taken: [string, Option] = [option, { type: 'string', value: form.value, about, ...multiple }];
    return without === null
      ? [taken]
      : [taken, [without, { type: 'boolean', about: `None, in place of --${option}.` }]];
  });
  return Object.fromEntries(entries);
}

function aboutOf(type: z.ZodType, { hint }: Form, members: readonly MemberOption[]): string {
  const standard = type.meta()?.default;
  const unlessGiven = standard === undefined ? null : `${standard} unless given.`;
  const described = layersOf(type).find(({ description }) => description !== undefined)?.description ?? '';
  const sentences = [inWords(described, members), hint, unlessGiven];
  return sentences.filter((text) => typeof text === 'string' && text !== '').join(' ');
}

/** A text about an input, with the options in place of its members, and without what only JSON has. */
function inWords(text: string, members: readonly MemberOption[]): string {
  return text.replaceAll(' (null)', '').replaceAll(/`(\w+)`/g, (word, name) => {
    const found = members.find(({ member }) => member === name);
    return found === undefined ? word : `--${found.option}`;
  });
}

interface CommandOptions extends InputSpelling {
  /** The name of the command. */
  readonly name: string;
  /** Members of the input that further options stand for. @throws Failure `bad_usage` */
  readonly given?: (words: Words) => object;
}

/**
 * Reads the options as the input of an operation.
 * @throws Failure `bad_usage`
 */
export function inputOf(of: CommandOptions, words: Words): Readonly<Record<string, unknown>> {
  const { operation, name, given: beside } = of;
  const { input } = operation;
  if (input === undefined) return {};
  const members = membersIn(of);
  const given = members.flatMap((one) => givenOf(one, words));
  const isRequired = members.some(({ type }) => !type.safeParse(undefined).success);
  if (given.length === 0 && !isRequired && !isCreation(operation) && !isOptional(input)) {
    throw new Failure('bad_usage', `Nothing is to be changed. See \`tollgate ${name} --help\`.`);
  }
  const all = { ...Object.fromEntries(given), ...beside?.(words) };
  return readWords(
    input,
    all,
    (member) => optionOf(of, member),
    (text) => inWords(text, members),
  ) as Record<string, unknown>;
}

/** The option of a member, with its dashes. */
export function optionOf(of: InputSpelling, member: string): string {
  return `--${membersIn(of).find((one) => one.member === member)?.option ?? member}`;
}

function givenOf({ member, option, form, without }: MemberOption, { options }: Words): readonly [string, unknown][] {
  const value = options[option];
  if (without !== null) {
    const isNone = options[without] === true;
    if (isNone === (value !== undefined)) {
      throw new Failure('bad_usage', `Give either --${option} ${form.value} or --${without}.`);
    }
    if (isNone) return [[member, null]];
  }
  if (value === undefined) return [];
  return [[member, form.read === undefined ? value : form.read(value as never, `--${option}`)]];
}

/** The input with the ids of what is meant, where names were given. */
export async function withMeantIds(
  at: OperationsAt,
  of: InputSpelling,
  input: Readonly<Record<string, unknown>>,
  meaning: Omit<Meaning, 'of'>,
): Promise<object> {
  const ids = membersIn(of).map(async ({ member, form: { idOf } }) => {
    const word = input[member];
    const isWord = idOf !== undefined && typeof word === 'string';
    return isWord ? { [member]: await meantId(at, word, { of: idOf, ...meaning }) } : {};
  });
  return Object.assign({}, input, ...(await Promise.all(ids)));
}

/** The words with the id of what is meant, where the name of a key or a customer was given. */
export async function withMeantId(
  at: OperationsAt,
  positional: Placeholder | null,
  words: Words,
  meaning: Omit<Meaning, 'of'>,
): Promise<Words> {
  const [first, ...rest] = words.positionals;
  if (first === undefined || positional === null) return words;
  const id = await meantId(at, first, { of: positional, ...meaning });
  return { ...words, positionals: [id, ...rest] };
}
