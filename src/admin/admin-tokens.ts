import { ADMIN_TOKEN_NAME, type AdminToken, digestOf, type Role } from '../config/admin-tokens-file.ts';
import type { Identity } from './call.ts';

interface AdminTokensOptions {
  /** ADMIN_TOKEN; null if it is not set. */
  readonly adminToken: string | null;
  /** The tokens of ADMIN_TOKENS_FILE; null if it is not set. */
  readonly tokens: readonly AdminToken[] | null;
  /** Whether links alone keep the console on, as for `npm start`. */
  readonly hasLinks: boolean;
}

/** Someone whom a token of the settings identifies. */
export class TokenIdentity implements Identity {
  readonly name: string;
  readonly role: Role;
  readonly kind = 'token';
  readonly via = 'token';
  readonly #ended = new AbortController();

  constructor({ name, role }: Pick<AdminToken, 'name' | 'role'>) {
    this.name = name;
    this.role = role;
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** The token is not accepted any more: its sessions and streams end. */
  end(): void {
    this.#ended.abort();
  }
}

/** The tokens that the admin API accepts. */
export class AdminTokens {
  /** Of ADMIN_TOKEN, by the digest. Apart from the others, because it is never replaced. */
  readonly #fixed: ReadonlyMap<string, TokenIdentity>;
  #named = new Map<string, TokenIdentity>();
  /** Whether there is any way to sign in by a token. ADMIN_TOKENS_FILE is one, even while it is empty. */
  readonly isOpen: boolean;

  constructor({ adminToken, tokens, hasLinks }: AdminTokensOptions) {
    const admin = new TokenIdentity({ name: ADMIN_TOKEN_NAME, role: 'admin' });
    this.#fixed = new Map(adminToken === null ? [] : [[digestOf(adminToken), admin]]);
    this.isOpen = adminToken !== null || tokens !== null || hasLinks;
    this.replace(tokens ?? []);
  }

  /**
   * The holder of a token; null for a wrong one. What is looked up is the digest, so the time that it takes tells an
   * attacker nothing about a token.
   */
  find(token: string): TokenIdentity | null {
    const digest = digestOf(token);
    return this.#fixed.get(digest) ?? this.#named.get(digest) ?? null;
  }

  /** Puts the tokens of a changed file into force. A holder whose token, name and role are the same stays signed in. */
  replace(tokens: readonly AdminToken[]): void {
    const before = this.#named;
    const after = new Map<string, TokenIdentity>();
    for (const { name, role, sha256 } of tokens) {
      const known = before.get(sha256);
      after.set(sha256, known?.name === name && known.role === role ? known : new TokenIdentity({ name, role }));
    }
    this.#named = after;
    for (const [sha256, holder] of before) if (after.get(sha256) !== holder) holder.end();
  }
}
