import { expect, test } from 'vitest';
import { openApi, openApiInSteps } from '../../src/admin/openapi.ts';

// What linters and generators of clients ask of the OpenAPI description; `npm run openapi:check` runs some of them.

interface Described {
  readonly name?: string;
  readonly in?: string;
  readonly required?: unknown;
  readonly $ref?: string;
}

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Described[];
}

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>> & { parameters?: readonly Described[] }>>;
  readonly tags: readonly { readonly name: string }[];
  readonly components: { readonly parameters: Readonly<Record<string, Described>> };
}

const description = openApi() as unknown as Description;

const operations = Object.entries(description.paths).flatMap(([path, { parameters: shared = [], ...methods }]) =>
  Object.entries(methods as Record<string, Operation>).map(
    ([method, operation]) => [`${method} ${path}`, path, operation, shared] as const,
  ),
);

const resolved = (parameter: Described): Described =>
  parameter.$ref === undefined ? parameter : description.components.parameters[parameter.$ref.split('/').at(-1)!]!;

test.each(operations)('%s declares every name of its path, and its tag', (_line, path, operation, shared) => {
  const declared = [...shared, ...(operation.parameters ?? [])].map(resolved).filter((one) => one.in === 'path');
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  expect(declared.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
  expect(declared.every(({ required }) => required === true)).toBe(true);
  const tags = new Set(description.tags.map(({ name }) => name));
  expect(operation.tags.filter((tag) => !tags.has(tag))).toEqual([]);
});

test('every operation has an id of its own', () => {
  const ids = operations.map(([, , { operationId }]) => operationId);
  expect(new Set(ids).size).toBe(ids.length);
});

test('what a schema requires has a schema', () => {
  const lacking: string[] = [];
  // A part of `oneOf` may require what stands beside it.
  const visit = (at: string, value: unknown, outer: object = {}) => {
    if (typeof value !== 'object' || value === null) return;
    const { required, properties } = value as { required?: unknown; properties?: object };
    const known = { ...outer, ...properties };
    for (const name of Array.isArray(required) ? required : []) if (!(name in known)) lacking.push(`${at}: ${name}`);
    for (const [name, part] of Object.entries(value)) {
      const isPart = name === 'oneOf' || Array.isArray(value);
      visit(`${at}/${name}`, part, isPart ? known : {});
    }
  };
  visit('', description);
  expect(lacking).toEqual([]);
});

// Fault: the first request for the description took one turn of the event loop of 45 ms, in which no request was served.
test('it is made in a step for each operation, so that the first request for it takes no long turn (reliability 445)', () => {
  const steps = openApiInSteps();
  let count = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) count++;
  expect(count).toBeGreaterThanOrEqual(operations.length);
  expect(step.value).toEqual(openApi());
});
