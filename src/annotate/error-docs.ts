import { valuesOf } from '../http1/fields.ts';
import { weightsOf } from '../http1/preferences.ts';
import type { ErrorResponse } from './errors.ts';

/** The form in which a client gets an error. */
interface ShownError {
  readonly body: string;
  readonly contentType: string;
  /** Further fields, names and values in turn. */
  readonly fields: readonly string[];
}

const PROBLEM = 'application/problem+json';

/** Links errors to their documentation (`errors.docs` in gateway.yaml). */
export class ErrorDocs {
  readonly #url: string;

  /** @param url of the page, without a fragment; the codes are its fragments */
  constructor(url: string) {
    this.#url = url;
  }

  /** @param rawHeaders of the request, whose Accept decides about the form */
  shown(error: ErrorResponse, rawHeaders: readonly string[]): ShownError {
    const type = `${this.#url}#${error.code}`;
    // A cache must not serve the one form to a client that asked for the other.
    const fields = ['Link', `<${type}>; rel="help"`, 'Vary', 'Accept'];
    if (!prefersProblem(rawHeaders)) return { body: error.body, contentType: 'application/json', fields };
    return { body: problemOf(error, type), contentType: PROBLEM, fields };
  }
}

/**
 * Whether the client wants problem details: it names them, and prefers them no less than the default. A wildcard does not
 * name them, so that clients that accept anything get the default form.
 */
function prefersProblem(rawHeaders: readonly string[]): boolean {
  const values = valuesOf(rawHeaders, 'accept');
  if (values.length === 0) return false;
  const weights = weightsOf(values.join(','));
  const problem = weights.get(PROBLEM) ?? 0;
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0;
  return problem > 0 && problem >= json;
}

/** The error as problem details (RFC 9457 section 3.1), with the members of the default form as extensions. */
function problemOf({ code, status, body }: ErrorResponse, type: string): string {
  const { message, details } = JSON.parse(body) as { message: string; details?: object };
  return JSON.stringify({ type, title: titleOf(code), status, detail: message, code, details });
}

/** A summary that is the same each time (RFC 9457 section 3.1.3): `api_key_banned` is `API key banned`. */
function titleOf(code: string): string {
  const words = code.replaceAll('_', ' ').replace(/\b(?:api|uri|http)\b/g, (word) => word.toUpperCase());
  return words[0]!.toUpperCase() + words.slice(1);
}
