import { z } from 'zod';
import { atOnce, type Steps } from '../io/steps.ts';
import { hasQuery, isOptional, lineOf, membersOf } from '../operations/catalogue/input.ts';
import { effectOf } from '../operations/catalogue/operation.ts';
import { invalidPlans } from '../operations/catalogue/plan-operations.ts';
import { ENDPOINTS, type Endpoint, fieldsOf, isPaged } from './endpoints.ts';
import { ABOUT, HEADERS, type Json, OWN_PATHS, PARAMETERS, RESPONSES, SECURITY } from './openapi-common.ts';
import { type RefusalCode, STATUS } from './response.ts';

// The OpenAPI 3.1 description of the admin API, made of the operations.

/** The description, as `GET /admin/openapi.json` serves it. */
export function openApi(): Json {
  return atOnce(openApiInSteps());
}

export function* openApiInSteps(): Steps<Json> {
  const schemas = new Schemas();
  const paths: Record<string, Json> = {};
  const put = (line: string, described: Json) => {
    const { method, path } = lineOf(line);
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameterOfPath(name!));
    const known = paths[path] ?? (parameters.length === 0 ? {} : { parameters });
    paths[path] = { ...known, [method.toLowerCase()]: described };
  };
  for (const endpoint of ENDPOINTS) {
    put(endpoint.line, describedOf(endpoint, schemas));
    yield;
  }
  for (const { line, input, output, headers = {}, responses, ...described } of OWN_PATHS) {
    const found = { description: described.summary, headers: withId(headers), content: jsonOf(schemas.of(output)) };
    put(line, {
      ...described,
      ...(input === undefined ? {} : inputOf(line, input, schemas)),
      responses: { 200: found, ...referred(responses), default: ref('responses', 'Other') },
    });
    yield;
  }
  return {
    ...ABOUT,
    paths,
    components: {
      securitySchemes: SECURITY,
      parameters: PARAMETERS,
      headers: HEADERS,
      responses: RESPONSES,
      schemas: { ...schemas.all, Error: ERROR },
    },
  };
}

const ERROR: Json = {
  type: 'object',
  required: ['code', 'message', 'status'],
  additionalProperties: false,
  properties: {
    code: { type: 'string', pattern: '^[a-z_]+$' },
    message: { type: 'string' },
    status: { type: 'integer' },
  },
};

function describedOf(endpoint: Endpoint, schemas: Schemas): Json {
  const { name, sentence, line, input } = endpoint;
  const description = descriptionOf(endpoint);
  const about = {
    operationId: name,
    tags: [tagOf(endpoint)],
    summary: sentence,
    ...(description === undefined ? {} : { description }),
  };
  const parts: { parameters?: Json[]; requestBody?: Json } = input === undefined ? {} : inputOf(line, input, schemas);
  const isOperation = 'run' in endpoint;
  const headers = isOperation ? requestHeadersOf(endpoint) : [];
  const parameters = [...(parts.parameters ?? []), ...headers];
  const body = parts.requestBody as { content: Record<string, Json> } | undefined;
  if (lineOf(line).method === 'PATCH') body!.content[MERGE_PATCH] = body!.content['application/json']!;
  return {
    ...about,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: isOperation
      ? responsesOf(endpoint, parameters.length > 0 || input !== undefined, body !== undefined, schemas)
      : {
          200: {
            description: 'The events.',
            headers: withId({}),
            content: { 'text/event-stream': { schema: { type: 'string' } } },
          },
          ...referred(['Invalid', 'Unauthorized', 'Forbidden', 'TooManyStreams']),
          default: ref('responses', 'Other'),
        },
  };
}

/** The type of a body that says what is to be changed (RFC 7396). */
const MERGE_PATCH = 'application/merge-patch+json';

type AnyOperation = Extract<Endpoint, { run: unknown }>;

/** The part of the reference in which an endpoint belongs. */
function tagOf(endpoint: Endpoint): string {
  if (!('run' in endpoint) || endpoint.on === 'live') return 'live';
  const [, first = ''] = lineOf(endpoint.line).path.split('/');
  return TAGS[first] ?? 'gateway';
}

const TAGS: Readonly<Record<string, string>> = { keys: 'keys', customers: 'customers', bans: 'bans', now: 'bans' };

/** What becomes of what is changed, and what else a caller needs to know; undefined if the summary says it all. */
function descriptionOf(endpoint: Endpoint): string | undefined {
  const effect = 'run' in endpoint ? effectOf(endpoint) : undefined;
  const parts = [effect, endpoint.description].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.join(' ');
}

function requestHeadersOf(operation: AnyOperation): Json[] {
  const { ifMatch } = fieldsOf(operation);
  return [
    ...(ifMatch === 'optional' ? [ref('parameters', 'ifMatch')] : []),
    ...(ifMatch === 'required' ? [ref('parameters', 'ifMatchRequired')] : []),
    ...(operation.once === true ? [ref('parameters', 'idempotencyKey')] : []),
  ];
}

/** The parameters of a query, or the body. */
function inputOf(line: string, input: z.ZodType, schemas: Schemas): { parameters?: Json[]; requestBody?: Json } {
  if (!hasQuery(line)) {
    return { requestBody: { required: !isOptional(input), content: jsonOf(schemas.of(input, 'input')) } };
  }
  const parameters = Object.entries(membersOf(input)).map(([name, member]) => {
    if (name in PARAMETERS) return ref('parameters', name);
    const { description, ...schema } = schemas.of(member, 'input');
    return { name, in: 'query', ...(description === undefined ? {} : { description }), schema };
  });
  return { parameters };
}

function responsesOf(operation: AnyOperation, mayBeInvalid: boolean, hasBody: boolean, schemas: Schemas): Json {
  const { action, line, once, on, output, keepsNothing } = operation;
  const { ifMatch, etag, location } = fieldsOf(operation);
  const fails: AnyOperation['fails'] = { ...(line.includes('{') ? { not_found: true } : {}), ...operation.fails };
  const headers = withId({
    ...(etag ? { ETag: ref('headers', 'ETag') } : {}),
    ...(location ? { Location: ref('headers', 'Location') } : {}),
    ...(once === true ? { 'Idempotency-Replayed': ref('headers', 'Idempotency-Replayed') } : {}),
    ...(action === undefined ? {} : { 'Change-Outcome': ref('headers', 'Change-Outcome') }),
    ...(isPaged(operation) ? { Link: ref('headers', 'Link') } : {}),
  });
  const done = { description: resultOf(operation), headers, content: jsonOf(schemas.of(output)) };
  const mayBeUndone = action !== undefined && on === 'store' && keepsNothing !== true;
  const usual = [
    ...(mayBeInvalid ? (['Invalid'] as const) : []),
    ...(['Unauthorized', 'Forbidden', 'TooMany'] as const),
    ...(fails.not_found === true ? (['Unknown'] as const) : []),
    ...(fails.conflict === true ? (['Conflict'] as const) : []),
    ...(ifMatch === 'optional' ? (['Changed'] as const) : []),
    ...(ifMatch === 'required' ? (['ChangedFile', 'NoVersion'] as const) : []),
    ...(hasBody ? (['TooLarge', 'NoJson'] as const) : []),
    ...(once === true ? (['KeyReused'] as const) : []),
    ...(on === 'store' || fails.store_unavailable === true ? (['StoreAway'] as const) : []),
  ];
  return {
    [location ? 201 : 200]: done,
    ...(mayBeUndone ? { 202: { ...done, description: UNSETTLED, content: jsonOf(schemas.unsettled(output)) } } : {}),
    ...referred(usual),
    ...ownFailures(fails, location, schemas),
    default: ref('responses', 'Other'),
  };
}

/** What a response has, in a sentence: what the output says of itself, or whether something was done. */
function resultOf(operation: AnyOperation): string {
  const { action, once, output } = operation;
  const { description } = output.meta() ?? {};
  if (description !== undefined) return description;
  if (action === undefined) return isPaged(operation) ? 'A page.' : 'The answer.';
  return once === true ? 'It is done, or was done before under this Idempotency-Key.' : 'It is done.';
}

const UNSETTLED =
  'The change was made, and a failover of Redis may undo it. A secret is shown this once all the same. See the description of this API.';

/** The failures that have a sentence of their own. @param isNew whether the operation makes something */
function ownFailures(fails: NonNullable<AnyOperation['fails']>, isNew: boolean, schemas: Schemas): Json {
  const entries = Object.entries(fails).filter(([, sentence]) => sentence !== true);
  return Object.fromEntries(
    entries.map(([code, description]) => {
      const headers = withId({
        ...(code === 'conflict' && isNew ? { Location: ref('headers', 'LocationOfMade') } : {}),
      });
      const schema = code === 'invalid_plans' ? schemas.of(invalidPlans) : ref('schemas', 'Error');
      return [STATUS[code as RefusalCode], { description, headers, content: jsonOf(schema) }];
    }),
  );
}

function parameterOfPath(name: string): Json {
  if (name in PARAMETERS) return ref('parameters', name);
  return { name, in: 'path', required: true, schema: { type: 'string', minLength: 1, maxLength: 256 } };
}

/** References to common responses, by their statuses. */
function referred(names: readonly (keyof typeof RESPONSES)[]): Json {
  return Object.fromEntries(
    names.map((name) => [RESPONSES[name].content['application/json'].example.status, ref('responses', name)]),
  );
}

function withId(headers: Json): Json {
  return { 'X-Request-Id': ref('headers', 'X-Request-Id'), ...headers };
}

function jsonOf(schema: Json): Record<string, Json> {
  return { 'application/json': { schema } };
}

function ref(kind: 'headers' | 'parameters' | 'responses' | 'schemas', name: string): Json {
  return { $ref: `#/components/${kind}/${name}` };
}

/** The JSON Schemas of values. One whose `meta` has an `id` is a component, which others refer to. */
class Schemas {
  readonly all: Record<string, Json> = {};

  of(type: z.ZodType, io: 'input' | 'output' = 'output'): Json {
    const { $defs = {}, properties } = z.toJSONSchema(z.object({ type }), {
      io,
      override: ({ jsonSchema }) => {
        delete jsonSchema.id;
        // Every record has names that are texts, and every whole number is a safe one.
        if (isPlainText(jsonSchema.propertyNames)) delete jsonSchema.propertyNames;
        // An object of which only some names are known.
        if (JSON.stringify(jsonSchema.properties) === '{}' && jsonSchema.additionalProperties !== false) {
          delete jsonSchema.properties;
          delete jsonSchema.additionalProperties;
        }
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      },
    });
    for (const [id, schema] of Object.entries($defs)) this.all[id] ??= toComponents(schema) as Json;
    return toComponents(properties!.type) as Json;
  }

  /** The output of a change that a failover of the store may undo. */
  unsettled(output: z.ZodType): Json {
    const id = output.meta()?.id;
    const extended = (output as z.ZodObject).extend({ durability: UNKNOWN });
    return this.of(id === undefined ? extended : extended.meta({ id: `${id}Unsettled` }));
  }
}

const UNKNOWN = z
  .literal('unknown')
  .describe('A replica of the store is away, or has not confirmed the change within `redis.durability.timeout`.')
  .meta({ id: 'Unsettled' });

function isPlainText(schema: unknown): boolean {
  return JSON.stringify(schema) === '{"type":"string"}';
}

/** The same schema, whose references lead to the components. */
function toComponents(schema: unknown): unknown {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));
}
