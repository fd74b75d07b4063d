import { createHash } from 'node:crypto';
import { Command } from 'ioredis';
import type { RedisClient } from './connection.ts';

/**
 * A Lua script that is sent by its digest. Where Redis does not know it, because it never ran there or was forgotten,
 * nothing has been done, and it is sent again as a whole.
 *
 * For the one call that requests wait for: `defineCommand` of ioredis does the same for twice the work.
 */
export class Script {
  readonly #lua: string;
  readonly #digest: string;

  constructor(lua: string) {
    this.#lua = lua;
    this.#digest = createHash('sha1').update(lua).digest('hex');
  }

  /** What the script returns, which has to be a text. Rejects as every command of the client does. */
  run(redis: RedisClient, keys: readonly string[], args: readonly string[]): Promise<Buffer> {
    const rest = [String(keys.length), ...keys, ...args];
    return new Promise((resolve, reject) => {
      const whole = () => redis.sendCommand(new ScriptCall('eval', [this.#lua, ...rest], resolve, reject));
      const unlessUnknown = (error: Error) => (error.message.startsWith('NOSCRIPT') ? whole() : reject(error));
      redis.sendCommand(new ScriptCall('evalsha', [this.#digest, ...rest], resolve, unlessUnknown));
    });
  }
}

/** A command that tells what became of it by itself, without the promise of ioredis and the ways to it, which stay unused. */
class ScriptCall extends Command {
  constructor(
    name: 'eval' | 'evalsha',
    args: string[],
    resolve: (reply: Buffer) => void,
    reject: (error: Error) => void,
  ) {
    super(name, args);
    this.resolve = (reply: Buffer) => {
      this.isSettled = true;
      resolve(reply);
    };
    this.reject = (error: Error) => {
      this.isSettled = true;
      reject(error);
    };
  }
}
