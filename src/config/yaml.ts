import type { z } from 'zod';
import { type Fault, type Path, printPath } from './fault.ts';
import { DEFAULT_MESSAGES, faultsOfIssues, nearest } from './issues.ts';
import { readTree, type Tree, type TreeFault } from './yaml-tree.ts';

/** Records a fault or a warning at a path. @param part what the position points at; the value if left out */
export type Note = (path: Path, message: string, part?: 'key' | 'value') => void;

export interface FileKind<Schema extends z.ZodObject> {
  readonly schema: Schema;
  /** Paths that a later version supports: `listen.tls`, `routes.*.auth`. */
  readonly later: readonly string[];
  /**
   * Checks rules that involve several values. `raw` is the document before validation and may have faults anywhere, so
   * that an operator sees all faults at once.
   */
  check(raw: unknown, fault: Note, warn: Note): void;
}

export type Parsed<T> =
  | { readonly value: T; readonly warnings: readonly Fault[]; locate(path: Path): Fault }
  | { readonly faults: readonly Fault[]; readonly warnings: readonly Fault[] };

/**
 * Turns the text of a settings file into a validated value, or returns all its faults (contract section 2). It reads no
 * file and never throws. Faults and warnings are in the order of the file.
 */
export function parseYaml<Schema extends z.ZodObject>(
  text: string,
  file: string,
  kind: FileKind<Schema>,
): Parsed<z.output<Schema>> {
  const placed = (fault: TreeFault): Fault => ({
    file,
    line: fault.line,
    column: fault.column,
    path: printPath(fault.path),
    message: fault.message,
  });
  const { tree, faults: broken } = readTree(text.startsWith('\uFEFF') ? text.slice(1) : text);
  if (tree === null) return { faults: inOrder(broken.map(placed)), warnings: [] };
  const foreign = foreignFault(tree, Object.keys(kind.schema.shape));
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
  return { value: result.data, warnings: ordered, locate };
}

/**
 * Attack: TOLLGATE_PLANS or an argument names another file, such as one with a password or a private key. The faults
 * would quote its content in the log and on the terminal.
 * @returns a single fault without quotation if the file has none of the keys of a settings file; else null
 */
function foreignFault(tree: Tree, known: readonly string[]): TreeFault | null {
  const isSettings = isMapping(tree.value) && Object.keys(tree.value).some((key) => nearest(key, known) !== null);
  if (isSettings || isEmptyMapping(tree.value)) return null;
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

function inOrder(faults: readonly Fault[]): readonly Fault[] {
  return faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
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
