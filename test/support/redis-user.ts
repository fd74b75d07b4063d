import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The name of the user in `config/redis.acl` and `config/sentinel.acl`, and its password in the tests. */
const NAME = 'tollgate';
const PASSWORD = 'of-the-product';

/** Redis 6.2 was the first to give a user channels of its own. Every Valkey does. */
const MIN_VERSION = 6.2;

/**
 * The words of a command line that give a server the user of the product, with the rights of config/redis.acl and nothing
 * else; none for a server that is too old for such users.
 * @param version as in `RedisBinary`: `redis-server 7.0.15`
 */
export function productUserArgs(version: string, kind: 'redis' | 'sentinel' = 'redis'): readonly string[] {
  if (!hasUsers(version)) return [];
  return ['--user', NAME, `>${PASSWORD}`, ...rulesIn(`${kind}.acl`)];
}

/** What a file of `config` lets the product's user do: the rules after its name. */
export function rulesIn(file: string): readonly string[] {
  const text = readFileSync(join(import.meta.dirname, '..', '..', 'config', file), 'utf8');
  const [first, name, ...rules] = text.trim().split(' ');
  if (first !== 'user' || name !== NAME) throw new Error(`config/${file} is of another user than ${NAME}`);
  return rules;
}

/** The address for the product: with its user, unless the server asks every client for another password. */
export function asProduct(url: string, version: string): string {
  const address = new URL(url);
  if (!hasUsers(version) || address.password !== '') return url;
  address.username = NAME;
  address.password = PASSWORD;
  return address.href;
}

/** The same server for the tests themselves, which may do what the product's user may not. */
export function asOperator(url: string): string {
  const address = new URL(url);
  if (address.username !== NAME) return url;
  address.username = '';
  address.password = '';
  return address.href;
}

/** The same user for a whole cluster, or for servers behind Sentinels: user and password with the `@`. */
export function productUserInfo(version: string): string {
  return hasUsers(version) ? `${NAME}:${PASSWORD}@` : '';
}

function hasUsers(version: string): boolean {
  return version.startsWith('valkey') || Number.parseFloat(version.split(' ')[1] ?? '') >= MIN_VERSION;
}
