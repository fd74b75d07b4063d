import { createHash } from 'node:crypto';
import { z } from 'zod';
import { faultOfToken } from './environment.ts';
import { type Fault, printFault } from './fault.ts';
import { isPipeOrDevice, readSettingsFile, signatureOf, statOf } from './read-file.ts';
import { asArray, field, type Note, parseYaml } from './yaml.ts';

// ADMIN_TOKENS_FILE: the named tokens of the admin API and their roles (contract section 2).

/** What an operator may do, each role including those before it: look, help a customer, change keys and plans. */
export const ROLES = ['viewer', 'operator', 'admin'] as const;
export type Role = (typeof ROLES)[number];

/** A token of the admin API. The token itself is not kept. */
export interface AdminToken {
  readonly name: string;
  readonly role: Role;
  /** SHA-256 of the token, in lower-case hexadecimal. */
  readonly sha256: string;
}

const MAX_TOKENS = 1_000;
/** The name that ADMIN_TOKEN has in the record of changes. */
export const ADMIN_TOKEN_NAME = 'ADMIN_TOKEN';

// Messages that begin with "must be" get the value appended. Those of `token` and `sha256` begin otherwise: no fault may
// quote a secret.
const nameRule = 'must be 1 to 64 visible characters without spaces';
const tokenRule = 'is not text; put the token into quotes';
const digestRule =
  'is not the SHA-256 of a token: 64 hexadecimal digits, such as `printf %s "$TOKEN" | sha256sum` prints';

const SCHEMA = z
  .array(
    z.strictObject({
      name: z.string(nameRule).regex(/^[\p{L}\p{M}\p{N}\p{P}\p{S}]{1,64}$/u, nameRule),
      role: z.enum(ROLES, `must be one of ${ROLES.join(', ')}`),
      token: z
        .string(tokenRule)
        .superRefine((token, context) => {
          const message = faultOfToken(token);
          if (message !== null)
            context.addIssue({ code: 'custom', message: message.replace(/^must be/, 'may have only') });
        })
        .optional(),
      sha256: z
        .string(digestRule)
        .regex(/^[0-9a-f]{64}$/i, digestRule)
        .optional(),
    }),
    'must be a list of tokens, each with `name`, `role`, and `token` or `sha256`',
  )
  .max(MAX_TOKENS, `must be at most ${MAX_TOKENS} tokens`);

/**
 * Reads the text of ADMIN_TOKENS_FILE.
 * @returns the tokens, or every fault; none quotes a token
 */
export function parseAdminTokens(
  text: string,
  file: string,
): { readonly tokens: readonly AdminToken[] } | { readonly faults: readonly Fault[] } {
  const parsed = parseYaml(text, file, { schema: SCHEMA, check: checkTokens });
  if ('faults' in parsed) return { faults: parsed.faults.map(withoutMarks) };
  const tokens = parsed.value.map(({ name, role, token, sha256 }) => ({
    name,
    role,
    sha256: token === undefined ? sha256!.toLowerCase() : digestOf(token),
  }));
  return { tokens };
}

/** Faults of YAML quote aliases, anchors and tags, and a token without quotes may look like one. */
function withoutMarks(fault: Fault): Fault {
  return { ...fault, message: fault.message.replace(/ `[*&!][^`]*`/g, '') };
}

/** The SHA-256 of a token in lower-case hexadecimal, by which tokens are compared. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function checkTokens(raw: unknown, fault: Note): void {
  const [names, digests] = [new Set<unknown>(), new Set<string>()];
  for (const [at, entry] of asArray(raw).entries()) {
    const [name, token, sha256] = ['name', 'token', 'sha256'].map((key) => field(entry, key));
    if (names.has(name)) fault([at, 'name'], 'is the name of another token as well; give each a name of its own.');
    if (name === ADMIN_TOKEN_NAME) fault([at, 'name'], `is the name of the token in ADMIN_TOKEN; choose another one.`);
    if (name !== undefined) names.add(name);
    if ((token === undefined) === (sha256 === undefined)) {
      fault([at], 'needs either `token` or `sha256`, the SHA-256 of the token in hexadecimal.');
      continue;
    }
    const given = token === undefined ? sha256 : token;
    if (typeof given !== 'string') continue;
    const digest = token === undefined ? given.toLowerCase() : digestOf(given);
    const key = token === undefined ? 'sha256' : 'token';
    if (digests.has(digest)) fault([at, key], 'is the token of another name as well; give each a token of its own.');
    digests.add(digest);
  }
}

/** Reads ADMIN_TOKENS_FILE. @returns the tokens, or the faults as lines for the terminal */
export function readAdminTokens(
  file: string,
  isReload = false,
): { readonly tokens: readonly AdminToken[] } | { readonly faults: readonly string[] } {
  const read = readSettingsFile(file, 'Name another file in ADMIN_TOKENS_FILE.', isReload);
  const parsed = 'fault' in read ? { faults: [read.fault] } : parseAdminTokens(read.text, file);
  return 'faults' in parsed ? { faults: parsed.faults.map(printFault) } : parsed;
}

interface AdminTokensEvents {
  readonly onChange: (tokens: readonly AdminToken[]) => void;
  /** A new version of the file has faults, so the earlier tokens stay in force. Called once for each version. */
  readonly onRefused: (faults: readonly string[]) => void;
}

const LOOK_EVERY_MS = 500;

/**
 * Reads ADMIN_TOKENS_FILE again when it changes. It polls the name, as the SettingsWatcher does and for its reasons, and reads
 * a change when the next poll finds it unchanged: an editor may still be writing.
 * @param signature of the file before its first reading
 * @returns a function that stops it
 */
export function followAdminTokens(file: string, signature: string, events: AdminTokensEvents): () => void {
  // A pipe can be read only once, so its present state counts as read.
  const stats = statOf(file);
  let read = stats !== undefined && isPipeOrDevice(stats) ? signatureOf([file]) : signature;
  let before = read;
  const timer = setInterval(() => {
    const now = signatureOf([file]);
    const isSettled = now === before;
    before = now;
    if (now === read || !isSettled) return;
    read = now;
    const found = readAdminTokens(file, true);
    if ('faults' in found) events.onRefused(found.faults);
    else events.onChange(found.tokens);
  }, LOOK_EVERY_MS).unref();
  return () => clearInterval(timer);
}
