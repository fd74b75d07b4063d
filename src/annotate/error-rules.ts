import type { ErrorFormName } from '../errors/forms.ts';
import { valuesOf } from '../http1/fields.ts';
import { weightsOf } from '../http1/preferences.ts';
import type { ErrorResponse } from './errors.ts';
import { jsonBodyOf } from './json-bodies.ts';

/** `errors` in gateway.yaml. */
interface ErrorSettings {
  /** The URL of the page that documents the codes, without a fragment; the codes are its fragments. Null without one. */
  readonly docs: string | null;
  /** The form of errors on routes that name none; null for the gateway's own. */
  readonly form: ErrorFormName | null;
  /** Fields of each of them, names and values in turn. */
  readonly fields: readonly string[];
}

/** The form in which a client gets an error. */
interface ShownError {
  readonly body: string;
  readonly contentType: string;
  /** Further fields, names and values in turn. */
  readonly fields: readonly string[];
}

const PROBLEM = 'application/problem+json';

/** How the gateway's own errors look: in which form, with which fields, and with a link to their documentation. */
export class ErrorRules {
  readonly #settings: ErrorSettings;
  /** Whether an error looks like any other of its code where the route of the request says nothing. */
  readonly isPlain: boolean;

  constructor(settings: ErrorSettings) {
    this.#settings = settings;
    const { docs, form, fields } = settings;
    this.isPlain = docs === null && form === null && fields.length === 0;
  }

  /**
   * @param form of the route of the request; null if it names none, or has no route
   * @param rawHeaders of the request, whose Accept decides if no form is named
   */
  shown(error: ErrorResponse, form: ErrorFormName | null, rawHeaders: readonly string[]): ShownError {
    const { docs, form: ofGateway, fields: ownFields } = this.#settings;
    const type = docs === null ? null : `${docs}#${error.code}`;
    const named = form ?? ofGateway;
    // A cache must not serve the one form to a client that asked for the other.
    const vary = docs !== null && named === null ? ['Vary', 'Accept'] : [];
    const link = type === null ? [] : ['Link', `<${type}>; rel="help"`];
    const fields = [...ownFields, ...link, ...vary];
    const chosen = named ?? (docs !== null && prefersProblem(rawHeaders) ? 'problem' : 'own');
    const contentType = chosen === 'problem' ? PROBLEM : 'application/json';
    return { body: chosen === 'own' ? error.body : jsonBodyOf(error, chosen, type), contentType, fields };
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
