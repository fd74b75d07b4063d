import { isDeepStrictEqual } from 'node:util';
import type { JwtSettings } from '../config/jwt.ts';
import type { JwtVerifier } from '../identify/jwt.ts';
import type { JwtKeys } from '../identify/jwt-keys.ts';
import type { GatewayLog } from '../telemetry/log.ts';

interface Means {
  readonly JwtVerifier: typeof import('../identify/jwt.ts').JwtVerifier;
  readonly openJwtKeys: typeof import('../identify/jwt-source.ts').openJwtKeys;
}

/**
 * What tells the callers with JSON Web Tokens under the settings in force. As long as those do not change, neither does
 * it: the keys of the issuer and the tokens that were verified survive a reload.
 */
export class TokenIssuers {
  readonly #log: GatewayLog;
  #settings: JwtSettings | null = null;
  #verifier: JwtVerifier | null = null;
  #keys: JwtKeys | null = null;
  /** Null until a token may come. */
  #means: Means | null = null;

  constructor(log: GatewayLog) {
    this.#log = log;
  }

  /**
   * Loads what tokens are verified with, which a gateway that accepts none has no memory for.
   * @returns null where `under` can be called with these settings at once
   */
  loading(settings: JwtSettings | null): Promise<void> | null {
    return settings === null || this.#means !== null ? null : this.#load();
  }

  /**
   * @param settings null where no token is accepted; else nothing is `loading` for them any more
   * @throws Failure `bad_settings` for a file of keys that cannot be used; what was before stays
   */
  under(settings: JwtSettings | null): JwtVerifier | null {
    if (isDeepStrictEqual(settings, this.#settings)) return this.#verifier;
    if (settings === null) {
      this.#verifier = this.#keys = null;
    } else {
      if (this.#means === null) throw new Error('what verifies tokens has not been loaded');
      const { jwks, ...rules } = settings;
      const keys = this.#means.openJwtKeys(jwks, { monotonicMs, onTrouble: this.#troubleAt(jwks) });
      this.#verifier = new this.#means.JwtVerifier({ rules, keys, monotonicMs, wallMs: () => Date.now() });
      this.#keys = keys;
    }
    this.#settings = settings;
    return this.#verifier;
  }

  /** Whether the keys of the issuer can be had, for a metric; null where no token is accepted. */
  get keysUp(): boolean | null {
    return this.#keys?.isUp ?? null;
  }

  async #load(): Promise<void> {
    const [{ JwtVerifier }, { openJwtKeys }] = await Promise.all([
      import('../identify/jwt.ts'),
      import('../identify/jwt-source.ts'),
    ]);
    this.#means = { JwtVerifier, openJwtKeys };
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
