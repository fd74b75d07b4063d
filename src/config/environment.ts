import { quoted } from './fault.ts';
import { isReadableByAll, readSecret, type SecretReader } from './read-file.ts';
import { type Frozen, faultOfTarget, HOST_RULE, isHost } from './setting-values.ts';

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

/** The values of the environment variables (contract section 2). Null: not set, so the file or the default applies. */
export type Environment = Frozen<ReturnType<typeof valuesOf>>;

/** The environment variables of a process, in the shape of `process.env`. */
export type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Reads every variable of contract section 2. An empty variable counts as not set. Faults never quote a secret, nor an
 * address that may contain a password.
 * @param read reads the file that a `*_FILE` variable names
 * @returns the values and the warnings, or every fault as `environment: NAME: what is wrong and what is allowed`
 */
export function readEnvironment(
  env: Variables,
  read: SecretReader = readSecret,
):
  | { readonly environment: Environment; readonly warnings: readonly string[] }
  | { readonly faults: readonly string[] } {
  const faults: string[] = [];
  const report = (name: string, message: string) => {
    faults.push(`environment: ${name}: ${message}.`);
  };
  const environment = valuesOf(env, { read, report });
  if (faults.length > 0) return { faults };
  const isOldWeak = environment.peppers.slice(1).some(isWeak);
  return { environment, warnings: isOldWeak ? [`environment: KEY_PEPPER: ${OLD_IS_WEAK}.`] : [] };
}

/** The values as far as they can be read; faults are reported. */
function valuesOf(env: Variables, source: SecretSource) {
  const { report } = source;
  const text = (name: string) => env[name] || null;
  const secret = (name: string) => secretOf(env, name, source);
  const checked = (name: string, value: string | null, faultOf: (value: string) => string | null) => {
    const fault = value === null ? null : faultOf(value);
    if (fault !== null) report(name, fault);
    return value;
  };
  const port = (name: string) => numberOf(checked(name, text(name), faultOfPort));
  const upstreamUrl = checked('UPSTREAM_URL', text('UPSTREAM_URL'), faultOfTarget);
  const redisUrl = checked('REDIS_URL', secret('REDIS_URL'), faultOfRedisUrl);
  const pepper = checked('KEY_PEPPER', secret('KEY_PEPPER'), faultOfPepper);
  if (redisUrl !== null && pepper === null && !env.KEY_PEPPER_FILE) {
    report(
      'KEY_PEPPER',
      'must be set where REDIS_URL is: to the pepper of the gateways on this Redis or, for the first of them, to one that ' +
        '`openssl rand -base64 32` makes; keep it',
    );
  }
  const workers = checked('WORKERS', text('WORKERS'), faultOfWorkers);
  return {
    host: checked('HOST', text('HOST'), faultOfHost),
    port: port('PORT'),
    adminHost: checked('ADMIN_HOST', text('ADMIN_HOST'), faultOfHost),
    adminPort: port('ADMIN_PORT'),
    adminToken: checked('ADMIN_TOKEN', secret('ADMIN_TOKEN'), faultOfToken),
    adminTokensFile: text('ADMIN_TOKENS_FILE'),
    /** Replaces the targets of the only upstream: an origin, or `unix:/path`. */
    upstreamUrl,
    redisUrl,
    dataFolder: text('TOLLGATE_DATA'),
    /** Newest first; empty when not set. */
    peppers: pepper === null ? [] : pepper.split(','),
    logLevel: checked('LOG_LEVEL', text('LOG_LEVEL'), faultOfLogLevel) as LogLevel | null,
    workers: workers === 'auto' ? ('auto' as const) : numberOf(workers),
  };
}

/**
 * The port in an environment variable, for commands that need no other setting (`PETS_PORT` of `npm start`, default 9000).
 * @returns the port (0: any free port), or the fault
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

/**
 * The passphrase of a backup: BACKUP_PASSPHRASE, or what the file of BACKUP_PASSPHRASE_FILE holds.
 * @returns null if neither is set, or the fault
 */
export function backupPassphraseOf(
  env: Variables,
): { readonly passphrase: string | null } | { readonly faults: readonly string[] } {
  const faults: string[] = [];
  const report = (name: string, message: string) => faults.push(`environment: ${name}: ${message}.`);
  const passphrase = secretOf(env, 'BACKUP_PASSPHRASE', { read: readSecret, report });
  return faults.length > 0 ? { faults } : { passphrase };
}

/** A gateway whose admin API a command asks. */
interface AskedGateway {
  /** Its address without a slash at its end. */
  readonly url: string;
  readonly token: string;
}

/**
 * The gateway of TOLLGATE_GATEWAY, with the token of TOLLGATE_TOKEN or of the file of TOLLGATE_TOKEN_FILE.
 *
 * Attack: an operator asks a gateway over a network without TLS, and everybody on the way reads the token. So that is refused unless the
 * operator insists on it.
 * @returns null if TOLLGATE_GATEWAY is not set, or the faults, none of which quotes an address with a password
 */
export function askedGatewayOf(
  env: Variables,
):
  | { readonly gateway: AskedGateway | null; readonly warnings: readonly string[] }
  | { readonly faults: readonly string[] } {
  const address = env.TOLLGATE_GATEWAY;
  if (!address) return { gateway: null, warnings: [] };
  const faults: string[] = [];
  const report = (name: string, message: string) => faults.push(`environment: ${name}: ${message}.`);
  const url = URL.parse(address);
  if (url === null || !isPlainAddress(url)) report(GATEWAY, GATEWAY_RULE);
  else if (url.protocol === 'http:' && !isLoopback(url.hostname) && env.TOLLGATE_PLAIN_HTTP !== '1')
    report(GATEWAY, PLAIN_RULE);
  const token = secretOf(env, 'TOLLGATE_TOKEN', { read: readSecret, report });
  if (token === null && faults.length === 0) report('TOLLGATE_TOKEN', TOKEN_MISSING);
  if (token !== null && !/^[\x21-\x7e]{1,1024}$/.test(token)) report('TOLLGATE_TOKEN', TOKEN_RULE);
  if (faults.length > 0) return { faults };
  const file = env.TOLLGATE_TOKEN_FILE || null;
  const warnings = file !== null && isReadableByAll(file) ? [`TOLLGATE_TOKEN_FILE: ${file} ${READABLE}.`] : [];
  return { gateway: { url: url!.href.replace(/\/$/, ''), token: token! }, warnings };
}

/** A command puts its option in place of the variable. */
const GATEWAY = 'TOLLGATE_GATEWAY or --gateway';
const GATEWAY_RULE =
  'must be the address of an admin port with http:// or https://, such as https://tollgate-admin.example.com';
const PLAIN_RULE =
  'names a gateway on another machine without TLS, and everybody on the way could read the token; use https, or give --plain-http';
const TOKEN_MISSING = 'is missing: set it, or TOLLGATE_TOKEN_FILE, to a token of the admin API of that gateway';
const READABLE =
  'can be read by every user of this machine, who then has the token: take that from them with `chmod o-r`, and replace the token';
const TOKEN_RULE = 'must be visible ASCII characters without spaces, at most 1024';

function isPlainAddress({ protocol, username, password, search, hash }: URL): boolean {
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === '';
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d+){3}$/.test(host);
}

/** What is wrong with the passphrase of a new backup, which an attacker with the file can guess without limit; null if nothing is wrong. */
export function faultOfPassphrase(text: string): string | null {
  return isWeak(text)
    ? `must have at least 16 characters, 5 of them different; ${MAKE_ONE}, or use six random words`
    : null;
}

interface SecretSource {
  readonly read: SecretReader;
  report(name: string, message: string): void;
}

/** The value of `name`, or of the file that `name_FILE` names. */
function secretOf(env: Variables, name: string, { read, report }: SecretSource): string | null {
  const [value, file] = [env[name] || null, env[`${name}_FILE`] || null];
  if (file === null) return value;
  if (value !== null) {
    report(name, `is set together with ${name}_FILE; set only one of them`);
    return null;
  }
  const content = read(file);
  if ('fault' in content) {
    report(`${name}_FILE`, content.fault);
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
    : `must be a port from 0 to 65535, not ${quoted(text)}`;
}

function faultOfHost(text: string): string | null {
  return isHost(text) ? null : `${HOST_RULE}, not ${quoted(text)}`;
}

function faultOfWorkers(text: string): string | null {
  if (text === 'auto' || (/^[1-9][0-9]{0,2}$/.test(text) && Number(text) <= 256)) return null;
  return `must be \`auto\` or a whole number from 1 to 256, not ${quoted(text)}`;
}

function faultOfLogLevel(text: string): string | null {
  return LOG_LEVELS.some((level) => level === text)
    ? null
    : `must be one of ${LOG_LEVELS.join(', ')}, not ${quoted(text)}`;
}

/** The fewest characters of a secret, and how many of them must be different. */
const [SECRET_LENGTH, SECRET_VARIETY] = [16, 5];
const MAKE_ONE = 'make one with `openssl rand -base64 32`';

/** Attack: an attacker guesses `changeme` or `aaaaaaaaaaaaaaaa` within minutes. Other weak secrets are not recognised. */
function isWeak(secret: string): boolean {
  return secret.length < SECRET_LENGTH || new Set(secret).size < SECRET_VARIETY;
}

/** No client could send a token with a space or a non-ASCII character in `Authorization`: all operators would be locked out. */
export function faultOfToken(text: string): string | null {
  if (!/^[\x21-\x7e]{1,1024}$/.test(text)) return TOKEN_RULE;
  if (!isWeak(text)) return null;
  return `is too easy to guess: it must have at least 16 characters, 5 of them different; ${MAKE_ONE}`;
}

const OLD_IS_WEAK =
  'the old pepper has fewer than 5 different characters; leave it out as soon as its keys are in use under the new one';

function faultOfPepper(text: string): string | null {
  const parts = text.split(',');
  if (parts.some((part) => part.length < SECRET_LENGTH))
    return `must be at least 16 characters, and so must each part of \`new,old\`; ${MAKE_ONE}`;
  // Only the newest must be strong: keys are in use under the old ones and would be lost without them.
  if (isWeak(parts[0]!))
    return `must have at least 5 different characters; ${MAKE_ONE}, and where keys are in use, set \`new,old\``;
  if (parts.some((part) => part !== part.trim())) return 'has white space at an end or beside a comma; leave it out';
  if (new Set(parts).size < parts.length) return 'names the same pepper twice; leave one out';
  return null;
}

/**
 * What is wrong with REDIS_URL, without quoting the value, which may contain a password. Null if the value is valid.
 * Accepted: `redis://`, `rediss://`, `unix:///path`, `redis+cluster://`, `redis+sentinel://` and both of these with
 * `rediss+` (contract section 2).
 */
function faultOfRedisUrl(text: string): string | null {
  const [, , kind] = /^(rediss?)\+(cluster|sentinel):/i.exec(text) ?? [];
  if (kind === 'cluster' || kind === 'sentinel') return faultOfServerList(text, kind);
  const url = URL.parse(text);
  if (url === null) return `is not a URL: ${ALLOWED}`;
  if (url.protocol === 'unix:' || url.protocol === 'redis+unix:') return faultOfSocket(url);
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') return `has a scheme that is not known: ${ALLOWED}`;
  if (url.hostname === '') return `has no host: ${ALLOWED}`;
  if (url.port === '0') return `has the port 0, where no server can be: ${ALLOWED}`;
  if (!DATABASE.test(url.pathname.replace(/^\//, ''))) return `has a path that is not a database number: ${ALLOWED}`;
  if (url.hash !== '') return HAS_HASH;
  return faultOfEscapes(url.username + url.password);
}

const ALLOWED =
  'it must be redis://host:port, rediss://host:port, either with /database, or unix:///path/to/socket; ' +
  'redis+cluster:// and redis+sentinel:// name several servers';
const ALLOWED_LIST = {
  cluster: 'it must be redis+cluster://host:port,host:port or rediss+cluster://host:port,host:port',
  sentinel: 'it must be redis+sentinel://host:port,host:port/name, with /database after the name where it is not 0',
};
const PARAMETERS = { cluster: [] as string[], sentinel: ['sentinelUsername', 'sentinelPassword'] };
const HAS_HASH = 'has a `#`; percent-encode it as %23 where it belongs to the password';
const DATABASE = /^(0|[1-9][0-9]{0,4})?$/;
const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::([1-9][0-9]{0,4}))?$/i;

function faultOfSocket(url: URL): string | null {
  if (url.hostname !== '')
    return 'names a host before the path of its socket: it must be unix:///path, with three slashes';
  if (url.pathname === '' || url.pathname === '/') return `names no socket: ${ALLOWED}`;
  return null;
}

/** URL.parse does not accept a list of hosts, so such an address is parsed here. */
function faultOfServerList(text: string, kind: 'cluster' | 'sentinel'): string | null {
  const allowed = ALLOWED_LIST[kind];
  if (text.includes('#')) return HAS_HASH;
  const parts = /^rediss?\+(?:cluster|sentinel):\/\/(?:([^@/?]*)@)?([^@/?]*)(?:\/([^?]*))?(?:\?(.*))?$/.exec(text);
  if (parts === null) {
    return `cannot be read: ${allowed}; percent-encode @ as %40, / as %2F and ? as %3F in user and password`;
  }
  const [, credentials = '', hosts = '', path = '', query = ''] = parts;
  for (const host of hosts.split(',')) {
    const port = HOST.exec(host)?.[1];
    if (!HOST.test(host) || Number(port ?? 1) > 65_535) return `has an invalid host: ${allowed}`;
  }
  const [name = '', database = '', ...rest] = path.split('/');
  if (kind === 'cluster' && path !== '') {
    return DATABASE.test(path)
      ? `names a database, and a cluster has only one: ${allowed}`
      : `has a path, and a cluster has none: ${allowed}`;
  }
  if (kind === 'sentinel' && name === '') return `does not say what the Sentinels call the primary: ${allowed}`;
  if (!DATABASE.test(database) || rest.length > 0)
    return `has a path that is not a name and a database number: ${allowed}`;
  for (const [parameter] of new URLSearchParams(query)) {
    if (!PARAMETERS[kind].includes(parameter)) return `has a parameter that is not known: ${parametersHint(kind)}`;
  }
  return faultOfEscapes(credentials + name);
}

function parametersHint(kind: 'cluster' | 'sentinel'): string {
  return PARAMETERS[kind].length === 0 ? 'there are none here' : `there are ${PARAMETERS[kind].join(' and ')}`;
}

function faultOfEscapes(text: string): string | null {
  try {
    decodeURIComponent(text);
    return null;
  } catch {
    return 'has a `%` that is not part of an escape; write a literal percent sign as %25';
  }
}
