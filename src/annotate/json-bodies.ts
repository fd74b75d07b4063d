import { ERRORS } from '../errors/catalogue.ts';
import type { ErrorFormName } from '../errors/forms.ts';
import type { ErrorResponse } from './errors.ts';

/** The members of the interface's Error. */
interface Members {
  readonly code: string;
  readonly message: string;
  readonly status: number;
  readonly details?: object;
}

/**
 * The body of an error in another form than the gateway's own. Each has the members of that somewhere, so that nothing is lost.
 * @param type the URL that documents the error; null without `errors.docs`
 */
export function jsonBodyOf(error: ErrorResponse, form: Exclude<ErrorFormName, 'own'>, type: string | null): string {
  return JSON.stringify(BODIES[form](JSON.parse(error.body) as Members, type, error));
}

/** As registered by draft-ietf-httpapi-ratelimit-headers-11 section 6. A policy may have chosen a code of its own. */
function problemTypeOf(code: string): object {
  const { problem } = (ERRORS as Readonly<Record<string, { readonly problem?: string }>>)[code] ?? {};
  return problem === undefined ? {} : { type: `https://iana.org/assignments/http-problem-types#${problem}` };
}

const BODIES: Readonly<
  Record<
    Exclude<ErrorFormName, 'own'>,
    (error: Members, type: string | null, response: ErrorResponse) => Record<string, unknown>
  >
> = {
  /** RFC 9457 section 3.1. Most errors without documentation have no type, which means `about:blank`. */
  problem: ({ code, message, status, details }, type, response) => ({
    ...(type === null ? problemTypeOf(code) : { type }),
    title: titleOf(code),
    ...{ status, detail: message, code, details },
    ...(response.violated === undefined ? {} : { 'violated-policies': response.violated }),
  }),
  /** The official clients read `error` of the body up to version 6, and its other members from version 7 on. */
  openai: (error) => ({
    error: { message: error.message, type: nameBy(OPENAI, error), param: null, code: error.code },
    ...error,
  }),
  anthropic: (error) => ({
    type: 'error',
    error: { type: nameBy(ANTHROPIC, error), message: error.message },
    ...error,
  }),
  /** JSON-RPC 2.0 section 5.1. The id is null, because the gateway answers without the body of the request. */
  'json-rpc': ({ message, ...data }) => ({
    jsonrpc: '2.0',
    id: null,
    error: { code: data.status < 500 ? (RPC[data.status] ?? SERVER_ERROR) : INTERNAL_ERROR, message, data },
  }),
  /** GraphQL specification section 7.1.2. */
  graphql: ({ message, ...extensions }) => ({ errors: [{ message, extensions }] }),
};

/** What an API calls errors, by their status. */
interface Names {
  readonly [status: number]: string;
  readonly other4xx: string;
  readonly other5xx: string;
}

const OPENAI: Names = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  other4xx: 'invalid_request_error',
  other5xx: 'server_error',
};

const ANTHROPIC: Names = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  other4xx: 'invalid_request_error',
  other5xx: 'api_error',
};

function nameBy(names: Names, { status }: Members): string {
  return names[status] ?? (status < 500 ? names.other4xx : names.other5xx);
}

const [SERVER_ERROR, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND] = [-32_000, -32_603, -32_600, -32_601];
/** The codes of JSON-RPC 2.0 by status; SERVER_ERROR for others below 500. */
const RPC: Readonly<Record<number, number>> = { 400: INVALID_REQUEST, 404: METHOD_NOT_FOUND };

/** A summary that is the same each time (RFC 9457 section 3.1.3): `api_key_banned` is `API key banned`. */
function titleOf(code: string): string {
  const words = code.replaceAll('_', ' ').replace(/\b(?:api|uri|http)\b/g, (word) => word.toUpperCase());
  return words[0]!.toUpperCase() + words.slice(1);
}
