import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/** An answer. */
export interface Received {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** What the text says. */
  readonly body: unknown;
}

interface Header {
  readonly required?: boolean;
  readonly schema: object;
}
export interface Operation {
  readonly operationId: string;
  readonly deprecated?: boolean;
  readonly parameters?: readonly { name: string; in: string; required?: boolean; schema: Record<string, unknown> }[];
  readonly requestBody?: { required: boolean; content: Record<string, { schema: object }> };
  readonly responses: Readonly<Record<string, Answer>>;
}
interface Answer {
  readonly headers?: Readonly<Record<string, Header>>;
  readonly content: Readonly<Record<string, Body>>;
}
interface Body {
  readonly schema: object;
  readonly example?: unknown;
}
export interface Description {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly security: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly securitySchemes: Record<string, { type: string; scheme: string }>;
    readonly schemas: Record<string, { examples?: unknown[]; required?: string[] }>;
    readonly responses: Record<string, Answer>;
  };
}

/** The description with every `$ref` resolved. Throws when it is not valid OpenAPI. */
export async function readDescription(document: unknown): Promise<Description> {
  const validator = new Validator();
  const outcome = await validator.validate(structuredClone(document) as Record<string, unknown>);
  if (!outcome.valid) throw new Error(`The description is not valid: ${JSON.stringify(outcome.errors)}`);
  return validator.resolveRefs() as unknown as Description;
}

/** Holds answers to a description, status, header fields and body, and keeps account of what it has seen. */
export class Referee {
  readonly seen = new Set<string>();
  readonly #description: Description;
  readonly #prefix: string;
  readonly #ajv = addFormats.default(new Ajv2020({ strictTypes: false, allErrors: true, coerceTypes: false }));
  readonly #coercing = addFormats.default(new Ajv2020({ strictTypes: false, coerceTypes: true }));
  readonly #compiled = new Map<object, ValidateFunction>();

  /** @param prefix what the paths of the description lack */
  constructor(description: Description, prefix: string) {
    this.#description = description;
    this.#prefix = prefix;
  }

  /** What is wrong with an answer, or an empty list. Operations that are not described still owe an Error body. */
  faultsOf(method: string, path: string, received: Received): string[] {
    const operation = this.#operationOf(method, path);
    const { status } = received;
    const response =
      operation === undefined
        ? this.#description.components.responses.Other
        : (operation.responses[status] ?? operation.responses.default);
    if (response === undefined) return [`${status} is not described`];
    if (operation !== undefined) this.seen.add(`${operation.operationId} ${status}`);
    return [
      ...this.#headerFaults(response.headers ?? {}, received),
      ...this.#bodyFaults(method, response.content, received),
    ];
  }

  accepts(schema: object, value: unknown): boolean {
    return this.#compile(this.#ajv, schema)(value) as boolean;
  }

  /** How many examples the description has, and those that do not obey their own schemas. */
  examples(): { readonly count: number; readonly wrong: readonly unknown[] } {
    const { schemas, responses } = this.#description.components;
    const examples = [
      ...Object.values(schemas).flatMap((schema) => (schema.examples ?? []).map((example) => ({ schema, example }))),
      ...Object.values(responses).flatMap(({ content }) =>
        Object.values(content).filter(({ example }) => example !== undefined),
      ),
    ];
    const wrong = examples.filter(({ schema, example }) => !this.accepts(schema, example));
    return { count: examples.length, wrong: wrong.map(({ example }) => example) };
  }

  #operationOf(method: string, path: string): Operation | undefined {
    const parts = path.split('?')[0]!.replace(this.#prefix, '').split('/');
    const template = Object.keys(this.#description.paths).find((one) => {
      const names = one.split('/');
      return names.length === parts.length && names.every((name, i) => name.startsWith('{') || name === parts[i]);
    });
    return this.#description.paths[template ?? '']?.[method === 'HEAD' ? 'get' : method.toLowerCase()];
  }

  #headerFaults(described: Readonly<Record<string, Header>>, received: Received): string[] {
    return Object.entries(described).flatMap(([name, { required, schema }]) => {
      const value = received.headers[name.toLowerCase()];
      if (value === undefined) return required ? [`${name} is missing`] : [];
      // Coercion needs a parent: an integer header arrives as text.
      const valid = this.#compile(this.#coercing, { type: 'object', properties: { value: schema } })({ value });
      return valid ? [] : [`${name}: ${value} is not as described`];
    });
  }

  #bodyFaults(method: string, content: Readonly<Record<string, Body>>, received: Received): string[] {
    const type = received.headers['content-type'];
    const body = content[String(type)];
    if (body === undefined) return [`Content-Type ${type} is not described`];
    if (method === 'HEAD') return received.text === '' ? [] : ['an answer to HEAD has a body'];
    const validate = this.#compile(this.#ajv, body.schema);
    const faults = validate(received.body) ? [] : [this.#ajv.errorsText(validate.errors)];
    if (received.status >= 400 && (received.body as { status?: unknown }).status !== received.status)
      faults.push('status in the body is another one');
    return faults;
  }

  #compile(ajv: Ajv2020, schema: object): ValidateFunction {
    const known = this.#compiled.get(schema);
    if (known !== undefined) return known;
    const compiled = ajv.compile(schema);
    this.#compiled.set(schema, compiled);
    return compiled;
  }
}
