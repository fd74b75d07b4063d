import type { CheckError } from './checks.ts';

/** The longest pointer, and the longest list of allowed values, that an error shows. */
const MAX_CHARACTERS = 200;

/**
 * What is wrong with a value: where, and the rule that it breaks, as the end of a sentence. Rules come from the description;
 * of the request they repeat names of properties alone, in the pointer.
 */
export function ruleOf(errors: readonly CheckError[] | null | undefined): {
  readonly pointer: string;
  readonly rule: string;
} {
  // Those of alternatives come before that of the keyword which has them.
  const error = errors?.at(-1);
  if (error === undefined) return { pointer: '', rule: 'does not fit the description.' };
  const { keyword, params, instancePath } = error;
  const name = params.additionalProperty ?? params.unevaluatedProperty ?? params.propertyName;
  const pointer = name === undefined ? instancePath : `${instancePath}/${escaped(String(name))}`;
  return { pointer: shortened(pointer), rule: `${WORDS[keyword]?.(params) ?? 'does not fit the description'}.` };
}

type Params = CheckError['params'];

const WORDS: Readonly<Record<string, (params: Params) => string>> = {
  type: ({ type }) => `must be ${typeNames(type)}`,
  'tg:type': ({ types }) => `must be ${typeNames(types)}`,
  'tg:number': ({ rules }) => numberRule(rules as Readonly<Record<string, unknown>>),
  'tg:format': ({ format }) => `must be of the format ${format}`,
  'tg:enum': ({ texts }) => `must be one of ${shortened((texts as readonly string[]).join(', '))}`,
  'tg:unique': () => 'must not have the same item twice',
  pattern: ({ pattern }) => `must match the pattern ${shortened(String(pattern))}`,
  required: ({ missingProperty }) => `lacks ${JSON.stringify(missingProperty)}`,
  dependentRequired: ({ missingProperty }) => `lacks ${JSON.stringify(missingProperty)}`,
  additionalProperties: () => 'is a property that is not allowed here',
  unevaluatedProperties: () => 'is a property that is not allowed here',
  propertyNames: () => 'has a name that is not allowed here',
  additionalItems: ({ limit }) => `must not have more than ${amountOf(limit, 'item')}`,
  items: ({ limit }) => `must not have more than ${amountOf(limit, 'item')}`,
  unevaluatedItems: ({ len }) => `must not have more than ${amountOf(len, 'item')}`,
  minLength: ({ limit }) => `must have at least ${amountOf(limit, 'character')}`,
  maxLength: ({ limit }) => `must have at most ${amountOf(limit, 'character')}`,
  minItems: ({ limit }) => `must have at least ${amountOf(limit, 'item')}`,
  maxItems: ({ limit }) => `must have at most ${amountOf(limit, 'item')}`,
  minProperties: ({ limit }) => `must have at least ${amountOf(limit, 'property', 'properties')}`,
  maxProperties: ({ limit }) => `must have at most ${amountOf(limit, 'property', 'properties')}`,
  contains: () => 'lacks an item that it must have',
  oneOf: ({ passingSchemas }) =>
    Array.isArray(passingSchemas)
      ? 'fits more than one of the alternatives, and may fit only one'
      : 'fits none of the alternatives',
  anyOf: () => 'fits none of the alternatives',
  not: () => 'is what it must not be',
  if: () => 'does not fit a rule that depends on another value',
  'false schema': () => 'is not allowed here',
};

function amountOf(count: unknown, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`;
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
};

function typeNames(types: unknown): string {
  return [types]
    .flat()
    .map((type) => TYPES[String(type)] ?? String(type))
    .join(' or ');
}

function numberRule({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, bits }: Params): string {
  const parts = [
    ...(minimum === undefined ? [] : [`at least ${minimum}`]),
    ...(exclusiveMinimum === undefined ? [] : [`above ${exclusiveMinimum}`]),
    ...(maximum === undefined ? [] : [`at most ${maximum}`]),
    ...(exclusiveMaximum === undefined ? [] : [`below ${exclusiveMaximum}`]),
    ...(multipleOf === undefined ? [] : [`a multiple of ${multipleOf}`]),
    ...(bits === undefined ? [] : [`a whole number of ${bits} bits`]),
  ];
  return `must be ${parts.join(' and ')}`;
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Names of properties in a pointer are the client's own, so that it can be as long as the body. */
export function shortened(text: string): string {
  return text.length <= MAX_CHARACTERS ? text : `${text.slice(0, MAX_CHARACTERS)}…`;
}
