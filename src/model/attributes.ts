import { z } from 'zod';
import { Failure } from '../failure.ts';
import { META_NAME } from '../http1/field-rules.ts';
import { SCOPE_TOKEN } from '../http1/fields.ts';
import { faultOfNetwork, oneFormOfNetwork } from '../io/networks.ts';
import { faultOfCertificateName, oneFormOfCertificateName, thumbprintFrom } from './client-certificates.ts';
import { faultOfOrigin } from './origins.ts';

/*
 * The attributes of keys and customers: what operators write into a record beside its plan, its limits and its end. An entry of
 * `ATTRIBUTES` is all that an attribute needs. The stores, the admin API, the commands, the console, the library, keys.yaml, imports,
 * exports, backups and the record of changes read its value, its bounds and its words from here.
 */

/** The kinds of records that stand for callers. */
export type RecordKind = 'key' | 'customer';

/**
 * How a value is written. `line`: one line of text. `text`: text of several lines. `word`: text without blanks. `list`: several words.
 * `pairs`: a text for each name.
 */
type Form = 'line' | 'text' | 'word' | 'list' | 'pairs';

/** The words of an attribute. Sentences end without a full stop. */
interface Words {
  /** Its heading on the console: `Client certificates`. */
  readonly label: string;
  /** What it says, in commands: `Whose it is`. */
  readonly about: string;
  /** What it says, in the admin API and keys.yaml, where that is more; `about` unless given. */
  readonly description?: Readonly<Record<RecordKind, string>>;
  /** How to fill in its field on the console. */
  readonly hint?: string;
  /** The option of commands, if it is not the name of the attribute. */
  readonly option?: string;
  /** The placeholder of that option; its name in capitals unless given. */
  readonly placeholder?: string;
  /** What an entry of keys.yaml that leaves it out does to a new record. */
  readonly leftOut?: string;
  /** Only keys have it. */
  readonly ofKeysAlone?: true;
  /** The rank of its column in lists: the column with the highest rank is dropped first from a narrow table. Absent: no column. */
  readonly rank?: Readonly<Record<RecordKind, number>>;
  /** A search finds records by a part of it. */
  readonly isSearched?: true;
  /** Lists can be filtered by the whole value. */
  readonly isFilter?: true;
  /** The record of changes leaves it out. */
  readonly isUnrecorded?: true;
}

/** An attribute, with the schema of its value on each border. */
export interface Attribute<
  Given extends z.ZodType = z.ZodType,
  Edited extends z.ZodType = z.ZodType,
  Shown extends z.ZodType = z.ZodType,
  KeptValue extends z.ZodType = z.ZodType,
  InFile extends z.ZodType = z.ZodType,
> extends Words {
  readonly form: Form;
  /** The greatest number of characters, elements or pairs. */
  readonly max: number;
  /** In a request for a new record. */
  readonly given: Given;
  /** In a request for a change. */
  readonly edited: Edited;
  /** In reports and the record of changes. */
  readonly shown: Shown;
  /** In the record of a store. Loose: a later version may allow more. A record without a value lacks the member, or has null. */
  readonly kept: KeptValue;
  readonly none: null | undefined;
  /** In an entry of keys.yaml. */
  readonly inFile: InFile;
  /**
   * The value after an edit; undefined if there is none.
   * @param given null: it is removed
   * @throws Failure `refused`
   */
  readonly changed: (name: string, given: unknown, before: unknown) => unknown;
}

const textRule = 'must be text or null';
/** One line of text in the admin API. */
export const label = z
  .string(textRule)
  .nullable()
  .describe('One line of up to 100 characters. An empty text means none.')
  .meta({ id: 'Label', maxLength: 100 });
const notes = z
  .string(textRule)
  .nullable()
  .describe('Text of up to 1000 characters, for the people who look after keys. An empty text means none.')
  .meta({ id: 'Notes', maxLength: 1000 });

/** Text in the file: its characters are checked where it is put into a record, as those of every other way. */
function fileText(max: number) {
  const rule = `must be text of at most ${max} characters`;
  return z
    .string(rule)
    .refine((given) => [...given].length <= max, rule)
    .optional();
}

const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const CONTROL_IN_TEXT = /(?![\n\t])[\p{Cc}\p{Cf}]/u;

function changedText(fault: (text: string) => string | null) {
  return (name: string, given: unknown) => {
    if (given === null || given === '') return undefined;
    if (typeof given !== 'string') throw new Failure('refused', `${name} must be text.`);
    const rule = fault(given);
    if (rule === null) return given;
    throw new Failure('refused', `The ${wordOf(name)} must ${rule}.`);
  };
}

const MAX_LINE = 100;

/** One line. Lines appear in tables, logs and header fields, so they are bounded visible text. */
function line<const W extends Words>(words: W) {
  const fault = (text: string) =>
    [...text].length <= MAX_LINE && text.isWellFormed() && !CONTROL.test(text)
      ? null
      : `be at most ${MAX_LINE} characters in one line, without control characters`;
  const schemas = { given: label.optional(), edited: label.optional(), shown: label, inFile: fileText(MAX_LINE) };
  const changed = changedText(fault);
  return { ...words, ...schemas, ...ABSENT_LINE, form: 'line' as const, max: MAX_LINE, changed };
}

const ABSENT_LINE = { kept: z.string().optional(), none: undefined };
/** Records without a name or an owner have had null since the first version, which reads no other. */
const NULL_LINE = { kept: z.string().nullable(), none: null };

/** Text of several lines, for operators. */
function text<const W extends Words>(max: number, words: W) {
  const fault = (text: string) =>
    [...text].length <= max && text.isWellFormed() && !CONTROL_IN_TEXT.test(text)
      ? null
      : `be at most ${max} characters, without control characters other than line breaks and tabs`;
  const schemas = { given: notes.optional(), edited: notes.optional(), shown: notes, inFile: fileText(max) };
  return { ...words, ...schemas, ...ABSENT_LINE, form: 'text' as const, max, changed: changedText(fault) };
}

/** A value that a schema checks as a whole. */
function changedBy(schema: z.ZodType) {
  return (name: string, given: unknown) => {
    if (given === null) return undefined;
    const read = schema.safeParse(given);
    if (!read.success) {
      const { path, message } = read.error.issues[0]!;
      throw new Failure('refused', `${[name, ...path].join('.')} ${message}.`);
    }
    const value = Array.isArray(read.data) ? [...new Set(read.data)] : read.data;
    return Object.keys(value as object).length === 0 ? undefined : value;
  };
}

function list<const W extends Words>(max: number, schema: z.ZodArray<z.ZodString>, words: W) {
  const given = schema.optional();
  const edited = schema.nullable().optional();
  const schemas = { given, edited, shown: given, kept: z.array(z.string()).optional(), inFile: schema.optional() };
  return { ...words, ...schemas, none: undefined, form: 'list' as const, max, changed: changedBy(schema) };
}

function word<const W extends Words>(max: number, schema: z.ZodString, words: W) {
  const given = schema.optional();
  const edited = schema.nullable().optional();
  // An empty text removes it, as it removes other texts of the file.
  const inFile = z.union([schema, z.literal('')]).optional();
  const schemas = { given, edited, shown: given, kept: z.string().optional(), inFile };
  return { ...words, ...schemas, none: undefined, form: 'word' as const, max, changed: changedBy(schema) };
}

/** A list of at most `max` elements. */
function listOf(max: number, element: z.ZodString, rule: string) {
  return z.array(element, rule).max(max, rule);
}

const MAX_SCOPES = 32;
const scopeRule = 'must be 1 to 128 visible characters without blanks, " and \\, such as orders:write';
/** Scopes (RFC 6749 section 3.3), for a caller or a route. */
export const scopes = listOf(
  MAX_SCOPES,
  z.string(scopeRule).regex(SCOPE_TOKEN, scopeRule),
  `must be a list of at most ${MAX_SCOPES} scopes`,
);

/** A text of which `faultOf` says what is wrong, as the end of a sentence. */
function checked(rule: string, title: string, faultOf: (text: string) => string | null) {
  return z
    .string(rule)
    .superRefine((text, context) => {
      const message = faultOf(text);
      if (message !== null) context.addIssue({ code: 'custom', message });
    })
    .meta({ title });
}

const MAX_ADDRESSES = 64;
/** Addresses and networks in their one form, for a caller or a route. */
export const addresses = listOf(
  MAX_ADDRESSES,
  checked(
    'must be an IP address or network, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32',
    'IP address or network',
    faultOfNetwork,
  ).overwrite((text) => (faultOfNetwork(text) === null ? oneFormOfNetwork(text) : text)),
  `must be a list of at most ${MAX_ADDRESSES} addresses and networks`,
);

const MAX_ORIGINS = 32;
const origins = listOf(
  MAX_ORIGINS,
  checked(
    'must be an origin such as https://app.example.com or https://*.example.com',
    'origin of web pages',
    faultOfOrigin,
  ),
  `must be a list of at most ${MAX_ORIGINS} origins`,
);

const MAX_CERTIFICATES = 16;
const certificates = listOf(
  MAX_CERTIFICATES,
  checked(
    'must be a name of client certificates, such as sha256:…, uri:spiffe://example.com/shop or dns:shop.internal',
    'name of client certificates',
    faultOfCertificateName,
  ).overwrite(oneFormOfCertificateName),
  `must be a list of at most ${MAX_CERTIFICATES} names of client certificates`,
);

const boundToRule =
  'must be the SHA-256 of a client certificate: 43 characters of base64url (x5t#S256), or 64 hexadecimal digits';
const boundTo = z
  .string(boundToRule)
  .refine((text) => thumbprintFrom(text) !== null, boundToRule)
  .overwrite((text) => thumbprintFrom(text) ?? text);

const MAX_META = 16;
const metaNameRule = 'must be 1 to 32 lower-case letters, digits, _ and -, and begin with a letter';
const metaValueRule = 'must be a text of 1 to 256 characters in one line, without control characters';
const metaRule = `must be at most ${MAX_META} pairs of a name and a text, such as team: blue`;
export const metaName = z.string(metaNameRule).regex(new RegExp(`^${META_NAME}$`), metaNameRule);
const metaValue = z
  .string(metaValueRule)
  .refine(
    (text) => text !== '' && [...text].length <= 256 && text.isWellFormed() && !CONTROL.test(text),
    metaValueRule,
  );
const metaError = ({ code }: { readonly code?: string }) => (code === 'invalid_key' ? metaNameRule : metaRule);
const meta = named(z.record(metaName, metaValue, { error: metaError })).refine(
  (pairs) => Object.keys(pairs).length <= MAX_META,
  metaRule,
);
const editedMeta = named(z.record(metaName, metaValue.nullable(), { error: metaError }).nullable())
  .optional()
  .describe('Pairs of metadata. Those that are absent stay; null removes one, or all of them in place of the object.');

/** The same, and it refuses the one name that a record of zod drops without a word, because it would stand for the prototype of the object. */
function named<T extends z.ZodType>(record: T): T {
  const { $schema, ...form } = z.toJSONSchema(record);
  const whole = z.unknown().check(({ value, issues }) => {
    const isDropped = typeof value === 'object' && value !== null && Object.hasOwn(value, '__proto__');
    const dropped = isDropped ? [{ message: metaNameRule, path: ['__proto__'] }] : [];
    for (const { message, path } of [...dropped, ...(record.safeParse(value).error?.issues ?? [])])
      issues.push({ code: 'custom', message, path: [...path], input: value });
  });
  return whole.meta(form) as unknown as T;
}

/** Metadata: a value for each name. */
export type Meta = Readonly<Record<string, string>>;

function pairs<const W extends Words>(max: number, words: W) {
  const kept = z.record(z.string(), z.string()).optional();
  const schemas = { given: meta.optional(), edited: editedMeta, shown: meta.optional(), kept, inFile: meta.optional() };
  const changed = changedBy(meta);
  return {
    ...words,
    ...schemas,
    none: undefined,
    form: 'pairs' as const,
    max,
    // Pairs that are absent stay, and null removes one.
    changed: (name: string, given: unknown, before: unknown) => {
      const edits = given === null ? [] : Object.entries({ ...(before as Meta | undefined), ...(given as Meta) });
      return changed(name, Object.fromEntries(edits.filter(([, value]) => value !== null)));
    },
  };
}

/** Every attribute. Reports, tables and files have them in this order. */
export const ATTRIBUTES = {
  name: {
    ...line({
      label: 'Name',
      about: 'What to call it',
      leftOut: 'A new one has the name of its entry if it is left out.',
      rank: { key: 2, customer: 1 },
      isSearched: true,
    }),
    ...NULL_LINE,
  },
  owner: {
    ...line({
      label: 'Owner',
      about: 'Whose it is',
      hint: 'A team, a person or an address.',
      rank: { key: 5, customer: 4 },
      isSearched: true,
      isFilter: true,
    }),
    ...NULL_LINE,
  },
  notes: text(1_000, {
    label: 'Notes',
    about: 'Notes for those who look after keys',
    hint: 'For those who look after keys and customers. Callers never see them.',
    placeholder: 'TEXT',
    isUnrecorded: true,
  }),
  scopes: list(MAX_SCOPES, scopes, {
    label: 'Scopes',
    about: 'What callers may do, such as orders:write',
    description: {
      key: 'What callers may do: scopes such as orders:write, at most 32. Routes name those that they require (`scopes` in gateway.yaml)',
      customer:
        'What callers with keys and tokens of the customer may do, beside the scopes of the key or token itself, at most 32',
    },
    hint: 'What callers may do, such as orders:write: one a line. Routes require them.',
    option: 'scope',
  }),
  addresses: list(MAX_ADDRESSES, addresses, {
    label: 'Addresses',
    about: 'Where requests must come from, such as 192.0.2.7 or 10.0.0.0/8',
    description: {
      key: 'The addresses and networks that requests must come from, such as 192.0.2.7 or 2001:db8::/32, at most 64. Without any, from everywhere',
      customer:
        "The addresses and networks that requests of all its callers must come from, at most 64. A key's own list must allow the address as well",
    },
    hint: 'Addresses and networks that requests must come from, such as 10.0.0.0/8: one a line. Empty: from everywhere.',
    option: 'address',
    placeholder: 'ADDRESS|NETWORK',
  }),
  origins: list(MAX_ORIGINS, origins, {
    label: 'Origins',
    about: 'For use in web pages: the origin of pages that may use it, such as https://app.example.com',
    description: {
      key: 'For a key in a web page: the origins of the pages that may use it, such as https://app.example.com, or https://*.example.com for all subdomains, at most 32. Without any, every page and program may',
      customer:
        "The origins of the web pages that requests of all its callers must come from, at most 32. A key's own list must allow the page as well",
    },
    hint: 'For use in a web page: the pages that may use it, such as https://app.example.com: one a line.',
    option: 'origin',
  }),
  certificates: list(MAX_CERTIFICATES, certificates, {
    label: 'Client certificates',
    about:
      'A name of client certificates that stand for it: sha256: and a fingerprint, uri: and a URI, or dns: and a DNS name',
    description: {
      key: 'Names of client certificates that stand for the key, with `keys.certificates` in gateway.yaml: `sha256:` and the fingerprint of one certificate, or `uri:` or `dns:` and a name of its subjectAltName; at most 16. No two keys have the same name',
      customer: '',
    },
    hint: 'Certificates that stand for the key, such as uri:spiffe://example.com/shop, dns:shop.internal or sha256:…: one a line.',
    option: 'certificate',
    placeholder: 'NAME',
    ofKeysAlone: true,
  }),
  boundTo: word(64, boundTo, {
    label: 'Bound to',
    about: 'The SHA-256 of the client certificate without which it cannot be used, in base64url or hexadecimal',
    description: {
      key: 'The SHA-256 of the client certificate without which the key cannot be used (`x5t#S256`, RFC 8705), in base64url or in hexadecimal',
      customer: '',
    },
    hint: 'The SHA-256 of the client certificate without which the key cannot be used. Empty: none.',
    option: 'bound-to',
    placeholder: 'SHA256',
    ofKeysAlone: true,
  }),
  meta: pairs(MAX_META, {
    label: 'Metadata',
    about: 'A pair of metadata, such as team=blue',
    description: {
      key: 'Metadata: up to 16 pairs of a name (`[a-z][a-z0-9_-]{0,31}`) and a text of up to 256 characters. Rules of header fields can have them, as `{consumer.meta.NAME}`',
      customer:
        'Metadata: up to 16 pairs of a name (`[a-z][a-z0-9_-]{0,31}`) and a text of up to 256 characters. Rules of header fields have them for all its ' +
        'callers as `{consumer.meta.NAME}`; a pair of a key stands in place of one of the same name',
    },
    hint: 'Up to 16 pairs such as team=blue: one a line. Rules of header fields can have them.',
    placeholder: 'NAME=VALUE',
  }),
};

type Table = typeof ATTRIBUTES;
export type AttributeName = keyof Table;
type NameOf<K extends RecordKind> = K extends 'key'
  ? AttributeName
  : { [A in AttributeName]: Table[A] extends { readonly ofKeysAlone: true } ? never : A }[AttributeName];
/** The attributes by which lists can be filtered. */
type FilterName = {
  [A in AttributeName]: Table[A] extends { readonly isFilter: true } ? A : never;
}[AttributeName];

type Unchanged<T> = T extends readonly (infer One)[] ? readonly One[] : Readonly<T>;
type KeptValue<A extends AttributeName> = Unchanged<NonNullable<z.output<Table[A]['kept']>>>;
type NullName = { [A in AttributeName]: Table[A]['none'] extends null ? A : never }[AttributeName];
/** The attributes of a record, as a store has them. */
export type Attributes = { readonly [A in NullName]: KeptValue<A> | null } & {
  readonly [A in Exclude<AttributeName, NullName>]?: KeptValue<A>;
};
/** What is to be changed. Members that are absent stay; null removes, and so does an empty value. */
export type AttributeEdits = { readonly [A in AttributeName]?: z.input<Table[A]['edited']> };

const BY_NAME: Readonly<Record<AttributeName, Attribute>> = ATTRIBUTES;
export const ATTRIBUTE_NAMES = Object.keys(ATTRIBUTES) as readonly AttributeName[];

/** The attributes of the first version. Programs rely on their places in exports and entity tags. */
export const FIRST_ATTRIBUTES = ['name', 'owner', 'notes'] as const;
export const FURTHER_ATTRIBUTES = ATTRIBUTE_NAMES.filter(
  (name) => !(FIRST_ATTRIBUTES as readonly string[]).includes(name),
);

/** The attributes that a kind of record may have. */
export function attributesOf<K extends RecordKind>(kind: K): readonly NameOf<K>[] {
  return namesWhere((attribute) => kind === 'key' || attribute.ofKeysAlone === undefined) as NameOf<K>[];
}

function namesWhere(holds: (attribute: Attribute) => boolean): readonly AttributeName[] {
  return ATTRIBUTE_NAMES.filter((name) => holds(BY_NAME[name]));
}

const RECORDED = namesWhere(({ isUnrecorded }) => isUnrecorded === undefined);
export type Recorded = Omit<
  Attributes,
  { [A in AttributeName]: Table[A] extends { readonly isUnrecorded: true } ? A : never }[AttributeName]
>;
/** The attributes with a column in lists. */
export const LISTED = namesWhere(({ rank }) => rank !== undefined) as readonly ListedName[];
type ListedName = {
  [A in AttributeName]: Table[A] extends { readonly rank: object } ? A : never;
}[AttributeName];
export const SEARCHED = namesWhere(({ isSearched }) => isSearched === true);
export const FILTERS = namesWhere(({ isFilter }) => isFilter === true) as readonly FilterName[];

type Border = 'given' | 'edited' | 'shown' | 'inFile';
type Shape<K extends RecordKind, B extends Border> = { [A in NameOf<K>]: Table[A][B] };

/** The members of a schema for the attributes of a kind of record. */
export function shapeOf<K extends RecordKind, B extends Border>(kind: K, border: B): Shape<K, B> {
  const members = attributesOf(kind).map((name) => {
    const attribute = BY_NAME[name];
    const schema = attribute[border];
    // A schema that describes itself is the same for every attribute that has it.
    const isDescribed = schema.description !== undefined && border !== 'inFile';
    return [name, isDescribed ? schema : schema.describe(descriptionOf(attribute, kind, border))] as const;
  });
  return Object.fromEntries(members) as Shape<K, B>;
}

function descriptionOf({ about, description, form, max, leftOut }: Attribute, kind: RecordKind, border: Border) {
  const sentence = `${description?.[kind] || about}.`;
  if (border !== 'inFile' || (form !== 'line' && form !== 'text' && form !== 'word')) return sentence;
  if (form === 'word') return `${sentence} An empty text removes it.`;
  return `${sentence.slice(0, -1)}, at most ${max} characters. ${leftOut ?? 'An empty text removes it.'}`;
}

/** The members of the schema of a recorded state. A state that an earlier version has recorded lacks later attributes. */
export function recordedShape(kind: RecordKind): z.ZodRawShape {
  const members = Object.entries<z.ZodType>(shapeOf(kind, 'shown'))
    .filter(([name]) => (RECORDED as readonly string[]).includes(name))
    .map(([name, shown]) => {
      const isAlways = BY_NAME[name as AttributeName].none === null || shown instanceof z.ZodOptional;
      return [name, isAlways ? shown : shown.optional()];
    });
  return Object.fromEntries(members);
}

const filterRule = 'must be a text';

/** The members of the input of a list: the attributes by which it can be filtered. */
export function filterShape(): { [A in FilterName]: z.ZodOptional<z.ZodString> } {
  const filters = FILTERS.map((name) => {
    const description = `The whole ${wordOf(name)}, in its case.`;
    return [name, z.string(filterRule).optional().describe(description).meta({ minLength: 1 })];
  });
  return Object.fromEntries(filters);
}

/** The attributes that are text, as a part of a sentence: `name, owner, notes`. */
export const TEXT_WORDS = namesWhere(({ form }) => form === 'line' || form === 'text')
  .map(wordOf)
  .join(', ');

/** Where a search looks for a text, as a part of a sentence: `id, name or owner`. @param further what it looks through beside these */
export function searchedWords(...further: readonly string[]): string {
  const words = ['id', ...SEARCHED.map(wordOf), ...further];
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** What a list is filtered by; null: not by this attribute. */
export type FilterValues = { readonly [A in FilterName]: string | null };

/** The filters of a list, of those that were given. */
export function filterValues(given: Readonly<Record<string, unknown>> = {}): FilterValues {
  return Object.fromEntries(FILTERS.map((name) => [name, given[name] ?? null])) as FilterValues;
}

/** Whether a record has the values that a list is filtered by. */
export function hasValues(record: Partial<Attributes>, filter: FilterValues): boolean {
  return FILTERS.every((name) => filter[name] === null || record[name] === filter[name]);
}

/** The members of the schema of a stored record. */
export const KEPT = Object.fromEntries(ATTRIBUTE_NAMES.map((name) => [name, BY_NAME[name].kept])) as {
  [A in AttributeName]: Table[A]['kept'];
};

/** The attributes that a record has, without its other members. */
export function attributesIn(record: Partial<Attributes>): Partial<Attributes> {
  const present = ATTRIBUTE_NAMES.filter((name) => record[name] != null).map((name) => [name, record[name]]);
  return Object.fromEntries(present);
}

/** Every attribute of a record, null where it has none. */
export function allAttributes(record: Partial<Attributes>): { [A in AttributeName]: KeptValue<A> | null } {
  return Object.fromEntries(ATTRIBUTE_NAMES.map((name) => [name, record[name] ?? null])) as never;
}

/** The attributes that the record of changes has of a record. */
export function recordedAttributes(record: Partial<Attributes>): Recorded {
  const members = RECORDED.map((name) => [name, record[name] ?? BY_NAME[name].none] as const);
  return Object.fromEntries(members.filter(([, value]) => value !== undefined)) as unknown as Recorded;
}

/** A record without its attributes. */
export function withoutAttributes<Of extends Partial<Attributes>>(record: Of): Omit<Of, AttributeName> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => !Object.hasOwn(ATTRIBUTES, name))) as Omit<
    Of,
    AttributeName
  >;
}

/**
 * The attributes of a record after a change.
 * @throws Failure `refused` with the first fault
 */
export function changedAttributes(before: Partial<Attributes>, edits: AttributeEdits): Attributes {
  const members = ATTRIBUTE_NAMES.map((name) => {
    const { changed, none } = BY_NAME[name];
    const given = edits[name];
    return [name, (given === undefined ? before[name] : changed(name, given, before[name])) ?? none] as const;
  });
  return Object.fromEntries(members.filter(([, value]) => value !== undefined)) as Attributes;
}

type AttributesReport<K extends RecordKind> = Readonly<z.output<z.ZodObject<Shape<K, 'shown'>>>>;

/** The attributes as reports have them: text that is not there is null, and other values are absent. */
export function shownAttributes<K extends RecordKind>(kind: K, record: Partial<Attributes>): AttributesReport<K> {
  const members = attributesOf(kind).map((name) => [name, record[name] ?? nullIfShown(BY_NAME[name])] as const);
  return Object.fromEntries(members.filter(([, value]) => value !== undefined)) as never;
}

function nullIfShown({ form }: Attribute): null | undefined {
  return form === 'line' || form === 'text' ? null : undefined;
}

/** The edits that make metadata what is wanted, as a whole. */
export function metaEdits(before: Meta | undefined, wanted: Meta): NonNullable<AttributeEdits['meta']> {
  return { ...Object.fromEntries(Object.keys(before ?? {}).map((name) => [name, null])), ...wanted };
}

/** A value in one line, for people. */
export function valueText(value: Attributes[AttributeName]): string {
  if (value == null) return '';
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.join(' ');
  return Object.entries(value)
    .map(([name, text]) => `${name}=${text}`)
    .join(', ');
}

/** A value as a cell of CSV, which `valueOfCell` reads. */
export function cellOf(value: Attributes[AttributeName]): string {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? JSON.stringify(value)
    : valueText(value);
}

/** Reads a cell of CSV. The value is not checked. @throws Failure `refused` if it has not the form */
export function valueOfCell(name: AttributeName, cell: string): unknown {
  const { form } = BY_NAME[name];
  if (form === 'list') return cell.split(/ +/);
  if (form !== 'pairs') return cell;
  try {
    return JSON.parse(cell);
  } catch {
    throw new Failure('refused', `${name} must be a JSON object, such as {"team":"blue"}.`);
  }
}

/** An attribute in a sentence: `costCentre` is `cost centre`. */
export function wordOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
