import { JsonFault, readJson } from '../validate/json.ts';
import type { Fault } from './fault.ts';
import { readSettingsFile } from './read-file.ts';
import { asArray, field, isMapping } from './yaml.ts';
import { readTree } from './yaml-tree.ts';

/*
 * OpenAPI descriptions: files of others, read within bounds.
 */

/** An OpenAPI description as it stands in its file. Whole numbers beyond 2^53 are bigints. */
export interface Description {
  readonly file: string;
  readonly text: string;
  readonly root: Readonly<Record<string, unknown>>;
  readonly version: '3.0' | '3.1';
  /** The path of its first server, without a slash at its end: `/v1`, or empty. */
  readonly basePath: string;
}

/** Largest description, in bytes. */
const MAX_BYTES = 4 * 1024 * 1024;
/** Names, values and marks of one in YAML, each of which takes half a kilobyte of memory until it has been read. */
const MAX_PARTS = 250_000;
const MAX_DEPTH = 64;

/** The methods that a path of a description may have. `trace` is never served (contract section 2). */
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch'] as const;

/**
 * Reads an OpenAPI description of version 3.0 or 3.1, in YAML or JSON.
 *
 * Attack: a description with aliases that stand for aliases, of ten megabytes, or nested ten thousand levels deep. It has
 * the bounds of this file, and those of settings files against the rest (`readTree`). Nothing that it refers to is fetched.
 */
export function readDescription(file: string, hint: string, isReload = false): Description | { readonly fault: Fault } {
  const read = readSettingsFile(file, hint, isReload, MAX_BYTES);
  if ('fault' in read) return read;
  const text = read.text.startsWith('\uFEFF') ? read.text.slice(1) : read.text;
  const found = /^\s*\{/.test(text) ? jsonOf(text) : yamlOf(text);
  if ('message' in found) return { fault: { file, path: '', ...found } };
  const { root } = found;
  const at = (path: string, message: string) => ({ fault: { file, line: 1, column: 1, path, message } });
  if (!isMapping(root)) return at('', 'is not an OpenAPI description: it must have `openapi` and `paths`.');
  if (field(root, 'swagger') !== undefined) {
    return at(
      '/swagger',
      'is a description of Swagger 2.0; convert it to OpenAPI 3, for example with `npx swagger2openapi FILE`.',
    );
  }
  const [, version] = /^(3\.[01])\.[0-9]+(?:-.*)?$/.exec(String(field(root, 'openapi'))) ?? [];
  if (version === undefined) return at('/openapi', 'must be a version 3.0 or 3.1 of OpenAPI, such as 3.1.0.');
  if (version === '3.0' && !isMapping(field(root, 'paths'))) return at('/paths', 'must be a mapping of paths.');
  const basePath = basePathOf(root);
  if (basePath === null) return at('/servers/0/url', 'must be a URL or a path without a query.');
  return { file, text, root, version: version as '3.0' | '3.1', basePath };
}

type DocumentOrFault = { readonly root: unknown } | Pick<Fault, 'line' | 'column' | 'message'>;

function jsonOf(text: string): DocumentOrFault {
  try {
    return { root: readJson(text) };
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return { line: 1, column: 1, message: `${error.pointer.slice(0, 200)} ${error.message}.`.trim() };
  }
}

function yamlOf(text: string): DocumentOrFault {
  const { tree, faults } = readTree(text, { depth: MAX_DEPTH, parts: MAX_PARTS, isForeign: true });
  const [first] = faults;
  if (first !== undefined) return first;
  return { root: plain(tree?.value) };
}

/** The YAML parser reads all whole numbers as bigints. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (Array.isArray(value)) return value.map(plain);
  if (!isMapping(value)) return value;
  const copy = Object.create(null) as Record<string, unknown>;
  for (const [name, inner] of Object.entries(value)) copy[name] = plain(inner);
  return copy;
}

/** Null if it is no URL. Variables have their defaults. */
function basePathOf(root: unknown): string | null {
  const server = asArray(field(root, 'servers'))[0];
  const url = field(server, 'url');
  if (url === undefined) return '';
  if (typeof url !== 'string') return null;
  const filled = url.replace(/\{([^{}]*)\}/g, (_, name: string) =>
    String(field(field(field(server, 'variables'), name), 'default') ?? ''),
  );
  const parsed = URL.parse(filled, 'http://server.invalid/');
  if (parsed === null || parsed.search !== '') return null;
  return parsed.pathname.replace(/(?<!\/)\/+$/, '');
}

/** One method of one path of a description. */
export interface DescribedOperation {
  readonly method: string;
  /** JSON Pointer to it. */
  readonly at: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** A path of a description with its operations. */
export interface DescribedPathItem {
  /** With the base path: `/v1/pets/{petId}`. */
  readonly template: string;
  readonly at: string;
  readonly value: Readonly<Record<string, unknown>>;
  readonly operations: readonly DescribedOperation[];
}

/** How many references one reference may lead through. */
const MAX_HOPS = 16;

/**
 * What a reference leads to; the value itself if it is not a reference.
 * @throws DescriptionFault
 */
export function resolved(root: unknown, value: unknown, at: string): { readonly value: unknown; readonly at: string } {
  let [found, where] = [value, at];
  for (let hops = 0; isMapping(found) && typeof found.$ref === 'string'; hops++) {
    if (hops === MAX_HOPS)
      throw new DescriptionFault(where, 'refers to something that refers to something, in a circle.');
    where = pointerIn(found.$ref, where);
    found = valueAt(root, where);
    if (found === undefined) throw new DescriptionFault(at, `refers to ${shown(where)}, which is not there.`);
  }
  return { value: found, at: where };
}

/** The JSON Pointer of a reference within the same file. @throws DescriptionFault for any other */
export function pointerIn(ref: string, at: string): string {
  let pointer: string | null = null;
  try {
    if (/^#(\/|$)/.test(ref)) pointer = decodeURIComponent(ref.slice(1));
  } catch {
    // Not a URI fragment.
  }
  if (pointer !== null) return pointer;
  throw new DescriptionFault(
    at,
    `refers to ${shown(ref)}, and only references within the file (\`#/…\`) are followed. Bundle the description into one file first, for example with \`npx @redocly/cli bundle\`.`,
  );
}

function valueAt(root: unknown, pointer: string): unknown {
  let value = root;
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    value = Array.isArray(value) ? value[/^[0-9]{1,9}$/.test(name) ? Number(name) : -1] : field(value, name);
  }
  return value;
}

/** What keeps a description from being used. */
export class DescriptionFault extends Error {
  /** JSON Pointer. */
  readonly at: string;

  constructor(at: string, message: string) {
    super(message);
    this.at = at;
  }
}

/** The paths of a description in its order. @throws DescriptionFault */
export function pathItemsOf({ root, basePath }: Description): readonly DescribedPathItem[] {
  const paths = field(root, 'paths') ?? {};
  if (!isMapping(paths)) throw new DescriptionFault('/paths', 'must be a mapping of paths.');
  return Object.entries(paths).flatMap(([path, item]) => {
    if (path.startsWith('x-')) return [];
    const here = `/paths/${escaped(path)}`;
    if (!path.startsWith('/')) throw new DescriptionFault(here, 'must be a path that starts with `/`.');
    const { value, at } = resolved(root, item, here);
    if (!isMapping(value)) throw new DescriptionFault(here, 'must be a mapping of methods.');
    const operations = METHODS.flatMap((name) => {
      const operation = value[name];
      if (operation === undefined) return [];
      if (!isMapping(operation)) throw new DescriptionFault(`${at}/${name}`, 'must be a mapping.');
      return [{ method: name.toUpperCase(), at: `${at}/${name}`, value: operation }];
    });
    return [{ template: basePath + path, at, value, operations }];
  });
}

export function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function shown(text: string): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text);
}

/** The segments of a template, or null if a segment is only partly a parameter: `/{name}.{ending}`. */
export function segmentsOf(template: string): readonly (string | null)[] | null {
  const segments = template.slice(1).split('/');
  if (segments.some((segment) => /[{}]/.test(segment) && !/^\{[^{}]+\}$/.test(segment))) return null;
  return segments.map((segment) => (segment.startsWith('{') ? null : segment));
}
