import { z } from 'zod';
import { Failure } from '../../failure.ts';
import { visible } from '../operation-values.ts';

// How the input of an operation is read: from JSON, from the parameters of a query, from the options of a command.

/** Sentences about an input. A body may have a fault for every few bytes. */
const MAX_SENTENCES = 10;

/** The members of an input, in its order; empty if it has none. */
export function membersOf(input: z.ZodType | undefined): Readonly<Record<string, z.ZodType>> {
  return input instanceof z.ZodObject ? (input.shape as Record<string, z.ZodType>) : {};
}

/** Whether the input may be left out. */
export function isOptional(input: z.ZodType): boolean {
  return input.safeParse({}).success;
}

/**
 * Reads an input that was sent as JSON, or given as an object.
 * @throws Failure `refused` with a sentence for each fault, which names the member
 */
export function readInput<In extends z.ZodType>(input: In, given: unknown): z.output<In> {
  if (given === undefined && !isOptional(input)) {
    throw new Failure('refused', 'The body is missing: it must be a JSON object.');
  }
  // Null has always been accepted in place of members that may all be left out.
  const isEmpty = given === null && isOptional(input) && Object.keys(membersOf(input)).length > 0;
  return checked(input, given === undefined || isEmpty ? {} : given);
}

/**
 * Reads the parameters of a query, which are texts.
 * @throws Failure `refused` with a sentence for each fault
 */
export function readTexts<In extends z.ZodType>(
  input: In,
  texts: Readonly<Record<string, string | undefined>>,
): z.output<In> {
  return checked(input, typed(input, texts));
}

/**
 * Reads the options of a command. Values that are no texts have been read before.
 * @param nameOf how the option of a member is called
 * @param inWords a message with the options in place of the members that it names
 * @throws Failure `bad_usage` with a sentence for each fault, which shows the value, unless it may be a secret
 */
export function readWords<In extends z.ZodType>(
  input: In,
  words: Readonly<Record<string, unknown>>,
  nameOf: (member: string) => string,
  inWords: (message: string) => string,
): z.output<In> {
  const result = input.safeParse(typed(input, words));
  if (result.success) return result.data;
  const faults = result.error.issues.map(({ path, message }) => {
    const [member] = path;
    if (member === undefined) return inWords(message);
    const given = path.reduce<unknown>((of, key) => (of as Record<PropertyKey, unknown>)?.[key], words);
    if (given === undefined) return `${nameOf(String(member))} is missing; it ${message}.`;
    if (isSecret(membersOf(input)[String(member)])) return `${nameOf(String(member))} ${message}.`;
    return `${nameOf(String(member))} is '${visible(String(given))}'; it ${message}.`;
  });
  throw new Failure('bad_usage', joined(faults));
}

/** Whether a member is a secret or a part of one, or may be given one by mistake: then no message has it. */
function isSecret(member: z.ZodType | undefined): boolean {
  return member?.meta()?.format === 'password';
}

/** Texts as the kinds of values that the members of an input have. */
function typed(input: z.ZodType, texts: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const members = membersOf(input);
  const given = Object.entries(texts).filter(([, text]) => text !== undefined);
  return Object.fromEntries(given.map(([name, text]) => [name, typedValue(text, members[name])]));
}

/** A text as the kind of value that a member has. A text of another form stays one, which the schema refuses. */
function typedValue(text: unknown, member: z.ZodType | undefined): unknown {
  if (typeof text !== 'string') return text;
  const kind = kindOf(member);
  if (kind === 'number' && /^(0|-?[1-9][0-9]{0,14})$/.test(text)) return Number(text);
  if (kind === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

/** The kind of a member without what makes it optional or gives it a default. */
export function kindOf(member: z.ZodType | undefined): string | undefined {
  return member === undefined ? undefined : layersOf(member).at(-1)!.def.type;
}

/** The texts of which a member may be one; empty if it is of another kind. */
export function choicesOf(member: z.ZodType): readonly string[] {
  const inner = layersOf(member).at(-1);
  if (inner instanceof z.ZodLiteral) return [...inner.values].map(String);
  return inner instanceof z.ZodEnum ? inner.options.map(String) : [];
}

/** Whether a member may be null. */
export function isNullable(member: z.ZodType): boolean {
  return layersOf(member).some((layer) => layer instanceof z.ZodNullable);
}

/** A schema, and those within it that lack what makes it optional or null or gives it a default. */
export function layersOf(member: z.ZodType): readonly z.ZodType[] {
  const isWrapped =
    member instanceof z.ZodOptional || member instanceof z.ZodDefault || member instanceof z.ZodNullable;
  return isWrapped ? [member, ...layersOf(member.unwrap() as z.ZodType)] : [member];
}

function checked<In extends z.ZodType>(input: In, value: unknown): z.output<In> {
  const result = input.safeParse(value);
  if (result.success) return result.data;
  const { issues } = result.error;
  // A rule for the whole is of no use while a member is wrong.
  const ofMembers = issues.filter(({ code, path }) => code !== 'custom' || path.length > 0);
  throw new Failure(
    'refused',
    joined((ofMembers.length > 0 ? ofMembers : issues).flatMap((one) => sentencesOf(one, value))),
  );
}

function joined(sentences: readonly string[]): string {
  const all = [...new Set(sentences)];
  const more = all.length - MAX_SENTENCES;
  return [...all.slice(0, MAX_SENTENCES), ...(more > 0 ? [`There are ${more} more faults.`] : [])].join(' ');
}

function sentencesOf(issue: z.core.$ZodIssue, value: unknown): readonly string[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => `There is no member "${visible([...path, key].join('.'))}".`);
  }
  const [first] = path;
  if (first === undefined) return [issue.code === 'custom' ? issue.message : 'The body must be a JSON object.'];
  const isMissing = path.length === 1 && !Object.hasOwn(value as object, first);
  return [isMissing ? `${first} is missing: it ${issue.message}.` : `${path.join('.')} ${issue.message}.`];
}

/** The names of the members in the path of an operation, in their order. */
export function pathMembersOf({ line }: { readonly line: string }): readonly string[] {
  return [...line.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}

/** What the admin API answers to a path that it does not have, by which a command recognises an earlier version. */
export const NO_OPERATION = 'There is nothing here. GET /admin/openapi.json describes the API.';

/** The method and the path below `/admin` of an endpoint. */
export function lineOf(line: string): { readonly method: string; readonly path: string } {
  const [method = '', path = ''] = line.split(' ');
  return { method, path };
}

/** Whether an endpoint has its input from the query: GET and DELETE have no body. */
export function hasQuery(line: string): boolean {
  return ['GET', 'DELETE'].includes(lineOf(line).method);
}
