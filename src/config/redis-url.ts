/**
 * What is wrong with REDIS_URL, without repeating it: it may hold a password. Null when it is sound.
 * Accepted: `redis://`, `rediss://`, `unix:///path`, `redis+cluster://`, `redis+sentinel://` and both of these with
 * `rediss+` (contract section 2).
 */
export function faultOfRedisUrl(text: string): string | null {
  const [, , kind] = /^(rediss?)\+(cluster|sentinel):/i.exec(text) ?? [];
  if (kind === 'cluster' || kind === 'sentinel') return faultOfSeveral(text, kind);
  const url = URL.parse(text);
  if (url === null) return `is no URL: ${ALLOWED}`;
  if (url.protocol === 'unix:' || url.protocol === 'redis+unix:') return faultOfSocket(url);
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') return `has a scheme that is not known: ${ALLOWED}`;
  if (url.hostname === '') return `has no host: ${ALLOWED}`;
  if (url.port === '0') return `has the port 0, where no server can be: ${ALLOWED}`;
  if (!DATABASE.test(url.pathname.replace(/^\//, ''))) return `has a path that is no database number: ${ALLOWED}`;
  if (url.hash !== '') return HASH;
  return faultOfEscapes(url.username + url.password);
}

const ALLOWED =
  'it must be redis://host:port, rediss://host:port, either with /database, or unix:///path/to/socket; ' +
  'redis+cluster:// and redis+sentinel:// name several servers';
const OF_SEVERAL = {
  cluster: 'it must be redis+cluster://host:port,host:port or rediss+cluster://host:port,host:port',
  sentinel: 'it must be redis+sentinel://host:port,host:port/name, with /database after the name where it is not 0',
};
const PARAMETERS = { cluster: [] as string[], sentinel: ['sentinelUsername', 'sentinelPassword'] };
const HASH = 'has a `#`; percent-encode it as %23 where it belongs to the password';
const DATABASE = /^(0|[1-9][0-9]{0,4})?$/;
const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::([1-9][0-9]{0,4}))?$/i;

function faultOfSocket(url: URL): string | null {
  if (url.hostname !== '')
    return 'names a host before the path of its socket: it must be unix:///path, with three slashes';
  if (url.pathname === '' || url.pathname === '/') return `names no socket: ${ALLOWED}`;
  return null;
}

/** A list of hosts is no URL by the rules of URLs, so it is read here. */
function faultOfSeveral(text: string, kind: 'cluster' | 'sentinel'): string | null {
  const allowed = OF_SEVERAL[kind];
  if (text.includes('#')) return HASH;
  const parts = /^rediss?\+(?:cluster|sentinel):\/\/(?:([^@/?]*)@)?([^@/?]*)(?:\/([^?]*))?(?:\?(.*))?$/.exec(text);
  if (parts === null) {
    return `cannot be read: ${allowed}; percent-encode @ as %40, / as %2F and ? as %3F in user and password`;
  }
  const [, credentials = '', hosts = '', path = '', query = ''] = parts;
  for (const host of hosts.split(',')) {
    const port = HOST.exec(host)?.[1];
    if (!HOST.test(host) || Number(port ?? 1) > 65_535) return `has a host that is none: ${allowed}`;
  }
  const [name = '', database = '', ...rest] = path.split('/');
  if (kind === 'cluster' && path !== '') {
    return DATABASE.test(path)
      ? `names a database, and a cluster has only one: ${allowed}`
      : `has a path, and a cluster has none: ${allowed}`;
  }
  if (kind === 'sentinel' && name === '') return `does not say what the Sentinels call the primary: ${allowed}`;
  if (!DATABASE.test(database) || rest.length > 0) return `has a path that is no name and database number: ${allowed}`;
  for (const [parameter] of new URLSearchParams(query)) {
    if (!PARAMETERS[kind].includes(parameter)) return `has a parameter that is not known: ${toldParameters(kind)}`;
  }
  return faultOfEscapes(credentials + name);
}

function toldParameters(kind: 'cluster' | 'sentinel'): string {
  return PARAMETERS[kind].length === 0 ? 'there are none here' : `there are ${PARAMETERS[kind].join(' and ')}`;
}

function faultOfEscapes(text: string): string | null {
  try {
    decodeURIComponent(text);
    return null;
  } catch {
    return 'has a `%` that begins no escape; a percent sign itself is %25';
  }
}
