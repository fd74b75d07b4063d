import { Redis } from 'ioredis';
import { asOperator } from './redis-user.ts';

/**
 * Sends one command to a Redis on a connection of its own and returns the bare reply (an array, a string, a number,
 * null). An address with the product's user is taken without it: tests do what that user may not. Rejects within 5 s when the server does not answer, and with the server's own error when it refuses.
 */
export async function redisCommand(
  url: string,
  command: string,
  ...args: (string | number | Buffer)[]
): Promise<unknown> {
  const client = new Redis(asOperator(url), {
    lazyConnect: true,
    connectTimeout: 5_000,
    commandTimeout: 5_000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    // The check would send INFO, which a server that is loading or restricted answers otherwise than the command.
    enableReadyCheck: false,
  });
  let refusal: Error | undefined;
  client.on('error', (error: Error) => {
    refusal ??= error;
  });
  try {
    await client.connect();
    return await client.call(command, ...args);
  } catch (error) {
    // What kept it from connecting (a wrong password, a refused connection) says more than "Connection is closed".
    throw refusal ?? error;
  } finally {
    client.disconnect();
  }
}
