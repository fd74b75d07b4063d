import { isDeepStrictEqual } from 'node:util';
import type { JwtSettings } from '../config/jwt.ts';
import { JwtVerifier } from '../identify/jwt.ts';
import type { JwtKeys } from '../identify/jwt-keys.ts';
import { openJwtKeys } from '../identify/jwt-source.ts';
import type { GatewayLog } from '../telemetry/log.ts';

/**
 * What tells the callers with JSON Web Tokens under the settings in force. As long as those do not change, neither does
 * it: the keys of the issuer and the tokens that were verified survive a reload.
 */
export class TokenIssuers {
  readonly #log: GatewayLog;
  #settings: JwtSettings | null = null;
  #verifier: JwtVerifier | null = null;
  #keys: JwtKeys | null = null;

  constructor(log: GatewayLog) {
    this.#log = log;
  }

  /**
   * @param settings null where no token is accepted
   * @throws Failure `bad_settings` for a file of keys that cannot be used; what was before stays
   */
  under(settings: JwtSettings | null): JwtVerifier | null {
    if (isDeepStrictEqual(settings, this.#settings)) return this.#verifier;
    const keys = settings === null ? null : this.#open(settings);
    this.#verifier = settings === null || keys === null ? null : verifierOf(settings, keys);
    this.#keys = keys;
    this.#settings = settings;
    return this.#verifier;
  }

  /** Whether the keys of the issuer can be had, for a metric; null where no token is accepted. */
  get keysUp(): boolean | null {
    return this.#keys?.isUp ?? null;
  }

  #open({ jwks }: JwtSettings): JwtKeys {
    const { logger } = this.#log;
    const onTrouble = (error: Error | null) => {
      const at = jwks.kind === 'url' ? jwks.url : jwks.path;
      if (error === null) logger.info({ jwks: at }, "the keys of the tokens' issuer can be had again");
      else logger.error({ jwks: at, err: error }, "the keys of the tokens' issuer cannot be had or used");
    };
    return openJwtKeys(jwks, { monotonicMs, onTrouble });
  }
}

function verifierOf({ jwks: _, ...rules }: JwtSettings, keys: JwtKeys): JwtVerifier {
  return new JwtVerifier({ rules, keys, monotonicMs, wallMs: () => Date.now() });
}

function monotonicMs(): number {
  return performance.now();
}
