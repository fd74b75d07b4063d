import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { z } from 'zod';

// The records of ACME: their forms, and how those that hold private keys are sealed in Redis.

const ACCOUNT = z.object({ key: z.string(), url: z.string().nullable() });
const ISSUED = z.object({ key: z.string(), cert: z.string(), domains: z.array(z.string()) });
const FAILED = z.object({
  failures: z.int().min(1),
  kind: z.enum(['unreachable', 'refused']),
  why: z.string(),
  atMs: z.number(),
  nextTryAtMs: z.number(),
});

/** The key of the account in PEM form, and the account's URL; null before the authority has named it. */
export type Account = z.infer<typeof ACCOUNT>;
/** A certificate with its chain and its key, in PEM form. */
export type Issued = z.infer<typeof ISSUED>;
/** The failed attempts since the last success. Times are Unix milliseconds; `why` is a sentence for operators. */
export type Failed = z.infer<typeof FAILED>;

/** Encrypts records before they are stored. `name` is bound to the text, so that no record can take the place of another. */
export interface Sealing {
  seal(name: string, text: string): string;
  /** @returns null if no key opens it, or it was altered */
  open(name: string, sealed: string): string | null;
}

/** For files, which only the user of the gateway can read. */
export const UNSEALED: Sealing = { seal: (_, text) => text, open: (_, sealed) => sealed };

const IV_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 'v1.';

/**
 * AES-256-GCM under a key that HKDF-SHA-256 derives from the pepper, which is never in Redis: a copy of Redis, its backup or its
 * traffic reveal no private key.
 * @param peppers newest first, at least one: the newest seals, each opens
 */
export function sealingUnder(peppers: readonly string[]): Sealing {
  const keys = peppers.map((pepper) =>
    Buffer.from(hkdfSync('sha256', pepper, 'tollgate', 'certificates and accounts of listen.tls.acme', 32)),
  );
  const openWith = (key: Buffer, name: string, bytes: Buffer): string | null => {
    try {
      const options = { authTagLength: TAG_BYTES };
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES), options);
      decipher.setAAD(Buffer.from(name)).setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
      return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString();
    } catch {
      return null;
    }
  };
  return {
    seal: (name, text) => {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv('aes-256-gcm', keys[0]!, iv).setAAD(Buffer.from(name));
      const content = Buffer.concat([cipher.update(text), cipher.final()]);
      return VERSION + Buffer.concat([iv, cipher.getAuthTag(), content]).toString('base64url');
    },
    open: (name, sealed) => {
      if (!sealed.startsWith(VERSION)) return null;
      const bytes = Buffer.from(sealed.slice(VERSION.length), 'base64url');
      for (const key of keys) {
        const text = openWith(key, name, bytes);
        if (text !== null) return text;
      }
      return null;
    },
  };
}

/** @returns null for anything but such a record */
export const readAccount = (text: string | null) => parsed(ACCOUNT, text);
/** @returns null for anything but such a record */
export const readIssued = (text: string | null) => parsed(ISSUED, text);
/** @returns null for anything but such a record */
export const readFailed = (text: string | null) => parsed(FAILED, text);

function parsed<T>(form: z.ZodType<T>, text: string | null): T | null {
  if (text === null) return null;
  try {
    return form.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

/** Stands for one directory and one set of domains in the names of records. */
export function idOf(directory: string, domains: readonly string[]): string {
  return shortHash([directory, ...domains.toSorted()].join(' '));
}

/** Stands for one account in the names of records. */
export function directoryIdOf(directory: string, keyId: string | null): string {
  return shortHash(keyId === null ? directory : `${directory} ${keyId}`);
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24);
}
