import { createHash } from 'node:crypto';
import { Command } from 'ioredis';
import type { RedisClient } from './connection.ts';

/**
 * A Lua script that is called by its digest (EVALSHA). If Redis does not know the script, nothing has run yet, and the
 * script is sent in full (EVAL).
 *
 * Used only for the decision, which requests wait for: ioredis's own `defineCommand` does the same at twice the cost.
 */
export class Script {
  readonly #lua: string;
  readonly #digest: string;

  constructor(lua: string) {
    this.#lua = lua;
    this.#digest = createHash('sha1').update(lua).digest('hex');
  }

  /** Returns the script's reply, which must be a string. Rejects as any other command of the client does. */
  run(redis: RedisClient, keys: readonly string[], args: readonly string[]): Promise<Buffer> {
    const rest = [String(keys.length), ...keys, ...args];
    return new Promise((resolve, reject) => {
      const sendWhole = () => redis.sendCommand(new ScriptCall('eval', [this.#lua, ...rest], resolve, reject));
      const onError = (error: Error) => (error.message.startsWith('NOSCRIPT') ? sendWhole() : reject(error));
      redis.sendCommand(new ScriptCall('evalsha', [this.#digest, ...rest], resolve, onError));
    });
  }
}

/** A command that settles through callbacks, without the cost of ioredis's promise. */
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
