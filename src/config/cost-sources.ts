import { z } from 'zod';
import { type PlainSource, pointerOf } from '../meter/cost.ts';
import * as values from './setting-values.ts';

/* Where values of requests and responses stand that decide what a request costs. */

const POINTER_RULE = 'must be a JSON pointer (RFC 6901) such as /usage/total_tokens';
export const pointer = () =>
  z
    .string(POINTER_RULE)
    .refine((text) => pointerOf(text) !== null, POINTER_RULE)
    .transform((text) => pointerOf(text)!);

/** The members of a source that name one value of a response. */
export const IN_RESPONSE = {
  header: values.token().describe('The field of the answer that has it.'),
  json: pointer().describe('Where it stands in an answer of JSON, as a JSON pointer.'),
  sse: pointer().describe(
    'Where it stands in the events of a stream (`text/event-stream`), as a JSON pointer. The last event that has it counts.',
  ),
  ndjson: pointer().describe(
    'The same in the last of several JSON texts (`application/x-ndjson`, `application/json-seq`).',
  ),
};

type Located =
  | { readonly header: string }
  | { readonly json: readonly string[] }
  | { readonly sse: readonly string[] }
  | { readonly ndjson: readonly string[] };

export function plainSourceOf(raw: Located): PlainSource {
  if ('header' in raw) return { kind: 'header', name: raw.header.toLowerCase() };
  if ('json' in raw) return { kind: 'json', pointer: raw.json };
  if ('sse' in raw) return { kind: 'sse', pointer: raw.sse };
  return { kind: 'ndjson', pointer: raw.ndjson };
}

const { header, json, sse, ndjson } = IN_RESPONSE;
const VALUE_RULE = 'must be a mapping with one of `header`, `json`, `sse` and `ndjson`: { json: /model }';
/** One value of a response. */
export const responseValue = z
  .union(
    [z.strictObject({ header }), z.strictObject({ json }), z.strictObject({ sse }), z.strictObject({ ndjson })],
    VALUE_RULE,
  )
  .transform(plainSourceOf);
