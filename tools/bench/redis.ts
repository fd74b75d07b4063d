import { once } from 'node:events';
import { connect } from 'node:net';
import { Redis } from 'ioredis';
import { spreadOf } from '../kit/statistics.ts';

/** What a Redis has done since it was started. */
export interface RedisWork {
  /** Every command, those inside scripts included. */
  readonly commands: number;
  /** EVALSHA and its kin. */
  readonly scripts: number;
}

const SCRIPT_CALLS = /^(eval|evalsha|fcall)(_ro)?$/;
/** What the bench itself asks. */
const OWN = new Set(['info', 'keys', 'client|setname', 'client|setinfo', 'hello']);

/** Reads `INFO commandstats`. */
export function parseCommandStats(text: string): RedisWork {
  let commands = 0;
  let scripts = 0;
  for (const [, name, calls] of text.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)) {
    if (OWN.has(name!)) continue;
    commands += Number(calls);
    if (SCRIPT_CALLS.test(name!)) scripts += Number(calls);
  }
  return { commands, scripts };
}

export async function workOf(port: number): Promise<RedisWork> {
  return withRedis(port, async (redis) => parseCommandStats(await redis.info('commandstats')));
}

/** One short-lived connection: an idle one of ours would be counted with the contestant's. */
export async function withRedis<T>(port: number, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis({ port, host: '127.0.0.1', lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => {});
  try {
    await redis.connect();
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}

/**
 * Sends many commands in bulk.
 * @throws Error with the first complaint of Redis
 */
export async function fillRedis(port: number, commands: Iterable<readonly string[]>): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let complaint: string | null = null;
  let ended = false;
  let tail = '';
  const answered = new Promise<void>((resolve, reject) => {
    socket.on('data', (chunk) => {
      const text = chunk.toString('latin1');
      complaint ??= /(?:^|\n)(-[^\r]+)/.exec(text)?.[1] ?? null;
      tail = (tail + text).slice(-7);
      if (ended && tail === '+PONG\r\n') resolve();
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('Redis closed the connection')));
  });
  // Awaited below; until then a failure must not count as one that nobody handles.
  answered.catch(() => {});
  let text = '';
  for (const command of commands) {
    text += `*${command.length}\r\n`;
    for (const word of command) text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
    if (text.length < 1 << 18) continue;
    if (!socket.write(text)) await once(socket, 'drain');
    text = '';
  }
  ended = true;
  socket.write(`${text}*1\r\n$4\r\nPING\r\n`);
  await answered;
  socket.destroy();
  if (complaint !== null) throw new Error(`Redis: ${complaint}`);
}

/** What Redis holds for all names that match, in bytes (MEMORY USAGE). */
export async function memoryOf(port: number, pattern: string): Promise<number> {
  return withRedis(port, async (redis) => {
    const sizes = await Promise.all((await redis.keys(pattern)).map((name) => redis.memory('USAGE', name)));
    return sizes.reduce<number>((sum, size) => sum + Number(size), 0);
  });
}

/** What Redis holds for a name that matches, in bytes (MEMORY USAGE): the median of up to 1,000 of them. */
export async function memoryPerName(port: number, pattern: string): Promise<number | null> {
  return withRedis(port, async (redis) => {
    const sizes: number[] = [];
    let cursor = '0';
    do {
      const [next, names] = await redis.scan(cursor, 'MATCH', pattern, 'COUNT', 1_000);
      cursor = next;
      for (const name of names) sizes.push(Number(await redis.memory('USAGE', name)));
    } while (cursor !== '0' && sizes.length < 1_000);
    return spreadOf(sizes)?.median ?? null;
  });
}
