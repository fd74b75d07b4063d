import { eventually } from './conditions.ts';
import { type PrivateRedis, privateRedis } from './private-redis.ts';
import { redisCommand } from './redis-command.ts';

/** A primary with a replica, watched by three Sentinels under the name `main`, for one test or one file. */
export interface PrivateSentinels {
  /** `redis+sentinel://` with all Sentinels. */
  readonly url: string;
  readonly sentinels: readonly PrivateRedis[];
  readonly servers: readonly PrivateRedis[];
  /** The server that the Sentinels name now. */
  primary(): Promise<PrivateRedis>;
}

export interface PrivateSentinelsOptions {
  /** Of the servers. */
  readonly password?: string;
  /** Of the Sentinels. */
  readonly sentinelPassword?: string;
}

/** @throws Error when the Sentinels do not agree within 15 s */
export async function privateSentinels(options: PrivateSentinelsOptions = {}): Promise<PrivateSentinels> {
  const { password, sentinelPassword } = options;
  const auth = password === undefined ? [] : ['--requirepass', password, '--masterauth', password];
  const first = await privateRedis({ asProcess: true, configArgs: auth });
  const second = await privateRedis({
    asProcess: true,
    configArgs: [...auth, '--replicaof', `127.0.0.1 ${first.port}`, '--repl-diskless-sync-delay', '0'],
  });
  await untilInfo(second.url, 'replication', /master_link_status:up/);
  const sentinels = await Promise.all(
    [1, 2, 3].map(() =>
      privateRedis({
        sentinel: [
          `sentinel monitor main 127.0.0.1 ${first.port} 2`,
          ...(password === undefined ? [] : [`sentinel auth-pass main ${password}`]),
          'sentinel down-after-milliseconds main 500',
          'sentinel failover-timeout main 3000',
        ],
        configArgs: sentinelPassword === undefined ? [] : ['--requirepass', sentinelPassword],
      }),
    ),
  );
  for (const { url } of sentinels) await untilInfo(url, 'sentinel', /status=ok,.*slaves=1,sentinels=3/);
  const ofServers = password === undefined ? first.userInfo : `:${encodeURIComponent(password)}@`;
  const ofSentinels =
    sentinelPassword === undefined ? sentinels[0]!.userInfo : `:${encodeURIComponent(sentinelPassword)}@`;
  const [sentinelUser = '', sentinelSecret = ''] = ofSentinels.slice(0, -1).split(':');
  const query = ofSentinels === '' ? '' : `?sentinelUsername=${sentinelUser}&sentinelPassword=${sentinelSecret}`;
  return {
    url: `redis+sentinel://${ofServers}${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/main${query}`,
    sentinels,
    servers: [first, second],
    primary: async () => {
      const asked = sentinels.find(({ pid }) => pid !== 0)!;
      const [, port] = (await redisCommand(asked.url, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main')) as string[];
      return [first, second].find((server) => server.port === Number(port))!;
    },
  };
}

async function untilInfo(url: string, section: string, expected: RegExp): Promise<void> {
  const look = async () => expected.test(String(await redisCommand(url, 'INFO', section)));
  await eventually(look, { withinMs: 15_000, everyMs: 50 });
}
