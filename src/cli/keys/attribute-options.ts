import type { z } from 'zod';
import { Failure } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import {
  ATTRIBUTE_NAMES,
  ATTRIBUTES,
  type Attribute,
  type AttributeName,
  type Attributes,
  FILTERS,
  FIRST_ATTRIBUTES,
  LISTED,
  metaName,
  valueText,
  wordOf,
} from '../../model/attributes.ts';
import { layersOf } from '../../operations/catalogue/input.ts';
import type { Form } from '../terminal/command.ts';

// The attributes of keys and customers, as options, columns and lines of commands.

const BY_NAME: Readonly<Record<AttributeName, Attribute>> = ATTRIBUTES;

function optionOf(name: AttributeName): string {
  return BY_NAME[name].option ?? wordOf(name).replaceAll(' ', '-');
}

function placeholderOf(name: AttributeName): string {
  return BY_NAME[name].placeholder ?? optionOf(name).toUpperCase().replaceAll('-', '_');
}

function aboutOf(name: AttributeName, what: 'new' | 'change'): string {
  const { about, form, max } = BY_NAME[name];
  const sentence = form === 'line' || form === 'text' ? `${about}, up to ${max} characters` : about;
  if (form === 'list' || form === 'pairs') {
    if (what === 'new') return `${sentence}. May be given up to ${max} times.`;
    if (form === 'list') return `${sentence}. Give all of them; one empty ${optionOf(name)} removes them.`;
    return `${sentence}; team= removes it, and the others stay. One empty text removes all of them.`;
  }
  return what === 'new' ? `${sentence}.` : `${sentence}; an empty text removes it.`;
}

/** The filters of a list, as options. @param what `Keys` */
export function spelledFilters(what: string): Readonly<Record<string, Form>> {
  return Object.fromEntries(
    FILTERS.map((name) => [
      name,
      { option: optionOf(name), value: placeholderOf(name), about: `${what} of this ${wordOf(name)}.` },
    ]),
  );
}

/**
 * The form of an attribute in a new record or in a change of one; null if the member of the input is none.
 * @param layers of its schema
 */
export function attributeForm(member: string, layers: readonly z.ZodType[], what: 'new' | 'change'): Form | null {
  const name = ATTRIBUTE_NAMES.find((one) => one === member);
  const { form, given, edited } = BY_NAME[name ?? 'name'];
  const inner = layersOf(what === 'new' ? given : edited).at(-1);
  if (name === undefined || layers.at(-1) !== inner) return null;
  const read = READ[form];
  return {
    option: optionOf(name),
    value: placeholderOf(name),
    about: aboutOf(name, what),
    ...(form === 'list' || form === 'pairs' ? { isMultiple: true } : {}),
    ...(read === undefined ? {} : { read }),
  };
}

/** How the values that are no plain text are read. */
const READ: { readonly [F in Attribute['form']]?: (given: never) => unknown } = {
  list: withoutEmpty,
  pairs: pairsFrom,
  word: (text: string) => (text === '' ? null : text),
};

/** One empty text stands for nothing. */
function withoutEmpty(texts: readonly string[]): readonly string[] {
  return texts.length === 1 && texts[0] === '' ? [] : texts;
}

/**
 * Reads every `--meta NAME=VALUE`. `NAME=` removes one pair, and one empty text all of them.
 * @throws Failure `bad_usage`
 */
function pairsFrom(texts: readonly string[]): Readonly<Record<string, string | null>> | null {
  if (texts.length === 1 && texts[0] === '') return null;
  const pairs = texts.map((text) => {
    const at = text.indexOf('=');
    if (at === -1) throw new Failure('bad_usage', `--meta is '${text}'; it must be NAME=VALUE, such as team=blue.`);
    const name = metaName.safeParse(text.slice(0, at));
    if (!name.success)
      throw new Failure('bad_usage', `--meta is '${text}'; its name ${name.error.issues[0]!.message}.`);
    return [name.data, at === text.length - 1 ? null : text.slice(at + 1)] as const;
  });
  const twice = pairs.find(([name], i) => pairs.findIndex(([other]) => other === name) < i);
  if (twice !== undefined) throw new Failure('bad_usage', `--meta is given twice for ${twice[0]}.`);
  return Object.fromEntries(pairs);
}

const isFirst = (name: AttributeName) => (FIRST_ATTRIBUTES as readonly string[]).includes(name);

/** The lines of a record that is shown: one for each first column of lists, and one for each other attribute that the record has. */
export function attributeRows(
  record: { readonly [A in AttributeName]?: Attributes[A] | null | undefined },
): [string, string][] {
  return ATTRIBUTE_NAMES.flatMap((name): [string, string][] => {
    const value = record[name] ?? null;
    if (value === null) return (LISTED as readonly string[]).includes(name) && isFirst(name) ? [[name, '-']] : [];
    // The notes have lines of their own, which the caller indents.
    const text = valueText(value);
    return [[name, BY_NAME[name].form === 'text' ? text : escapedText(text)]];
  });
}
