import { dirname, extname, resolve } from 'node:path';
import type { Fault, Path } from './fault.ts';
import type { GatewayFile } from './gateway-schema.ts';
import { readSettingsFile, signatureOf, versionOf } from './read-file.ts';

/*
 * The files that `policies` of routes name. They are read here, where the settings are read, so that a change of one is a change
 * of the settings; src/serve/loaded-policies.ts imports them.
 */

/** A file that is a policy. */
export interface PolicyFile {
  /** Absolute. */
  readonly path: string;
  /** The beginning of the SHA-256 of all `files`. */
  readonly version: string;
  /** The file, and those of the operator that it imports: absolute, in the order in which they were found. */
  readonly files: readonly string[];
}

/** What the names in `policies` stand for. */
export type PolicySource =
  /** Files, with relative paths from this folder. */
  | { readonly folder: string }
  /** The functions of these names, which a program has given to `createGateway`. */
  | { readonly given: readonly string[] };

interface ReadPolicies {
  /** By name; empty for those that a program has given. */
  readonly policies: ReadonlyMap<string, PolicyFile>;
  /** `signatureOf` the files of all policies in their order, each taken before the file was read. */
  readonly signature: string;
  readonly faults: readonly Fault[];
}

/** Reads the policies of all routes, each once. @param gateway the positions of gateway.yaml */
export function readPolicies(
  { routes }: Pick<GatewayFile, 'routes'>,
  source: PolicySource,
  gateway: { locate(path: Path): Fault },
): ReadPolicies {
  const policies = new Map<string, PolicyFile>();
  const signatures: string[] = [];
  const faults: Fault[] = [];
  const found = new Set<string>();
  for (const [route, { policies: names }] of routes.entries()) {
    for (const [i, name] of (names ?? []).entries()) {
      const message = 'given' in source ? faultOfGiven(name, source.given) : faultOfFile(name, source.folder);
      if (message !== null) faults.push({ ...gateway.locate(['routes', route, 'policies', i]), message });
      else if ('folder' in source && !found.has(name)) {
        const path = resolve(source.folder, name);
        const read = filesOf(path);
        signatures.push(read.signature);
        policies.set(name, { path, version: read.version, files: read.files });
      }
      found.add(name);
    }
  }
  return { policies, signature: signatures.join(';'), faults };
}

function faultOfGiven(name: string, given: readonly string[]): string | null {
  if (given.includes(name)) return null;
  const known = given.length === 0 ? 'the program gives none' : `they are ${given.join(', ')}`;
  return `is not one of the \`policies\` that \`createGateway\` was given; ${known}.`;
}

/** What Node.js loads as a module, types included. */
const EXTENSIONS = ['.ts', '.mts', '.js', '.mjs'];

function faultOfFile(name: string, folder: string): string | null {
  if (!EXTENSIONS.includes(extname(name))) return `must be a file that ends with ${EXTENSIONS.join(', ')}.`;
  const path = resolve(folder, name);
  // Attack: a name of a pipe, opened again at a reload, would keep the thread that reads for ever.
  const read = readSettingsFile(path, '', true);
  return 'fault' in read ? `names the file ${path}, which ${read.fault.message.trim()}` : null;
}

/** The version of a policy as its files are now. */
export function versionOfPolicy(path: string): string {
  return filesOf(path).version;
}

/** Files of one policy that are watched for changes. */
const MAX_FILES = 200;

/**
 * The file of a policy with the files that it imports by a relative path, and those that they import. Paths that are computed when the
 * policy runs are not found, and neither are packages.
 */
function filesOf(path: string): {
  readonly files: readonly string[];
  readonly version: string;
  readonly signature: string;
} {
  const files = new Set([path]);
  const texts: string[] = [];
  const signatures: string[] = [];
  // A loop over a set reaches the entries that are added meanwhile.
  for (const file of files) {
    const signature = signatureOf([file]);
    signatures.push(signature);
    const read = readSettingsFile(file, '', true);
    const text = 'text' in read ? read.text : '';
    // Of a file that is missing as yet, or too long to be read here, a change is seen nevertheless.
    texts.push(file, 'text' in read ? text : signature);
    if (!EXTENSIONS.includes(extname(file))) continue;
    for (const imported of importsIn(text)) {
      if (files.size < MAX_FILES) files.add(resolve(dirname(file), imported));
    }
  }
  return { files: [...files], version: versionOf(texts.join('\0')), signature: signatures.join(';') };
}

const IMPORT = /\b(?:from|import)\b[\s(]{0,100}(['"])(\.{1,2}\/[^'"\n]{1,1000})\1/g;

/** The relative paths that a module imports. One in a comment is found too, and does no harm: it is only watched. */
function importsIn(text: string): readonly string[] {
  return [...text.matchAll(IMPORT)].map(([, , path]) => path!);
}
