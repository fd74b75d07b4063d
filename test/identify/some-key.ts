import { randomBytes } from 'node:crypto';
import { digestOf, mint, newKeyId } from '../../src/identify/api-key.ts';
import type { StoredKey } from '../../src/model/record.ts';

export const PEPPER = 'a pepper for the tests';

/** A key as a store has it, and its secret. */
export function someKey(differently: Partial<StoredKey> = {}, pepper = PEPPER) {
  const secret = mint(randomBytes);
  const key: StoredKey = {
    id: newKeyId(randomBytes),
    plan: 'pro',
    limits: {},
    name: null,
    owner: null,
    createdAtMs: 1_700_000_000_000,
    expiresAtMs: null,
    revokedAtMs: null,
    secrets: [
      { digest: digestOf(secret, pepper), last4: secret.slice(-4), createdAtMs: 1_700_000_000_000, expiresAtMs: null },
    ],
    ...differently,
  };
  return { key, secret, digest: key.secrets[0]!.digest };
}
