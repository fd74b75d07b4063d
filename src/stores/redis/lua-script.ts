import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { RedisClient } from './connection.ts';
import { withSource } from './engine-lua.ts';

/** The text of a file in this folder. */
export function luaFile(name: string): string {
  return readFileSync(new URL(name, import.meta.url), 'utf8');
}

type Arguments = readonly (string | number | Buffer)[];
type Command = (size: number, ...namesAndArgs: Arguments) => Promise<unknown>;

/** A Lua script that ioredis sends in full once on each connection, and then calls by its digest. */
export class LuaScript<Reply> {
  readonly lua: string;
  /** The method that `defineCommand` adds to a client for it. */
  readonly command: string;

  constructor(lua: string) {
    this.lua = lua;
    this.command = `script ${hash('sha1', lua)}`;
  }

  /** @param names the KEYS of the script */
  run(redis: RedisClient, names: readonly string[], ...args: Arguments): Promise<Reply> {
    const { command, lua } = this;
    if (!(command in redis)) redis.defineCommand(command, { lua });
    const commands = redis as unknown as Readonly<Record<string, Command>>;
    return commands[command]!(names.length, ...names, ...args).catch((error: Error) => {
      error.message = withSource(error.message, lua);
      throw error;
    }) as Promise<Reply>;
  }
}
