import { z } from 'zod';
import { type Fault, inOrder, type Path, printPath, quoted } from './fault.ts';
import { OF_SETTINGS, readTree, type Tree, type TreeFault } from './yaml-tree.ts';

/** Records a fault or a warning at a path. @param part what the position points at; the value if left out */
export type Note = (path: Path, message: string, part?: 'key' | 'value') => void;

/** A settings file is a mapping, or a list of mappings. */
type FileSchema = z.ZodObject | z.ZodArray<z.ZodObject>;

export interface FileKind<Schema extends FileSchema> {
  readonly schema: Schema;
  /** Names, values and marks that one file may have; as many as a file of settings if left out. */
  readonly maxParts?: number;
  /**
   * Checks rules that involve several values. `raw` is the document before validation and may have faults anywhere, so
   * that an operator sees all faults at once.
   */
  check(raw: unknown, fault: Note, warn: Note): void;
}

export type ParseResult<T> =
  | { readonly value: T; readonly warnings: readonly Fault[]; locate(path: Path): Fault }
  | { readonly faults: readonly Fault[]; readonly warnings: readonly Fault[] };

/**
 * Turns the text of a settings file into a validated value, or returns all its faults (contract section 2). It reads no
 * file and never throws. Faults and warnings are in the order of the file.
 */
export function parseYaml<Schema extends FileSchema>(
  text: string,
  file: string,
  kind: FileKind<Schema>,
): ParseResult<z.output<Schema>> {
  const placed = (fault: TreeFault): Fault => ({
    file,
    line: fault.line,
    column: fault.column,
    path: printPath(fault.path),
    message: fault.message,
  });
  const { tree, faults: broken } = readTree(
    text.startsWith('\uFEFF') ? text.slice(1) : text,
    kind.maxParts === undefined ? OF_SETTINGS : { ...OF_SETTINGS, parts: kind.maxParts },
  );
  if (tree === null) return { faults: inOrder(broken.map(placed)), warnings: [] };
  const foreign = foreignFault(tree, knownKeys(kind.schema));
  if (foreign !== null) return { faults: [placed(foreign)], warnings: [] };
  const result = kind.schema.safeParse(tree.value, { error: DEFAULT_MESSAGES });
  const wrong = result.success ? [] : faultsOfIssues(result.error.issues, { tree, ...kind });
  const warnings: TreeFault[] = [];
  kind.check(tree.value, noteInto(wrong, tree), noteInto(warnings, tree));
  const isUnreadable = withinOneOf(tree.unreadable);
  const faults = [...broken, ...wrong.filter(({ path }) => !isUnreadable(path))];
  const ordered = inOrder(warnings.map(placed));
  if (!result.success || faults.length > 0) return { faults: inOrder(faults.map(placed)), warnings: ordered };
  const locate = (path: Path) => placed({ ...tree.locate(path, 'value'), path, message: '' });
  return { value: result.data as z.output<Schema>, warnings: ordered, locate };
}

function knownKeys(schema: FileSchema): readonly string[] {
  return Object.keys(schema instanceof z.ZodArray ? schema.element.shape : schema.shape);
}

/**
 * Attack: TOLLGATE_PLANS or an argument names another file, such as one with a password or a private key. The faults
 * would quote its content in the log and on the terminal.
 * @returns a single fault without quotation if the file has none of the keys of a settings file; else null
 */
function foreignFault(tree: Tree, known: readonly string[]): TreeFault | null {
  const entries = Array.isArray(tree.value) ? tree.value : [tree.value];
  const hasKnownKey = (value: unknown) =>
    isMapping(value) && Object.keys(value).some((key) => nearest(key, known) !== null);
  if (entries.length === 0 || entries.some(hasKnownKey) || isEmptyMapping(tree.value)) return null;
  const message = `is no such settings file: it must have one of the keys ${known.join(', ')}. Name another file.`;
  return { line: 1, column: 1, path: [], message };
}

function isEmptyMapping(value: unknown): boolean {
  return isMapping(value) && Object.keys(value).length === 0;
}

/** Tests whether a path is one of these or lies below one. A Set, since a file may have ten thousand of either. */
function withinOneOf(paths: readonly Path[]): (path: Path) => boolean {
  const outer = new Set(paths.map((path) => JSON.stringify(path)));
  if (outer.size === 0) return () => false;
  return (path) => [...path, null].some((_, length) => outer.has(JSON.stringify(path.slice(0, length))));
}

function noteInto(notes: TreeFault[], tree: Tree): Note {
  return (path, message, part = 'value') => {
    notes.push({ ...tree.locate(path, part), path, message });
  };
}

/** The value of a key in a document that may not be valid; undefined if there is none. */
export function field(value: unknown, key: string): unknown {
  return isMapping(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** The value if it is a list, else an empty list. */
export function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

type Issue = z.core.$ZodIssue;

/**
 * Turns the issues that zod found into faults with positions.
 *
 * The value that was found is appended to messages of the form `must be …`; other messages stay as they are.
 */
function faultsOfIssues(issues: readonly Issue[], { tree, schema }: { tree: Tree; schema: z.ZodType }): TreeFault[] {
  let json: Json | null = null;
  const faults = issues
    .flatMap((issue) => flatten(issue, []))
    .flatMap(({ issue, path }): TreeFault[] => {
      if (issue.code === 'unrecognized_keys') {
        // Computed once: a file may have thousands of unknown keys, and a starting gateway serves no request meanwhile.
        json ??= z.toJSONSchema(schema, { io: 'input' }) as Json;
        const known = keysAt(json, path);
        return issue.keys.map((key) => ({
          ...tree.locate([...path, key], 'key'),
          path: [...path, key],
          message: unknownKeyMessage(key, known),
        }));
      }
      const part = issue.code === 'invalid_key' ? 'key' : 'value';
      return [{ ...tree.locate(path, part), path, message: messageOf(issue, valueAt(tree.value, path)) }];
    });
  // One value can break several rules of its schema that have the same message.
  return [...new Map(faults.map((fault) => [JSON.stringify([fault.path, fault.message]), fault])).values()];
}

interface PlacedIssue {
  readonly issue: Issue;
  readonly path: Path;
}

/** Replaces the issue of a union by those of the alternative that has the right type. */
function flatten(issue: Issue, around: Path): PlacedIssue[] {
  const path = [...around, ...(issue.path as Path)];
  if (issue.code !== 'invalid_union') return [{ issue, path }];
  const meant = meantIn(issue);
  return meant === undefined ? [{ issue, path }] : meant.flatMap((inner) => flatten(inner, path));
}

type UnionIssue = Extract<Issue, { code: 'invalid_union' }>;

/** The issues of the alternative that is meant: it has all keys of the value, or lacks one that all others lack too. */
function meantIn({ errors }: UnionIssue): readonly Issue[] | undefined {
  const typed = errors.filter(
    (branch) => branch.length > 0 && branch.every((inner) => inner.path.length > 0 || isInside(inner)),
  );
  const lacking = typed.map((branch) => branch.flatMap((inner) => (isUnknownKeys(inner) ? inner.keys : [])));
  const whole = lacking.findIndex((keys) => keys.length === 0);
  if (whole >= 0) return typed[whole];
  return lacking[0]?.some((key) => lacking.every((keys) => keys.includes(key))) ? typed[0] : undefined;
}

function isUnknownKeys(issue: Issue): issue is Extract<Issue, { code: 'unrecognized_keys' }> {
  return issue.code === 'unrecognized_keys' && issue.path.length === 0;
}

/** Whether a value of the right type has this fault. */
function isInside(issue: Issue): boolean {
  if (issue.code === 'invalid_union') return meantIn(issue) !== undefined;
  return issue.code === 'unrecognized_keys' || issue.code === 'custom';
}

function messageOf(issue: Issue, found: unknown): string {
  const inner = issue.code === 'invalid_key' ? issue.issues[0] : undefined;
  const allowed = (inner ?? issue).message.replace(/\.$/, '');
  if (issue.code === 'invalid_key') return `is not a name: it ${allowed}.`;
  if (!allowed.startsWith('must be ')) return `${allowed}.`;
  if (found === undefined) return `is missing: it ${allowed}.`;
  // Fault: `Authorization:Bearer SECRET` without the space behind the colon is a text where a mapping belongs.
  if (typeof found === 'string' && expectsMembers(issue)) return `${allowed}, not a text.`;
  return `${allowed}, not ${quoted(found)}.`;
}

function expectsMembers(issue: Issue): boolean {
  return issue.code === 'invalid_type' && ['object', 'record', 'map', 'array'].includes(issue.expected);
}

/** The messages of schemas that have none of their own. */
const DEFAULT_MESSAGES: z.core.$ZodErrorMap = (issue) => {
  if (issue.code === 'invalid_type') return `must be ${TYPES[issue.expected] ?? issue.expected}`;
  if (issue.code === 'invalid_value') return `must be one of ${issue.values.map(String).join(', ')}`;
  return undefined;
};

const TYPES: Readonly<Record<string, string>> = {
  object: 'a mapping of keys to values',
  record: 'a mapping of names to values',
  array: 'a list',
  string: 'text',
  boolean: '`true` or `false`',
  number: 'a number',
  int: 'a whole number',
};

function unknownKeyMessage(key: string, known: readonly string[]): string {
  const near = nearest(key, known);
  // `timeout` where there are `connectTimeout` and `responseTimeout`.
  const longer = known.filter((name) => key.length >= 4 && name.toLowerCase().endsWith(key.toLowerCase()));
  const meant = near === null ? longer : [near];
  const hint = meant.length === 0 ? '' : ` Did you mean \`${meant.join('` or `')}\`?`;
  return `is an unknown key.${hint} Allowed here: ${known.join(', ')}.`;
}

type Json = Exclude<z.core.JSONSchema._JSONSchema, boolean>;

/** The keys that a JSON Schema allows at a path. */
function keysAt(schema: Json, path: Path): readonly string[] {
  const isSchema = (value: unknown): value is Json => typeof value === 'object' && value !== null;
  const alternatives = (json: Json): Json[] => [json, ...(json.anyOf ?? []).filter(isSchema)];
  let schemas = alternatives(schema);
  for (const step of path) {
    schemas = schemas
      .map((json) => (typeof step === 'number' ? json.items : (json.properties?.[step] ?? json.additionalProperties)))
      .filter(isSchema)
      .flatMap(alternatives);
  }
  return schemas.flatMap((json) => Object.keys(json.properties ?? {}));
}

/** The known word that is most similar to a mistyped one; null if none is similar. */
export function nearest(word: string, known: readonly string[]): string | null {
  const ranked = known
    .map((name) => ({ name, distance: distance(word.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance)[0];
  return ranked !== undefined && ranked.distance <= Math.min(3, Math.floor(word.length / 2)) ? ranked.name : null;
}

/** The Levenshtein distance, row by row. `a` is cut to 40 characters, more than any known key has. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...a.slice(0, 40)].entries()) {
    const next = [i + 1];
    for (let j = 1; j <= b.length; j += 1) {
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (letter === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, step) => (at !== null && typeof at === 'object' ? (at as Record<string | number, unknown>)[step] : undefined),
    value,
  );
}
