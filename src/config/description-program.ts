import { _, type Code, type CodeOptions, type KeywordCxt, Name, stringify } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import { Checks, type NumberRules, patternOf, RUNTIME, textOf } from '../validate/checks.ts';
import { FORMATS } from '../validate/formats.ts';
import { AutomatonBudget, costOf, hasSmallAutomaton, MAX_INSTRUCTIONS } from '../validate/pattern-cost.ts';
import type { Content, DescribedPath, Operation, Parameter, Program } from '../validate/program.ts';
import { PatternFault } from '../validate/schema-pattern.ts';
import { Work } from '../validate/work.ts';
import {
  type DescribedOperation,
  type DescribedPathItem,
  type Description,
  DescriptionFault,
  escaped,
  pathItemsOf,
  pointerIn,
  resolved,
  segmentsOf,
} from './description.ts';
import { asArray, field, isMapping } from './yaml.ts';

/*
 * Turns an OpenAPI description into the program that checks requests (src/validate/program.ts).
 */

/** The requests of one route: those that the service gets, after a rewrite. */
export interface Described {
  /** A pattern, as of a route. */
  readonly pattern: string;
  readonly methods: readonly string[];
}

/** Why a program cannot be made, or what it leaves unchecked. */
interface Remark {
  /** JSON Pointer. */
  readonly at: string;
  readonly message: string;
}

/** Schemas that one description may have in the requests that are checked. */
const MAX_SCHEMAS = 20_000;
/** How many references (`$ref`, also within `allOf` and the like) one value may be checked through. */
const MAX_CHAIN = 32;

/**
 * @param requests the requests that routes let through; only their operations are read
 * @throws DescriptionFault
 */
export function programOf(description: Description, requests: readonly Described[]) {
  return new Reader(description).program(requests);
}

/** Whether a pattern of a route and a path template of a description have a path in common. */
export function overlaps(pattern: string, path: Pick<DescribedPath, 'segments'>): boolean {
  const segments = pattern.slice(1).split('/');
  for (const [i, segment] of segments.entries()) {
    if (segment === '**') return path.segments.length > i;
    const text = path.segments[i];
    if (text === undefined || (text !== null && !segment.startsWith('{') && decodedOf(segment) !== text)) return false;
  }
  return segments.length === path.segments.length;
}

function decodedOf(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

type Json = boolean | { [name: string]: unknown };

class Reader {
  readonly #description: Description;
  readonly #root: unknown;
  readonly #warnings: Remark[] = [];
  /** The schemas that were referred to, by JSON Pointer. */
  readonly #names = new Map<string, string>();
  readonly #defs: Record<string, Json> = {};
  readonly #unread: { readonly pointer: string; readonly name: string }[] = [];
  readonly #checks: Record<string, Json> = {};
  /** Whether each pattern that was read has a small automaton. */
  readonly #patterns = new Map<string, boolean>();
  readonly #automata = new AutomatonBudget();
  #schemas = 0;

  constructor(description: Description) {
    this.#description = description;
    this.#root = description.root;
  }

  program(requests: readonly Described[]): { readonly program: Program; readonly warnings: readonly Remark[] } {
    const paths: DescribedPath[] = [];
    for (const item of pathItemsOf(this.#description)) {
      const path = this.#path(item, requests);
      if (path !== null) paths.push(path);
    }
    for (let next = this.#unread.pop(); next !== undefined; next = this.#unread.pop()) {
      const { value, at } = resolved(this.#root, { $ref: `#${encodeURI(next.pointer)}` }, next.pointer);
      this.#defs[next.name] = this.#schema(value, at);
    }
    this.#refuseCircles();
    const automata = [...this.#patterns].flatMap(([source, isSmall]) => (isSmall ? [source] : []));
    return { program: { code: codeOf(this.#defs, this.#checks), automata, paths }, warnings: this.#warnings };
  }

  #path(item: DescribedPathItem, requests: readonly Described[]): DescribedPath | null {
    const written = segmentsOf(item.template);
    if (written === null) {
      this.#warnings.push({
        at: item.at,
        message: 'has a segment that is only partly a parameter, so that its requests are refused as not described.',
      });
      return null;
    }
    const segments = written.map((text) => (text === null ? null : decodedOf(text)));
    const asking = requests.filter(({ pattern }) => overlaps(pattern, { segments }));
    if (asking.length === 0) return null;
    const operations = new Map<string, Operation>();
    for (const operation of item.operations) {
      if (!asking.some(({ methods }) => methods.includes(operation.method))) continue;
      operations.set(operation.method, this.#operation(item, operation));
    }
    return { template: item.template, segments, written, operations };
  }

  #operation(item: DescribedPathItem, { value, at }: DescribedOperation): Operation {
    const parameters = new Map<string, Parameter>();
    const unchecked = new Set<string>();
    for (const [owner, where] of [
      [item.value, item.at],
      [value, at],
    ] as const) {
      for (const [i, raw] of asArray(owner.parameters).entries()) {
        const parameter = this.#parameter(raw, `${where}/parameters/${i}`, item.template);
        if (typeof parameter === 'string') unchecked.add(parameter);
        else if (parameter !== null) parameters.set(`${parameter.in} ${parameter.name}`, parameter);
      }
    }
    return {
      parameters: [...parameters.values()],
      unchecked: [...unchecked],
      body: this.#body(value.requestBody, `${at}/requestBody`),
    };
  }

  /** @returns the name of one in the query that is not checked; null for any other that is not */
  #parameter(raw: unknown, here: string, template: string): Parameter | string | null {
    const { value, at } = resolved(this.#root, raw, here);
    const [place, name] = [field(value, 'in'), field(value, 'name')];
    if (typeof name !== 'string') throw new DescriptionFault(`${at}/name`, 'must be the name of a parameter.');
    if (place !== 'path' && place !== 'query') return null;
    const segment = place === 'path' ? template.slice(1).split('/').indexOf(`{${name}}`) : -1;
    if (place === 'path' && segment === -1) throw new DescriptionFault(`${at}/name`, `is not in the path ${template}.`);
    const common = {
      in: place,
      name,
      segment,
      isRequired: place === 'path' || field(value, 'required') === true,
      mayBeEmpty: field(value, 'allowEmptyValue') === true,
    } as const;
    const content = field(value, 'content');
    if (isMapping(content)) {
      const [type = '', media] = Object.entries(content)[0] ?? [];
      const isJson = /^application\/json\b|\+json\b/i.test(type);
      const schema = `${at}/content/${escaped(type)}/schema`;
      const check = isJson ? this.#check(field(media, 'schema'), schema) : null;
      return { ...common, style: isJson ? 'json' : 'one', reads: NOTHING, check };
    }
    const schema = field(value, 'schema');
    const types = this.#typesOf(schema, `${at}/schema`);
    const [style, explode] = [field(value, 'style'), field(value, 'explode')];
    if (types.has('object') || style === 'label' || style === 'matrix' || style === 'deepObject') {
      this.#warnings.push({
        at,
        message: 'is a parameter of a style that is not checked: an object, label or matrix.',
      });
      return place === 'query' ? name : null;
    }
    const check = this.#check(schema, `${at}/schema`);
    if (!types.has('array')) return { ...common, style: 'one', reads: readsOf(types), check };
    const items = this.#typesOf(schema, `${at}/schema`, true);
    const between = style === 'spaceDelimited' ? ' ' : style === 'pipeDelimited' ? '|' : ',';
    const isRepeated = place === 'query' && (explode ?? (style ?? 'form') === 'form') === true;
    return { ...common, style: isRepeated ? 'repeated' : between, reads: readsOf(items), check };
  }

  /** The types that a schema names, or those of its items. Empty for a schema that names none. */
  #typesOf(schema: unknown, here: string, ofItems = false, depth = 0): Set<string> {
    const types = new Set<string>();
    if (depth > MAX_CHAIN) return types;
    const { value, at } = resolved(this.#root, schema, here);
    if (ofItems) {
      const items = field(value, 'items');
      if (items !== undefined) return this.#typesOf(items, `${at}/items`, false, depth + 1);
    } else for (const type of [field(value, 'type')].flat()) if (typeof type === 'string') types.add(type);
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      for (const [i, inner] of asArray(field(value, keyword)).entries()) {
        for (const type of this.#typesOf(inner, `${at}/${keyword}/${i}`, ofItems, depth + 1)) types.add(type);
      }
    }
    return types;
  }

  #body(raw: unknown, here: string): Operation['body'] {
    if (raw === undefined) return null;
    const { value, at } = resolved(this.#root, raw, here);
    const content = field(value, 'content');
    if (!isMapping(content)) throw new DescriptionFault(`${at}/content`, 'must be a mapping of media types.');
    const contents = Object.entries(content).map(([type, media]): Content => {
      const schema = field(media, 'schema');
      const bare = type.replace(/;.*$/s, '').trim().toLowerCase();
      return { type: bare, check: this.#check(schema, `${at}/content/${escaped(type)}/schema`) };
    });
    return { isRequired: field(value, 'required') === true, contents };
  }

  /** Adds a check of a schema. @returns its name; null if anything fits */
  #check(schema: unknown, at: string): string | null {
    if (schema === undefined || schema === true) return null;
    const name = `check${Object.keys(this.#checks).length}`;
    this.#checks[name] = this.#schema(schema, at);
    return name;
  }

  /** A schema in the dialect of 2020-12, with keywords of our own (`KEYWORDS`) for what ajv does in doubles or too slowly. */
  #schema(raw: unknown, at: string): Json {
    this.#schemas++;
    if (this.#schemas > MAX_SCHEMAS) {
      throw new DescriptionFault(at, `is beyond the ${MAX_SCHEMAS} schemas that are read of one description.`);
    }
    if (typeof raw === 'boolean') return raw;
    if (!isMapping(raw)) throw new DescriptionFault(at, 'must be a schema.');
    const schema: { [name: string]: unknown } = { [entryOf(raw)]: namesOf(raw) };
    if (raw.$ref !== undefined) {
      if (typeof raw.$ref !== 'string') throw new DescriptionFault(`${at}/$ref`, 'must be text.');
      schema.$ref = this.#reference(raw.$ref, `${at}/$ref`);
      // Up to version 3.0, what stands beside a reference has no meaning.
      if (this.#description.version === '3.0') return schema;
    }
    for (const [keyword, value] of Object.entries(raw)) {
      if (keyword === '$ref' || ANNOTATIONS.has(keyword) || keyword.startsWith('x-')) continue;
      const here = `${at}/${escaped(keyword)}`;
      if (NUMBERS.has(keyword)) continue;
      const one = () => this.#schema(value, here);
      if (ONE.has(keyword)) schema[keyword] = keyword === 'items' && Array.isArray(value) ? wrong(here) : one();
      else if (MANY.has(keyword))
        schema[keyword] = list(value, here).map((item, i) => this.#schema(item, `${here}/${i}`));
      else if (NAMED.has(keyword)) schema[keyword] = this.#named(value, here, keyword === 'patternProperties');
      else if (COUNTS.has(keyword)) schema[keyword] = count(value, here);
      else this.#keyword(schema, keyword, raw, here);
    }
    numberRules(schema, raw, at);
    return schema;
  }

  #keyword(schema: { [name: string]: unknown }, keyword: string, raw: Record<string, unknown>, here: string): void {
    const value = raw[keyword];
    switch (keyword) {
      case 'type':
        setType(schema, value, raw.nullable === true && this.#description.version === '3.0', here);
        return;
      case 'enum':
        schema['tg:enum'] = list(value, here).map((allowed) => textOf(allowed));
        return;
      case 'const':
        schema['tg:enum'] = [textOf(value)];
        return;
      case 'uniqueItems':
        if (value === true) schema['tg:unique'] = true;
        return;
      case 'pattern':
        schema.pattern = this.#pattern(value, here);
        return;
      case 'format':
        if (typeof value !== 'string' || !FORMATS.includes(value)) {
          throw new DescriptionFault(here, `is not a format that is known; it must be one of ${FORMATS.join(', ')}.`);
        }
        if (!NUMBER_FORMATS.has(value)) schema['tg:format'] = value;
        return;
      case 'required':
        schema.required = this.#required(list(value, here), raw, here);
        return;
      case 'dependentRequired':
        if (!isMapping(value)) wrong(here);
        schema.dependentRequired = value;
        return;
      default:
        throw new DescriptionFault(
          here,
          'is no keyword that is known here. Correct it, or leave it out; one of your own begins with `x-`.',
        );
    }
  }

  /** Names of properties that a request must have. Those that are `readOnly` belong to responses alone. */
  #required(names: readonly unknown[], raw: Record<string, unknown>, here: string): readonly string[] {
    return names.filter((name): name is string => {
      if (typeof name !== 'string') return wrong(here);
      const property = field(raw.properties, name);
      return (
        field(property, 'readOnly') !== true && field(resolved(this.#root, property, here).value, 'readOnly') !== true
      );
    });
  }

  #named(value: unknown, here: string, arePatterns: boolean): Json {
    if (!isMapping(value)) return wrong(here);
    const named: { [name: string]: unknown } = {};
    for (const [name, inner] of Object.entries(value)) {
      if (name === '__proto__') throw new DescriptionFault(here, 'has the name `__proto__`, which is not allowed.');
      named[arePatterns ? this.#pattern(name, here) : name] = this.#schema(inner, `${here}/${escaped(name)}`);
    }
    return named;
  }

  #pattern(value: unknown, here: string): string {
    if (typeof value !== 'string') return wrong(here);
    if (this.#patterns.has(value)) return value;
    let pattern: ReturnType<typeof patternOf>;
    try {
      pattern = patternOf(value);
    } catch (error) {
      if (error instanceof PatternFault) throw new DescriptionFault(here, `${error.message}.`);
      throw new DescriptionFault(
        here,
        'is no pattern that RE2 can use: no more than 1,000 repetitions, and properties by their short names (`\\p{L}`, `\\p{Script=Greek}`).',
      );
    }
    const isSmall = hasSmallAutomaton(pattern, this.#automata);
    this.#patterns.set(value, isSmall);
    if (!isSmall) this.#warnOfCost(here, costOf(pattern, false));
    return value;
  }

  /** Attack: `^.+@.{1,255}$` takes 500 times as long for each character as most patterns, 16 s for a body of a megabyte. */
  #warnOfCost(here: string, { stepsPerCharacter, maxCharacters }: ReturnType<typeof costOf>): void {
    const cost = `takes ${stepsPerCharacter} steps of work for each character, because it has too many states for an automaton`;
    const advice =
      'Drop the counted repeat and set `maxLength`, or let what stands before it match fewer characters: for example `^[^@]+@.{1,255}$` for `^.+@.{1,255}$`.';
    if (stepsPerCharacter > MAX_INSTRUCTIONS) {
      throw new DescriptionFault(here, `is a pattern that ${cost}, and may take ${MAX_INSTRUCTIONS}. ${advice}`);
    }
    this.#warnings.push({
      at: here,
      message: `is a pattern that ${cost}: texts of more than ${maxCharacters} characters are refused. ${advice}`,
    });
  }

  #reference(ref: string, at: string): string {
    const { at: pointer } = resolved(this.#root, { $ref: `#${encodeURI(pointerIn(ref, at))}` }, at);
    let name = this.#names.get(pointer);
    if (name === undefined) {
      name = `d${this.#names.size}`;
      this.#names.set(pointer, name);
      this.#unread.push({ pointer, name });
    }
    return `defs#/$defs/${name}`;
  }

  /**
   * Attack: a schema that is itself by way of `allOf` is checked for ever. One that has itself in its properties is sound: it
   * ends with the value.
   */
  #refuseCircles(): void {
    const lengths = new Map<string, number>();
    const pointers = new Map([...this.#names].map(([pointer, name]) => [name, pointer]));
    const lengthOf = (name: string, before: readonly string[]): number => {
      const known = lengths.get(name);
      if (known !== undefined) return known;
      const at = pointers.get(name) ?? '';
      if (before.includes(name)) throw new DescriptionFault(at, 'refers to itself without a property or item between.');
      if (before.length > MAX_CHAIN)
        throw new DescriptionFault(at, `is reached through more than ${MAX_CHAIN} references.`);
      const next = sameValueRefs(this.#defs[name]!).map((inner) => lengthOf(inner, [...before, name]));
      const length = 1 + Math.max(0, ...next);
      lengths.set(name, length);
      if (length > MAX_CHAIN) throw new DescriptionFault(at, `leads through more than ${MAX_CHAIN} references.`);
      return length;
    };
    for (const name of Object.keys(this.#defs)) lengthOf(name, []);
  }
}

const NOTHING = { number: false, boolean: false };

function readsOf(types: ReadonlySet<string>): Parameter['reads'] {
  const any = types.size === 0;
  return { number: any || types.has('number') || types.has('integer'), boolean: any || types.has('boolean') };
}

/** Keywords that check nothing. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  ...['title', 'description', 'default', 'example', 'examples', 'deprecated', 'readOnly', 'writeOnly', 'xml'],
  ...['externalDocs', 'discriminator', 'nullable', '$comment', '$schema', '$id', '$anchor', '$defs', 'definitions'],
  ...['contentEncoding', 'contentMediaType', 'contentSchema'],
]);
/** Keywords with one schema, with a list of schemas, and with schemas by name. */
const ONE: ReadonlySet<string> = new Set([
  ...['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'],
  ...['unevaluatedItems', 'unevaluatedProperties'],
]);
const MANY: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const NAMED: ReadonlySet<string> = new Set(['properties', 'patternProperties', 'dependentSchemas']);
const COUNTS: ReadonlySet<string> = new Set([
  ...['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties', 'minContains', 'maxContains'],
]);
const NUMBERS: ReadonlySet<string> = new Set([
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
]);
const OF_ALL_MEMBERS: ReadonlySet<string> = new Set([
  ...['additionalProperties', 'patternProperties', 'propertyNames', 'unevaluatedProperties'],
  ...['minProperties', 'maxProperties'],
]);
const NUMBER_FORMATS: ReadonlySet<string> = new Set(['int32', 'int64', 'float', 'double']);
const TYPES: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']);

function wrong(at: string): never {
  throw new DescriptionFault(at, 'is not what this keyword takes.');
}

function list(value: unknown, at: string): readonly unknown[] {
  return Array.isArray(value) ? value : wrong(at);
}

function count(value: unknown, at: string): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : wrong(at);
}

/** The keyword that counts a schema as work: one of its own for what looks at each member of an object. */
function entryOf(raw: Readonly<Record<string, unknown>>): 'tg:step' | 'tg:members' {
  return Object.keys(raw).some((keyword) => OF_ALL_MEMBERS.has(keyword)) ? 'tg:members' : 'tg:step';
}

/** How many names a schema looks up in an object. */
function namesOf(raw: Readonly<Record<string, unknown>>): number {
  const { properties, required, dependentRequired, dependentSchemas } = raw;
  const needed = Object.values(isMapping(dependentRequired) ? dependentRequired : {}).flat();
  const named = [properties, dependentRequired, dependentSchemas].filter(isMapping).flatMap(Object.keys);
  return named.length + needed.length + asArray(required).length;
}

function setType(schema: { [name: string]: unknown }, value: unknown, isNullable: boolean, at: string): void {
  const types = [value].flat();
  if (types.length === 0 || !types.every((type) => TYPES.has(type))) wrong(at);
  if (isNullable && !types.includes('null')) types.push('null');
  // ajv takes no bigint for a number.
  const key = types.includes('integer') || types.includes('number') ? 'tg:type' : 'type';
  schema[key] = types;
}

function numberRules(schema: { [name: string]: unknown }, raw: Record<string, unknown>, at: string): void {
  const rules: Record<string, unknown> = {};
  for (const keyword of NUMBERS) {
    const value = raw[keyword];
    // In version 3.0 `exclusiveMinimum: true` says how `minimum` is meant.
    const isFlag = typeof value === 'boolean' && keyword.startsWith('exclusive');
    if (value === undefined || isFlag) continue;
    if (typeof value !== 'number' && typeof value !== 'bigint') wrong(`${at}/${keyword}`);
    if (keyword === 'multipleOf' && (typeof value === 'bigint' || (value as number) <= 0)) wrong(`${at}/${keyword}`);
    const flag = { minimum: 'exclusiveMinimum', maximum: 'exclusiveMaximum' }[keyword];
    rules[flag !== undefined && raw[flag] === true ? flag : keyword] =
      typeof value === 'bigint' ? String(value) : value;
  }
  if (raw.format === 'int32') rules.bits = 32;
  if (raw.format === 'int64') rules.bits = 64;
  if (Object.keys(rules).length > 0) schema['tg:number'] = rules satisfies NumberRules;
}

/** The schemas that a schema checks the same value with, by the names of their definitions. */
function sameValueRefs(schema: Json): readonly string[] {
  if (typeof schema === 'boolean') return [];
  const names: string[] = [];
  if (typeof schema.$ref === 'string') names.push(schema.$ref.slice('defs#/$defs/'.length));
  const inner = [schema.not, schema.if, schema.then, schema.else, ...Object.values(schema.dependentSchemas ?? {})];
  for (const keyword of ['allOf', 'anyOf', 'oneOf']) inner.push(...((schema[keyword] as Json[] | undefined) ?? []));
  for (const one of inner) if (one !== undefined) names.push(...sameValueRefs(one as Json));
  return names;
}

/** The text of a CommonJS module that exports the checks. */
function codeOf(defs: Readonly<Record<string, Json>>, checks: Readonly<Record<string, Json>>): string {
  const own = new Checks(new Work(), []);
  const regExp = Object.assign((source: string) => own.pattern(source), { code: `require("${RUNTIME}").pattern` });
  const ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    meta: false,
    validateSchema: false,
    addUsedSchema: false,
    unevaluated: true,
    messages: false,
    // The interface has one function for both kinds of expression; ours compares code points either way.
    code: { source: true, esm: false, regExp: regExp as unknown as NonNullable<CodeOptions['regExp']> },
    logger: false,
  });
  for (const { keyword, method, shown } of KEYWORDS) {
    ajv.addKeyword({
      keyword,
      code(cxt: KeywordCxt) {
        const { gen, data, schema } = cxt;
        const call = gen.scopeValue('func', { ref: own[method], code: _`require(${RUNTIME}).${new Name(method)}` });
        const value = gen.scopeValue('schema', { ref: schema, code: stringified(schema) });
        cxt.pass(_`${call}(${data}, ${value})`);
      },
      ...(shown === null
        ? {}
        : {
            error: {
              message: '',
              params: ({ schema }: Pick<KeywordCxt, 'schema'>) => _`{${new Name(shown)}: ${stringified(schema)}}`,
            },
          }),
    });
  }
  const stringified = (value: unknown): Code => stringify(value);
  ajv.addSchema({ $id: 'defs', $defs: defs }, 'defs');
  for (const [name, schema] of Object.entries(checks)) ajv.addSchema({ $id: name, allOf: [schema] }, name);
  return standalone.default(ajv, Object.fromEntries(Object.keys(checks).map((name) => [name, name])));
}

/** The keywords of our own, the functions that check them (`Checks`), and the name of their value in an error. */
const KEYWORDS = [
  { keyword: 'tg:step', method: 'step', shown: null },
  { keyword: 'tg:members', method: 'members', shown: null },
  { keyword: 'tg:type', method: 'type', shown: 'types' },
  { keyword: 'tg:number', method: 'number', shown: 'rules' },
  { keyword: 'tg:enum', method: 'listed', shown: 'texts' },
  { keyword: 'tg:unique', method: 'unique', shown: 'wanted' },
  { keyword: 'tg:format', method: 'format', shown: 'format' },
] as const;
