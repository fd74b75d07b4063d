import { show } from './fault.ts';
import { faultOfRedisUrl } from './redis-url.ts';
import { readSecret, type SecretReader } from './secret.ts';
import { faultOfTarget, HOST_RULE, isHost } from './values.ts';

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** What the environment says (contract section 2); null where it says nothing and the file or the default stands. */
export interface Environment {
  readonly host: string | null;
  readonly port: number | null;
  readonly adminHost: string | null;
  readonly adminPort: number | null;
  readonly adminToken: string | null;
  /** Origin that replaces the targets of the one upstream. */
  readonly upstreamUrl: string | null;
  readonly redisUrl: string | null;
  readonly gatewayFile: string | null;
  readonly plansFile: string | null;
  readonly dataFolder: string | null;
  /** Newest first; empty when not set. */
  readonly peppers: readonly string[];
  readonly logLevel: LogLevel | null;
  readonly workers: number | 'auto' | null;
}

/** The variables of a process, as `process.env` has them. */
export type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Reads every variable of contract section 2. An empty variable counts as not set. Values of secrets, and addresses
 * that may hold a password, are never repeated in a fault.
 * @param read how the file that a `*_FILE` variable names is read
 * @returns the values with what is probably wrong, or every fault as `environment: NAME: what is wrong and what is allowed`
 */
export function readEnvironment(
  env: Variables,
  read: SecretReader = readSecret,
):
  | { readonly environment: Environment; readonly warnings: readonly string[] }
  | { readonly faults: readonly string[] } {
  const faults: string[] = [];
  const tell = (name: string, message: string) => {
    faults.push(`environment: ${name}: ${message}.`);
  };
  const text = (name: string) => env[name] || null;
  const secret = (name: string) => secretOf(env, name, { read, tell });
  const checked = (name: string, value: string | null, faultOf: (value: string) => string | null) => {
    const fault = value === null ? null : faultOf(value);
    if (fault !== null) tell(name, fault);
    return value;
  };
  const port = (name: string) => numberOf(checked(name, text(name), faultOfPort));
  const upstreamUrl = checked('UPSTREAM_URL', text('UPSTREAM_URL'), faultOfTarget);
  const redisUrl = checked('REDIS_URL', secret('REDIS_URL'), faultOfRedisUrl);
  const pepper = checked('KEY_PEPPER', secret('KEY_PEPPER'), faultOfPepper);
  if (redisUrl !== null && pepper === null && !env.KEY_PEPPER_FILE) {
    tell(
      'KEY_PEPPER',
      'must be set where REDIS_URL is: to the pepper of the gateways on this Redis or, for the first of them, to one that ' +
        '`openssl rand -base64 32` makes; keep it',
    );
  }
  const workers = checked('WORKERS', text('WORKERS'), faultOfWorkers);
  const environment: Environment = {
    host: checked('HOST', text('HOST'), faultOfHost),
    port: port('PORT'),
    adminHost: checked('ADMIN_HOST', text('ADMIN_HOST'), faultOfHost),
    adminPort: port('ADMIN_PORT'),
    adminToken: checked('ADMIN_TOKEN', secret('ADMIN_TOKEN'), faultOfToken),
    upstreamUrl,
    redisUrl,
    gatewayFile: text('TOLLGATE_CONFIG'),
    plansFile: text('TOLLGATE_PLANS'),
    dataFolder: text('TOLLGATE_DATA'),
    peppers: pepper === null ? [] : pepper.split(','),
    logLevel: checked('LOG_LEVEL', text('LOG_LEVEL'), faultOfLogLevel) as LogLevel | null,
    workers: workers === 'auto' ? workers : numberOf(workers),
  };
  if (faults.length > 0) return { faults };
  const isOldWeak = environment.peppers.slice(1).some(isWeak);
  return { environment, warnings: isOldWeak ? [`environment: KEY_PEPPER: ${OLD_IS_WEAK}.`] : [] };
}

/**
 * The port that a variable names, for commands that need no other setting (`PETS_PORT` of `npm start`, default 9000).
 * @returns the port, 0 meaning any free one, or the fault
 */
export function portOf(
  env: Variables,
  name: string,
  fallback: number,
): { readonly port: number } | { readonly faults: readonly string[] } {
  const value = env[name];
  if (!value) return { port: fallback };
  const fault = faultOfPort(value);
  return fault === null ? { port: Number(value) } : { faults: [`environment: ${name}: ${fault}.`] };
}

interface SecretSource {
  readonly read: SecretReader;
  tell(name: string, message: string): void;
}

/** The value of `name`, or of the file that `name_FILE` names. */
function secretOf(env: Variables, name: string, { read, tell }: SecretSource): string | null {
  const [value, file] = [env[name] || null, env[`${name}_FILE`] || null];
  if (file === null) return value;
  if (value !== null) {
    tell(name, `is set together with ${name}_FILE; set only one of them`);
    return null;
  }
  const content = read(file);
  if ('fault' in content) {
    tell(`${name}_FILE`, content.fault);
    return null;
  }
  return content.text;
}

function numberOf(text: string | null): number | null {
  return text === null ? null : Number(text);
}

function faultOfPort(text: string): string | null {
  return /^(0|[1-9][0-9]{0,4})$/.test(text) && Number(text) <= 65_535
    ? null
    : `must be a port from 0 to 65535, not ${show(text)}`;
}

function faultOfHost(text: string): string | null {
  return isHost(text) ? null : `${HOST_RULE}, not ${show(text)}`;
}

function faultOfWorkers(text: string): string | null {
  if (text === 'auto' || (/^[1-9][0-9]{0,2}$/.test(text) && Number(text) <= 256)) return null;
  return `must be \`auto\` or a whole number from 1 to 256, not ${show(text)}`;
}

function faultOfLogLevel(text: string): string | null {
  return LOG_LEVELS.some((level) => level === text)
    ? null
    : `must be one of ${LOG_LEVELS.join(', ')}, not ${show(text)}`;
}

/** What a secret has at least: of this many characters, this many different ones. */
const [SECRET_LENGTH, SECRET_VARIETY] = [16, 5];
const MAKE_ONE = 'make one with `openssl rand -base64 32`';

/** Attack: `changeme` and `aaaaaaaaaaaaaaaa` are guessed within minutes. Better guesses are beyond what can be judged here. */
function isWeak(secret: string): boolean {
  return secret.length < SECRET_LENGTH || new Set(secret).size < SECRET_VARIETY;
}

/** A token with a space or beyond ASCII could not be sent in `Authorization` and would lock everybody out. */
function faultOfToken(text: string): string | null {
  if (!/^[\x21-\x7e]{1,1024}$/.test(text)) return 'must be visible ASCII characters without spaces, at most 1024';
  if (!isWeak(text)) return null;
  return `is too easy to guess: it must have at least 16 characters, 5 of them different; ${MAKE_ONE}`;
}

const OLD_IS_WEAK =
  'the old pepper has fewer than 5 different characters; leave it out as soon as its keys are in use under the new one';

function faultOfPepper(text: string): string | null {
  const parts = text.split(',');
  if (parts.some((part) => part.length < SECRET_LENGTH))
    return `must be at least 16 characters, and so must each part of \`new,old\`; ${MAKE_ONE}`;
  // The old ones are in use: without them, their keys would be lost.
  if (isWeak(parts[0]!))
    return `must have at least 5 different characters; ${MAKE_ONE}, and where keys are in use, set \`new,old\``;
  if (parts.some((part) => part !== part.trim())) return 'has white space at an end or beside a comma; leave it out';
  if (new Set(parts).size < parts.length) return 'names the same pepper twice; leave one out';
  return null;
}
