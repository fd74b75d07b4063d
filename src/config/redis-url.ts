/**
 * What is wrong with REDIS_URL, without repeating it: it may hold a password. Null when it is sound.
 * Accepted: `redis://`, `rediss://`, and `unix:///path` or `redis+unix:///path` (contract section 2).
 */
export function faultOfRedisUrl(text: string): string | null {
  if (/^(rediss?\+(cluster|sentinel)):/.test(text)) {
    return 'names a Redis Cluster or Sentinel, which this version does not support yet; name one server';
  }
  const url = URL.parse(text);
  if (url === null) return `is no URL: ${ALLOWED}`;
  if (url.protocol === 'unix:' || url.protocol === 'redis+unix:') return faultOfSocket(url);
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') return `has a scheme that is not known: ${ALLOWED}`;
  if (url.hostname === '') return `has no host: ${ALLOWED}`;
  if (url.port === '0') return `has the port 0, where no server can be: ${ALLOWED}`;
  if (!/^\/?(0|[1-9][0-9]{0,4})?$/.test(url.pathname)) return `has a path that is no database number: ${ALLOWED}`;
  if (url.hash !== '') return 'has a `#`; percent-encode it as %23 where it belongs to the password';
  return null;
}

const ALLOWED = 'it must be redis://host:port, rediss://host:port, either with /database, or unix:///path/to/socket';

function faultOfSocket(url: URL): string | null {
  if (url.hostname !== '')
    return 'names a host before the path of its socket: it must be unix:///path, with three slashes';
  if (url.pathname === '' || url.pathname === '/') return `names no socket: ${ALLOWED}`;
  return null;
}
