import { TOKEN_CHARACTER, valuesOf } from '../http1/fields.ts';
import { QueryNames } from '../http1/query-names.ts';
import { type BodyFault, faultOfBody } from './body.ts';
import { type Check, Checks, exportsOf } from './checks.ts';
import { JsonFault, readJson } from './json.ts';
import type { Content, DescribedPath, Operation, Parameter, Program } from './program.ts';
import { ruleOf, shortened } from './rules.ts';
import { ExcessError, OF_BODY_AT_ONCE, OF_HEAD, TOO_MUCH, Work } from './work.ts';

/** Where a request does not fit its description. It repeats no value of the request. */
export interface Misfit {
  readonly in: 'path' | 'query' | 'header' | 'body';
  /** The parameter or field; null for the body, and for the path as a whole. */
  readonly name: string | null;
  /** JSON Pointer to what is wrong within the value; empty for the value itself. */
  readonly pointer: string;
  /** The rule that it breaks, as the end of a sentence. */
  readonly rule: string;
}

/** The request line and fields of a request. */
interface RequestHead {
  readonly method: string;
  readonly rawHeaders: readonly string[];
  readonly hasBody: boolean;
}

/** A request whose head fits. */
interface Fitting {
  /** The check of its body of JSON; null if its body, if it has one, is forwarded unread. */
  readonly bodyCheck: BodyCheck | null;
}

/** The check of a body of JSON. */
export interface BodyCheck {
  /** The program that has the check, and the name of its export. */
  readonly program: Program;
  readonly name: string;
  /** Checks a body on this thread. @throws ExcessError if that takes too much work */
  atOnce(body: Uint8Array): { readonly fault: BodyFault | null; readonly steps: number };
}

/**
 * Checks requests against an OpenAPI description.
 *
 * Attack: a request that the gateway and the service read differently passes a check that it should fail. So nothing is
 * repaired or guessed: a parameter that is there twice, a name that is twice in an object, text that is not UTF-8, a body
 * in another encoding and a path that matches two templates are refused.
 */
export class RequestValidator {
  readonly #program: Program;
  readonly #paths: readonly DescribedPath[];
  readonly #work = new Work();
  readonly #exports: Readonly<Record<string, Check>>;
  readonly #queryNames = new WeakMap<Operation, QueryNames>();

  constructor(program: Program) {
    this.#program = program;
    this.#paths = program.paths;
    this.#exports = exportsOf(program.code, new Checks(this.#work, program.automata));
  }

  /**
   * Checks path, query and media type.
   * @param path and `query` as the service gets them; the query without its `?`
   */
  checkHead(path: string, query: string, { method, rawHeaders, hasBody }: RequestHead): Misfit | Fitting {
    this.#work.begin(OF_HEAD);
    try {
      const found = this.#operationOf(path, method);
      if ('rule' in found) return found;
      const { operation, segments } = found;
      const misfit = this.#misfitOfNames(operation, query) ?? this.#misfitOfParameters(operation, segments, query);
      return misfit ?? this.#contentOf(operation, rawHeaders, hasBody);
    } catch (error) {
      if (error instanceof ExcessError) return { in: 'query', name: null, pointer: '', rule: TOO_MUCH };
      throw error;
    }
  }

  #operationOf(path: string, method: string) {
    const sent = path.slice(1).split('/');
    const segments = sent.map(decoded);
    const at = (rule: string): Misfit => ({ in: 'path', name: null, pointer: '', rule });
    if (!isAllText(segments)) return at('has an encoding that is not UTF-8.');
    const described = mostSpecific(this.#paths, segments, 'segments');
    // Attack: /pets/%6dine is /pets/mine to a service that decodes it, and /pets/{petId} to one that does not.
    if (described !== mostSpecific(this.#paths, sent, 'written'))
      return at('can be read in two ways. Write it plainly.');
    if (described === null) return at('is not in the description of this service.');
    const operation =
      described.operations.get(method) ?? (method === 'HEAD' ? described.operations.get('GET') : undefined);
    if (operation === undefined) return at('has no such method in the description of this service.');
    return { operation, segments };
  }

  #misfitOfParameters({ parameters }: Operation, segments: readonly string[], query: string): Misfit | null {
    let sent: ReadonlyMap<string, readonly (string | null)[]> | null = null;
    for (const parameter of parameters) {
      if (parameter.in === 'query') sent ??= valuesOfQuery(query);
      const values = parameter.in === 'path' ? [segments[parameter.segment]!] : (sent?.get(parameter.name) ?? []);
      const misfit = this.#misfitOf(parameter, values);
      if (misfit !== null) return misfit;
    }
    return null;
  }

  /**
   * Attack: `limit=5&limit[$gt]=0` or `Limit=101`. The gateway checks the parameter that has the described name exactly,
   * and the service uses the other one.
   */
  #misfitOfNames(operation: Operation, query: string): Misfit | null {
    const { parameters, unchecked } = operation;
    if (query === '' || !parameters.some((parameter) => parameter.in === 'query')) return null;
    let names = this.#queryNames.get(operation);
    if (names === undefined) {
      const checked = parameters.flatMap((parameter) => (parameter.in === 'query' ? [parameter.name] : []));
      names = new QueryNames(checked, unchecked);
      this.#queryNames.set(operation, names);
    }
    for (const parameter of query.split('&')) {
      const name = names.misspelt(parameter);
      if (name !== null)
        return {
          in: 'query',
          name,
          pointer: '',
          rule: 'was sent under another spelling, such as with brackets, blanks or other capitals; it must be spelled as described.',
        };
    }
    return null;
  }

  #misfitOf(parameter: Parameter, sent: readonly (string | null)[]): Misfit | null {
    const { name, isRequired, mayBeEmpty, style, check } = parameter;
    const at = (rule: string, pointer = ''): Misfit => ({ in: parameter.in, name, pointer, rule });
    if (!isAllText(sent)) return at('has an encoding that is not UTF-8.');
    const [first] = sent;
    if (first === undefined) return isRequired ? at('is missing.') : null;
    if (sent.length > 1 && style !== 'repeated') return at('is there more than once.');
    if (sent.length > MAX_VALUES) return at('is there too often.');
    if (check === null || (first === '' && mayBeEmpty)) return null;
    const valid = this.#exports[check]!;
    const candidates = candidatesOf(parameter, sent, first, this.#work);
    if ('rule' in candidates) return at(candidates.rule, candidates.pointer);
    for (const candidate of candidates) if (valid(candidate)) return null;
    valid(candidates[0]);
    const { pointer, rule } = ruleOf(valid.errors);
    return at(rule, pointer);
  }

  #contentOf({ body }: Operation, rawHeaders: readonly string[], hasBody: boolean): Misfit | Fitting {
    const at = (name: string | null, rule: string): Misfit => {
      return { in: name === null ? 'body' : 'header', name, pointer: '', rule };
    };
    if (!hasBody) return body?.isRequired === true ? at(null, 'is missing.') : { bodyCheck: null };
    if (body === null) return at(null, 'is not taken by this operation. Leave it out.');
    const types = valuesOf(rawHeaders, 'content-type');
    if (types.length !== 1) return at('Content-Type', types.length === 0 ? 'is missing.' : 'is there more than once.');
    const media = mediaOf(types[0]!);
    const content = media === null ? null : contentFor(body.contents, media.type);
    if (media === null || content === null) {
      return at('Content-Type', `must be ${listed(body.contents.map(({ type }) => type))}.`);
    }
    const { check } = content;
    if (check === null || !isJson(media.type)) return { bodyCheck: null };
    // Attack: what was checked as UTF-8, or as plain, is read by the service as UTF-16 or as gzip.
    if (media.charset !== null && media.charset !== 'utf-8')
      return at('Content-Type', 'must have no charset but utf-8.');
    const encodings = valuesOf(rawHeaders, 'content-encoding');
    if (encodings.some((coding) => coding.toLowerCase() !== 'identity')) {
      return at('Content-Encoding', 'must be left out: the body is checked here, and is not decompressed for that.');
    }
    return { bodyCheck: { program: this.#program, name: check, atOnce: (bytes) => this.#checkAtOnce(check, bytes) } };
  }

  #checkAtOnce(name: string, bytes: Uint8Array) {
    this.#work.begin(OF_BODY_AT_ONCE);
    const fault = faultOfBody(this.#exports[name]!, bytes, this.#work);
    return { fault, steps: this.#work.spent };
  }
}

/** How often one parameter may be there. */
const MAX_VALUES = 1_000;
/** Decodes the percent-encoding of a segment or a value. Null if that is not UTF-8. */
function decoded(text: string): string | null {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function isAllText(texts: readonly (string | null)[]): texts is readonly string[] {
  return !texts.includes(null);
}

/** The path that fits, with a text rather than a parameter in the first segment in which two differ (OpenAPI, Paths Object). */
function mostSpecific(
  paths: readonly DescribedPath[],
  segments: readonly string[],
  form: 'segments' | 'written',
): DescribedPath | null {
  let best: DescribedPath | null = null;
  for (const path of paths) {
    if (path.segments.length !== segments.length) continue;
    if (!path[form].every((text, i) => (text === null ? segments[i] !== '' : text === segments[i]))) continue;
    if (best === null || isMoreSpecific(path, best)) best = path;
  }
  return best;
}

function isMoreSpecific(one: DescribedPath, other: DescribedPath): boolean {
  const i = one.segments.findIndex((text, at) => (text === null) !== (other.segments[at] === null));
  return i !== -1 && one.segments[i] !== null;
}

/** The values of a query by their decoded names, as forms write them (`+` for a space). */
function valuesOfQuery(query: string): ReadonlyMap<string, readonly (string | null)[]> {
  const values = new Map<string, (string | null)[]>();
  for (const pair of query.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decoded((equals === -1 ? pair : pair.slice(0, equals)).replaceAll('+', ' '));
    if (name === null) continue;
    const value = equals === -1 ? '' : decoded(pair.slice(equals + 1).replaceAll('+', ' '));
    const before = values.get(name);
    if (before === undefined) values.set(name, [value]);
    else before.push(value);
  }
  return values;
}

/** What a parameter may mean, in the order in which it is tried. */
function candidatesOf(
  { style, reads }: Parameter,
  sent: readonly string[],
  first: string,
  work: Work,
): readonly unknown[] | { readonly rule: string; readonly pointer: string } {
  if (style === 'json') {
    try {
      return [readJson(first, work)];
    } catch (error) {
      if (!(error instanceof JsonFault)) throw error;
      return { rule: `${error.message}.`, pointer: shortened(error.pointer) };
    }
  }
  if (style === 'one') {
    const other = readValue(first, reads);
    return other === first ? [first] : [other, first];
  }
  const texts = style === 'repeated' ? sent : first.split(style);
  if (texts.length > MAX_VALUES) return { rule: 'has too many values.', pointer: '' };
  const values = texts.map((text) => readValue(text, reads));
  return values.every((value, i) => value === texts[i]) ? [values] : [values, texts];
}

const NUMBER = /^-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?$/;

function readValue(text: string, reads: Parameter['reads']): unknown {
  if (reads.boolean && (text === 'true' || text === 'false')) return text === 'true';
  if (!reads.number || !NUMBER.test(text) || !Number.isFinite(Number(text))) return text;
  return readJson(text);
}

interface Media {
  readonly type: string;
  readonly charset: string | null;
}

const TOKEN = `${TOKEN_CHARACTER}+`;
/**
 * A media type with its parameters (RFC 9110 section 8.3.1).
 *
 * Attack: where a blank between two `;` can belong to either of two repetitions, 60 of them are tried in 2^60 ways. So each
 * blank belongs to the text before it.
 */
const MEDIA = new RegExp(`^(${TOKEN}/${TOKEN})[ \\t]*((?:;[ \\t]*(?:${TOKEN}=(?:${TOKEN}|"[^"\\\\]*")[ \\t]*)?)*)$`);

/** Null if the value is not a media type, or has two charsets. */
function mediaOf(value: string): Media | null {
  if (value.length > 512) return null;
  const [, type, parameters = ''] = MEDIA.exec(value) ?? [];
  if (type === undefined) return null;
  const charsets = [...parameters.matchAll(/;[ \t]*charset="?([^";]*)"?/gi)].map((found) =>
    found[1]!.trim().toLowerCase(),
  );
  if (charsets.length > 1) return null;
  return { type: type.toLowerCase(), charset: charsets[0] ?? null };
}

/** The entry for a media type: that type itself, else its range, else any. */
function contentFor(contents: readonly Content[], type: string): Content | null {
  const range = `${type.slice(0, type.indexOf('/'))}/*`;
  for (const wanted of [type, range, '*/*']) {
    const found = contents.find((content) => content.type === wanted);
    if (found !== undefined) return found;
  }
  return null;
}

function isJson(type: string): boolean {
  return type === 'application/json' || type.endsWith('+json');
}

/** `a`, `a or b`, `a, b or c`. */
export function listed(words: readonly string[]): string {
  const [last, ...before] = words.toReversed();
  return before.length === 0 ? (last ?? 'nothing') : `${before.toReversed().join(', ')} or ${last}`;
}
