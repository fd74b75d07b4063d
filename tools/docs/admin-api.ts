import { adminApi } from './sources.ts';

/** What of OpenAPI 3.1 the description of the admin API uses. */
interface Schema {
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly examples?: readonly unknown[];
}

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>;

interface Response {
  readonly $ref?: string;
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Content;
}

interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, Response>>;
}

type PathItem = Partial<Record<(typeof METHODS)[number], Operation>> & { readonly parameters?: readonly Parameter[] };

interface Description {
  readonly info: { readonly description: string };
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** Responses that nearly every request may get, listed once. */
const COMMON = ['Unauthorized', 'Forbidden', 'TooMany', 'StoreAway', 'Other'];
const METHODS = ['get', 'post', 'patch', 'put', 'delete'] as const;

const INTRO = `# Admin API

With ADMIN_TOKEN set (at least 16 characters, 5 of them different; \`openssl rand -base64 32\` makes one), the admin listener answers requests below
\`/admin\` with \`Authorization: Bearer $ADMIN_TOKEN\`. \`GET /admin/openapi.json\` serves the description that this page is generated
from. [Access](../guides/admin-api.md#access) has the roles, and how to give each person a token. Without \`admin.tls\` the API is plain HTTP, and ADMIN_TOKEN
opens everything: keep the port on loopback or an internal network.

\`\`\`sh
curl -X POST http://127.0.0.1:9090/admin/keys -H "Authorization: Bearer $ADMIN_TOKEN" \\
  -H 'Content-Type: application/json' -H "Idempotency-Key: $(openssl rand -hex 16)" \\
  -d '{"plan":"pro","name":"Example","limits":{"minute":500},"expiresAt":"90d"}'
\`\`\``;

export function adminApiPage(): string {
  const description = adminApi() as Description;
  const operations = Object.entries(description.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [{ title: `${method.toUpperCase()} /admin${path}`, item, operation }];
    }),
  );
  const index = operations.map(
    ({ title, operation }) => `| [\`${title}\`](#${slug(title)}) | ${cell(operation.summary)} |`,
  );
  const sections = operations.map(({ title, item, operation }) => {
    const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((one) =>
      resolve(description, one),
    );
    return [
      `### ${title}`,
      text(operation.summary),
      ...(operation.description === undefined ? [] : [text(operation.description)]),
      ...parametersOf(parameters),
      ...bodyOf(operation),
      responsesOf(description, operation),
    ].join('\n\n');
  });
  const schemas = Object.entries(description.components.schemas).map(([name, schema]) => schemaSection(name, schema));
  return `${INTRO}

${text(description.info.description)}

Lists come in pages: \`limit\` is 100 by default and at most 1000, and each page has the \`cursor\` of the next one, which also stands
in \`Link: …; rel="next"\`. A wrong token is answered a quarter of a second late, and with 429 after ten in a minute from one
address; the right token always passes. Errors have the form and the codes of
[Errors of the admin API](headers-and-errors.md#errors-of-the-admin-api).

## Requests

| request | does |
|---|---|
${index.join('\n')}

Besides the answers listed with each request, every request may get these:

${commonResponses(description)}

${sections.join('\n\n')}

## Schemas

${schemas.join('\n\n')}
`;
}

function parametersOf(parameters: readonly Parameter[]): string[] {
  if (parameters.length === 0) return [];
  const rows = parameters.map(
    ({ name, in: place, required, description, schema }) =>
      `| \`${name}\` | ${place}${required ? ', required' : ''} | ${kindOf(schema)}${defaultOf(schema)} | ${cell(description ?? '')} |`,
  );
  return [`| parameter | in | value | means |\n|---|---|---|---|\n${rows.join('\n')}`];
}

function bodyOf({ requestBody }: Operation): string[] {
  const schema = requestBody?.content['application/json']?.schema;
  if (schema === undefined || (schema.$ref === undefined && schema.properties === undefined)) return [];
  const what = requestBody?.required ? '**Body**' : '**Body**, which may be left out';
  return [schema.$ref === undefined ? `${what}:\n\n${membersOf(schema)}` : `${what}: ${kindOf(schema)}`];
}

function responsesOf(description: Description, { responses }: Operation): string {
  const own = Object.entries(responses).filter(([, { $ref = '' }]) => !COMMON.includes(nameOf($ref)));
  return responseTable(own.map(([status, response]) => [status, resolve(description, response)]));
}

/** The responses that nearly every request may get. */
function commonResponses(description: Description): string {
  const responses = description.paths['/keys']!.get!.responses;
  const common = Object.entries(responses).filter(([, { $ref = '' }]) => COMMON.includes(nameOf($ref)));
  return responseTable(common.map(([status, response]) => [status, resolve(description, response)]));
}

function responseTable(responses: readonly (readonly [status: string, response: Response])[]): string {
  const rows = responses.map(([status, response]) => {
    const content = response.content?.['application/json'];
    const headers = Object.keys(response.headers ?? {}).filter((name) => name !== 'X-Request-Id');
    const more = headers.length === 0 ? '' : ` Headers: ${headers.map((name) => `\`${name}\``).join(', ')}.`;
    const body = content?.schema === undefined ? '' : bodyKind(content.schema);
    return `| ${status === 'default' ? 'other' : status} | ${cell(response.description)}${more} | ${body} |`;
  });
  return `| status | when | body |\n|---|---|---|\n${rows.join('\n')}`;
}

/** A body in a cell: its schema, or the names and kinds of its members. */
function bodyKind(schema: Schema): string {
  if (schema.properties === undefined) return kindOf(schema);
  return Object.entries(schema.properties)
    .map(([name, member]) => `\`${name}\`: ${kindOf(member)}`)
    .join('; ');
}

function schemaSection(name: string, schema: Schema): string {
  const [example] = schema.examples ?? [];
  return [
    `### ${name}`,
    ...(schema.description === undefined ? [] : [text(schema.description)]),
    ...(isObject(schema) ? [membersOf(schema)] : [kindOf(schema)]),
    ...(example === undefined || !isObject(schema) ? [] : [`\`\`\`json\n${JSON.stringify(example, null, 2)}\n\`\`\``]),
  ].join('\n\n');
}

function isObject({ properties, allOf }: Schema): boolean {
  return properties !== undefined || allOf !== undefined;
}

function membersOf(schema: Schema): string {
  const bases = (schema.allOf ?? []).map((base) => `Everything that ${kindOf(base)} has.`);
  const rows = Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const required = schema.required?.includes(name) === true ? 'yes' : '';
    return `| \`${name}\` | ${kindOf(member)}${defaultOf(member)} | ${required} | ${cell(member.description ?? '')} |`;
  });
  const table =
    rows.length === 0 ? [] : [`| member | value | required | means |\n|---|---|---|---|\n${rows.join('\n')}`];
  return [...bases, ...table].join('\n\n');
}

function defaultOf({ default: value }: Schema): string {
  return value === undefined ? '' : `, default \`${value}\``;
}

/** What a value is, in words. */
function kindOf(schema: Schema): string {
  const { $ref, anyOf, oneOf, allOf, type, items, minimum, maximum, format, maxLength } = schema;
  if ($ref !== undefined) return `[${nameOf($ref)}](#${slug(nameOf($ref))})`;
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(', ');
  if (schema.const !== undefined) return `\`${schema.const}\``;
  const choices = anyOf ?? oneOf;
  if (choices !== undefined) return choices.map(kindOf).join(' or ');
  if (type === undefined && allOf?.[0] !== undefined) return kindOf(allOf[0]);
  const types = typeof type === 'string' ? [type] : (type ?? []);
  const isNullable = types.includes('null');
  const own = types
    .filter((one) => one !== 'null')
    .map((one) => {
      if (one === 'array') return items === undefined ? 'list' : `list of ${kindOf(items)}`;
      if (one === 'object') return objectKind(schema);
      if (one === 'integer')
        return minimum === undefined || maximum === undefined ? 'whole number' : `${minimum} to ${maximum}`;
      if (one === 'string') return stringKind(format, maxLength);
      return one;
    });
  return [...own, ...(isNullable ? ['null'] : [])].join(' or ');
}

function objectKind({ properties, additionalProperties }: Schema): string {
  if (properties !== undefined) {
    const members = Object.entries(properties).map(([name, member]) => `\`${name}\`: ${kindOf(member)}`);
    return `object (${members.join('; ')})`;
  }
  return typeof additionalProperties === 'object' ? `object by name: ${kindOf(additionalProperties)}` : 'object';
}

function stringKind(format: string | undefined, maxLength: number | undefined): string {
  const kinds: Readonly<Record<string, string>> = { 'date-time': 'RFC 3339 time', date: 'date', uuid: 'UUID' };
  return (format && kinds[format]) ?? (maxLength === undefined ? 'text' : `text of at most ${maxLength} characters`);
}

function resolve<T extends { readonly $ref?: string }>(description: Description, one: T): T {
  if (one.$ref === undefined) return one;
  let found: unknown = description;
  for (const part of one.$ref.slice(2).split('/')) found = (found as Record<string, unknown>)[part];
  return found as T;
}

function nameOf(reference: string): string {
  return reference.split('/').at(-1)!;
}

function slug(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-');
}

function cell(sentences: string): string {
  return text(sentences).replaceAll('\n', ' ').replaceAll('|', '\\|');
}

/** Escapes, outside code, what Markdown would take for markup. */
function text(sentences: string): string {
  return sentences
    .trim()
    .split(/(`[^`]*`)/)
    .map((part, i) => (i % 2 === 1 ? part : part.replace(/[<>{}]|\*|_/g, (character) => `\\${character}`)))
    .join('');
}
