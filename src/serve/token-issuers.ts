import { isDeepStrictEqual } from 'node:util';
import type { JwtSettings } from '../config/identification.ts';
import type { JwtVerifier } from '../identify/jwt.ts';
import type { JwtKeys } from '../identify/jwt-keys.ts';
import type { GatewayLog } from '../telemetry/log.ts';

interface JwtModules {
  readonly JwtVerifier: typeof import('../identify/jwt.ts').JwtVerifier;
  readonly openJwtKeys: typeof import('../identify/jwt-keys.ts').openJwtKeys;
}

/**
 * Keeps the verifier of JSON Web Tokens for the settings in force. A reload that does not change the `jwt` settings keeps
 * the verifier, with the keys of the issuer and the tokens that it has verified.
 */
export class TokenIssuers {
  readonly #log: GatewayLog;
  #settings: JwtSettings | null = null;
  #verifier: JwtVerifier | null = null;
  #keys: JwtKeys | null = null;
  /** Null until the settings accept tokens. */
  #modules: JwtModules | null = null;

  constructor(log: GatewayLog) {
    this.#log = log;
  }

  /**
   * Imports the modules that verify tokens. A gateway that accepts no tokens does not spend memory on them.
   * @returns null if nothing is to be imported, so that `verifierFor` can be called at once
   */
  load(settings: JwtSettings | null): Promise<void> | null {
    return settings === null || this.#modules !== null ? null : this.#load();
  }

  /**
   * The verifier for these settings, a new one if they have changed. Call `load` with them first.
   * @param settings null if the gateway accepts no tokens
   * @throws Failure `bad_settings` for a file of keys that cannot be used; the earlier verifier then stays
   */
  verifierFor(settings: JwtSettings | null): JwtVerifier | null {
    if (isDeepStrictEqual(settings, this.#settings)) return this.#verifier;
    if (settings === null) {
      this.#verifier = this.#keys = null;
    } else {
      if (this.#modules === null) throw new Error('the modules that verify tokens have not been loaded');
      const { jwks, ...rules } = settings;
      const keys = this.#modules.openJwtKeys(jwks, { monotonicMs, onTrouble: this.#troubleAt(jwks) });
      this.#verifier = new this.#modules.JwtVerifier({ rules, keys, monotonicMs, wallMs: () => Date.now() });
      this.#keys = keys;
    }
    this.#settings = settings;
    return this.#verifier;
  }

  /** Whether the gateway has the keys of the issuer, for a metric; null if it accepts no tokens. */
  get keysUp(): boolean | null {
    return this.#keys?.isUp ?? null;
  }

  async #load(): Promise<void> {
    const [{ JwtVerifier }, { openJwtKeys }] = await Promise.all([
      import('../identify/jwt.ts'),
      import('../identify/jwt-keys.ts'),
    ]);
    this.#modules = { JwtVerifier, openJwtKeys };
  }

  #troubleAt(jwks: JwtSettings['jwks']): (error: Error | null) => void {
    const { logger } = this.#log;
    const at = jwks.kind === 'url' ? jwks.url : jwks.path;
    return (error) => {
      if (error === null) logger.info({ jwks: at }, "the keys of the tokens' issuer can be had again");
      else logger.error({ jwks: at, err: error }, "the keys of the tokens' issuer cannot be had or used");
    };
  }
}

function monotonicMs(): number {
  return performance.now();
}
