import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { redisCommand } from '../../support/redis-command.ts';

// Stores that an earlier version made (make.ts says how).

/** The pepper of the stores. */
export const PEPPER = 'a pepper that only the fixtures use';

interface Key {
  readonly id: string;
  readonly key: string;
}

/** What the earlier version did with a store. */
export interface Facts {
  /** When, in Unix milliseconds. */
  readonly madeAtMs: number;
  readonly keys: Readonly<Record<'used' | 'banned' | 'rotated' | 'revoked' | 'custom', Key>>;
  /** The second secret of `rotated`. */
  readonly rotatedTo: string;
}

/** A name in Redis with its value. */
export interface StoredName {
  readonly name: string;
  readonly type: 'string' | 'hash' | 'list' | 'zset';
  readonly values: readonly string[];
  /** Unix milliseconds; below 0: never. */
  readonly expiresAtMs: number;
}

export function factsOf(version: string, store: 'embedded' | 'redis'): Facts {
  return JSON.parse(readFileSync(join(import.meta.dirname, version, `${store}-facts.json`), 'utf8')) as Facts;
}

const WRITING = { string: 'SET', hash: 'HSET', list: 'RPUSH', zset: 'ZADD' } as const;

/** Fills a Redis as the earlier version left it, with every time in it as if it had been made just now. */
export async function restoreRedis(version: string, url: string): Promise<void> {
  const text = readFileSync(join(import.meta.dirname, version, 'redis.json'), 'utf8');
  const laterByMs = Date.now() - factsOf(version, 'redis').madeAtMs;
  const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  // Thirteen digits are Unix milliseconds between 2001 and 2286. Nothing else in the stores has as many.
  const now = text
    .replaceAll(/(?<![\w.])\d{13}(?![\w.])/g, (ms) => String(Number(ms) + laterByMs))
    .replaceAll(dayOf(Date.now() - laterByMs), dayOf(Date.now()));
  for (const { name, type, values, expiresAtMs } of JSON.parse(now) as StoredName[]) {
    const ordered = type === 'zset' ? inPairs(values).flatMap(([member, score]) => [score, member]) : values;
    await redisCommand(url, WRITING[type], name, ...ordered);
    if (expiresAtMs > 0) await redisCommand(url, 'PEXPIREAT', name, String(expiresAtMs));
  }
}

function inPairs(values: readonly string[]): [string, string][] {
  return Array.from({ length: values.length / 2 }, (_, i) => [values[2 * i]!, values[2 * i + 1]!]);
}
