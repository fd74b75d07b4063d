import { constants, readFileSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { Failure } from '../failure.ts';
import { JwtKeys, type JwtKeysOptions } from './jwt-keys.ts';

/** Where the issuer's JSON Web Key Set is (RFC 7517 section 5). */
export type JwksSource =
  /** https, or http on this machine. */
  | { readonly kind: 'url'; readonly url: string }
  /** Absolute path. */
  | { readonly kind: 'file'; readonly path: string };

/** Largest key set that is read; those of large issuers have 20 KB. */
const MAX_BYTES = 262_144;
/** The whole answer of the issuer. Requests may be waiting for it. */
const TIMEOUT_MS = 3_000;

const MINUTE_MS = 60_000;
const URL_AGES = { freshMs: 5 * MINUTE_MS, waitMs: 10 * MINUTE_MS, staleMs: 60 * MINUTE_MS, cooldownMs: 10_000 };
/** A changed file is obeyed within a second, as every change is. */
const FILE_AGES = { freshMs: 1_000, waitMs: 1_000, staleMs: 60 * MINUTE_MS, cooldownMs: 1_000 };

/**
 * Opens the issuer's keys. Those of a file must be there; those of a URL are asked for, and the gateway starts without.
 * @throws Failure `bad_settings` for a file that cannot be read or is no key set
 */
export function openJwtKeys(
  source: JwksSource,
  surroundings: Pick<JwtKeysOptions, 'monotonicMs' | 'onTrouble'>,
): JwtKeys {
  if (source.kind === 'url') return new JwtKeys({ ...surroundings, ...URL_AGES, read: () => fetchText(source.url) });
  const { path } = source;
  try {
    const found = statSync(path);
    if (!found.isFile() || found.size > MAX_BYTES) throw tooLarge();
    const first = readFileSync(path, 'utf8');
    return new JwtKeys({ ...surroundings, ...FILE_AGES, first, read: () => readText(path) });
  } catch (error) {
    const message = `${path}, the file of \`jwt.jwks\`, cannot be read as a JSON Web Key Set. It must be JSON such as {"keys":[…]}.`;
    throw new Failure('bad_settings', message, error);
  }
}

async function readText(path: string): Promise<string> {
  // A pipe named by mistake must not hold a thread for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(MAX_BYTES + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length);
      length += bytesRead;
      if (length > MAX_BYTES) throw tooLarge();
      if (bytesRead === 0) return buffer.toString('utf8', 0, length);
    }
  } finally {
    await file.close();
  }
}

/** One GET, no redirect followed: an issuer's keys are where the settings say and nowhere else. */
async function fetchText(url: string): Promise<string> {
  const response = await fetch(url, {
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
    headers: { Accept: 'application/jwk-set+json, application/json' },
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`the server of the JSON Web Key Set answered ${response.status}`);
  }
  const pieces: Uint8Array[] = [];
  let length = 0;
  // Leaving the loop cancels the rest.
  for await (const piece of response.body ?? []) {
    length += piece.length;
    if (length > MAX_BYTES) throw tooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

function tooLarge(): Error {
  return new Error(`the JSON Web Key Set is no file, or larger than ${MAX_BYTES} bytes`);
}
