import { readFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';

/** One answer as it came over the wire. */
export interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
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
  readonly responses: Readonly<Record<string, { headers?: Record<string, Header>; content: Record<string, Body> }>>;
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
    readonly responses: Record<string, { content: Record<string, Body> }>;
  };
}

export const committed: unknown = parse(readFileSync(new URL('../../src/pets/openapi.yaml', import.meta.url), 'utf8'));

/** The description with every `$ref` resolved. Throws when it is not valid OpenAPI. */
export async function readDescription(): Promise<Description> {
  const validator = new Validator();
  const outcome = await validator.validate(structuredClone(committed) as Record<string, unknown>);
  if (!outcome.valid) throw new Error(`openapi.yaml is not valid: ${JSON.stringify(outcome.errors)}`);
  return validator.resolveRefs() as unknown as Description;
}

/** Holds answers to the description: status, header fields and body. */
export class Referee {
  readonly seen = new Set<string>();
  readonly #description: Description;
  readonly #ajv = addFormats.default(new Ajv2020({ strictTypes: false, allErrors: true, coerceTypes: false }));
  readonly #coercing = addFormats.default(new Ajv2020({ strictTypes: false, coerceTypes: true }));
  readonly #compiled = new Map<object, ValidateFunction>();

  constructor(description: Description) {
    this.#description = description;
  }

  /** What is wrong with an answer, or an empty list. Operations that are not described still owe an Error body. */
  faultsOf(method: string, path: string, received: Received): string[] {
    const operation = this.#operationOf(method, path);
    const { status } = received;
    const response =
      operation === undefined
        ? { content: this.#description.components.responses.Other!.content }
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

  #operationOf(method: string, path: string): Operation | undefined {
    const relative = path.split('?')[0]!.replace(/^\/v1/, '');
    const template = /^\/pets\/[^/]+$/.test(relative) ? '/pets/{petId}' : relative;
    return this.#description.paths[template]?.[method === 'HEAD' ? 'get' : method.toLowerCase()];
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
    const value = JSON.parse(received.text);
    const validate = this.#compile(this.#ajv, body.schema);
    const faults = validate(value) ? [] : [this.#ajv.errorsText(validate.errors)];
    if (received.status >= 400 && value.status !== received.status) faults.push('status in the body is another one');
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
