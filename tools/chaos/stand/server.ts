import type { RedisBinary } from '../../../test/support/redis-binary.ts';
import { redisCommand } from '../../../test/support/redis-command.ts';
import { RedisProcess } from '../../../test/support/redis-process.ts';
import type { Endings } from './endings.ts';

export type Command = (command: string, ...args: (string | number)[]) => Promise<unknown>;

/** Where the quotas are: real Redis servers of this run. */
export interface Store {
  /** REDIS_URL. */
  readonly url: string;
  /** Of the one server that gateways are to reach through a link; null where they find the servers by themselves. */
  readonly port: number | null;
  /** Of the server that is the only one, or the first primary. */
  readonly server: RedisProcess;
  /** All servers that hold data. */
  readonly servers: readonly RedisProcess[];
  /** Sends a command to that server, on a connection of its own. */
  readonly command: Command;
  /** The primaries at this moment, as commands. */
  primaries(): Promise<readonly Command[]>;
  /** Whether others than that server are primaries of all there is, as all who decide on it agree. */
  hasFailedOver(): Promise<boolean>;
  close(): Promise<void>;
}

export async function startServer(
  binary: RedisBinary,
  endings: Endings,
  configArgs: readonly string[],
): Promise<RedisProcess> {
  const server = await RedisProcess.start(binary, { configArgs });
  endings.add(() => server.dispose());
  return server;
}

export function urlOf({ port }: { readonly port: number }): string {
  return `redis://127.0.0.1:${port}`;
}

export function commandsTo(server: { readonly port: number }): Command {
  return (command, ...args) => redisCommand(urlOf(server), command, ...args);
}
