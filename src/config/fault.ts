import { escapedText } from '../io/terminal-text.ts';

/** A fault in a file or, as a warning, a probable one. Lines and columns count from 1. */
export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Where in the document: `routes[1].path`; empty for the file as a whole. */
  readonly path: string;
  /** What is wrong and what is allowed. */
  readonly message: string;
}

/** The faults in the order of their positions. */
export function inOrder(faults: readonly Fault[]): readonly Fault[] {
  return faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
}

/** The path to a value in a document: keys and indices. */
export type Path = readonly (string | number)[];

/** The line for the terminal: `file:line:column: path: message` (contract section 2). */
export function printFault({ file, line, column, path, message }: Fault): string {
  return `${file}:${line}:${column}: ${path === '' ? '(file)' : path}: ${message}`;
}

/** The line for a fault in a value that is in no file: `name: path: message`. */
export function printPlace({ file, path, message }: Fault): string {
  return path === '' ? `${file}: ${message}` : `${file}: ${path}: ${message}`;
}

/** `['routes', 1, 'path']` -> `routes[1].path`. A key with other characters than letters, digits, `_` and `-` is quoted. */
export function printPath(path: Path): string {
  return path
    .map((step, i) => {
      if (typeof step === 'number') return `[${step}]`;
      // Fault: a field and its secret value in quotes, `"Authorization: Bearer SECRET"`, are one key.
      if (/:\s*\S/.test(step))
        return `[${shorten(escapedText(JSON.stringify(step.slice(0, step.indexOf(':') + 1))))}…]`;
      if (!/^[\w-]{1,64}$/.test(step)) return `[${shorten(escapedText(JSON.stringify(step)))}]`;
      return i === 0 ? step : `.${step}`;
    })
    .join('');
}

/** A value as a fault shows it: short, on one line, and never an address that may contain a password. */
export function quoted(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a mapping of keys to values';
  if (typeof value === 'string' && value.includes('@')) return 'this text';
  return shorten(escapedText(JSON.stringify(value) ?? String(value)));
}

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
