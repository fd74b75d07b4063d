import { EXPOSED } from '../http1/own-fields.ts';

/** Which pages of other origins may read the answers (`cors` in gateway.yaml). */
export interface CorsRules {
  /** Origins as browsers send them, `https://app.example.com`; `*` alone allows all. */
  readonly origins: readonly string[];
  /** Names of request fields that a page may set beside the simple ones. */
  readonly headers: readonly string[];
  /** Names of answer fields that a page may read beside the gateway's own. */
  readonly expose: readonly string[];
  /** Whether a page may send cookies. Never with `*`. */
  readonly credentials: boolean;
  /** How long a browser may remember the answer to a preflight, seconds. */
  readonly maxAgeSeconds: number;
}

/** The CORS fields of answers under a set of rules (Fetch standard, section "CORS protocol"). */
export class CorsFields {
  readonly #rules: CorsRules;
  readonly #origins: ReadonlySet<string>;
  readonly #allowsAny: boolean;
  readonly #exposed: string;

  constructor(rules: CorsRules) {
    this.#rules = rules;
    this.#origins = new Set(rules.origins);
    this.#allowsAny = this.#origins.has('*');
    this.#exposed = [...new Set([...EXPOSED, ...rules.expose])].join(', ');
  }

  /**
   * The fields of an answer, names and values in turn.
   * @param origin the request's Origin; null if it has none, or several
   */
  ofAnswer(origin: string | null): string[] {
    const fields = this.#permission(origin);
    if (fields.length > 0) fields.push('Access-Control-Expose-Headers', this.#exposed);
    // A cache must not serve the answer for one origin to another.
    if (!this.#allowsAny) fields.push('Vary', 'Origin');
    return fields;
  }

  /**
   * The fields of the answer to a preflight, names and values in turn.
   * @param origin the request's Origin; null if it has none, or several
   * @param methods the methods of the route, `GET, HEAD`; null if there is no such route, so nothing is allowed
   */
  ofPreflight(origin: string | null, methods: string | null): string[] {
    const { headers, maxAgeSeconds } = this.#rules;
    const fields = methods === null ? [] : this.#permission(origin);
    if (fields.length > 0) {
      fields.push('Access-Control-Allow-Methods', methods ?? '', 'Access-Control-Allow-Headers', headers.join(', '));
      fields.push('Access-Control-Max-Age', String(maxAgeSeconds));
    }
    fields.push('Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers');
    return fields;
  }

  /** Empty if the origin may not read the answer: without these fields, the browser withholds it from the page. */
  #permission(origin: string | null): string[] {
    if (this.#allowsAny) return ['Access-Control-Allow-Origin', '*'];
    if (origin === null || !this.#origins.has(origin)) return [];
    const fields = ['Access-Control-Allow-Origin', origin];
    if (this.#rules.credentials) fields.push('Access-Control-Allow-Credentials', 'true');
    return fields;
  }
}
