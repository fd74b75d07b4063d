import { availableParallelism } from 'node:os';
import type { Configuration } from '../config/settings.ts';
import { checkNodeInternals } from '../io/node-internals.ts';
import { startWatchdog } from '../io/watchdog.ts';
import type { GatewayOptions, RunningGateway } from './gateway-process.ts';

const ONE_WORKER =
  'WORKERS: the embedded store belongs to one process, so one runs; set REDIS_URL to run several on one quota.';

/**
 * Starts one gateway: in this process, or in as many workers as WORKERS says (`auto`: one for each core). This process then
 * only supervises them, and imports none of the modules that serve requests. Several workers need Redis, in which they share
 * one quota.
 *
 * The undocumented parts of Node that the gateway uses are tried here, once: workers run the same Node.js.
 * @throws Failure `store_owned`, `store_corrupt`, `store_rolled_back`, `cannot_listen`, `no_worker`, `bad_settings`, `unsupported_node`
 */
export async function startGateway(
  configuration: Configuration,
  env: NodeJS.ProcessEnv,
  options: Pick<GatewayOptions, 'startLink' | 'terminal' | 'acceptsRollback'> = {},
): Promise<RunningGateway> {
  const { workers, redis, listen, admin } = configuration.settings;
  const tls = listen.tls ?? admin.tls;
  const lacking = await checkNodeInternals({ tls: tls !== null, http2: listen.http2 !== null });
  const checked = { ...configuration, warnings: [...configuration.warnings, ...lacking] };
  const wanted = workers === 'auto' ? availableParallelism() : workers;
  if (wanted > 1 && redis.url !== null) {
    const { supervise } = await import('./workers/supervisor.ts');
    return watched(await supervise(checked, wanted, env, options), configuration, options);
  }
  const { runGateway } = await import('./gateway-process.ts');
  const ofOne = wanted > 1 ? { ...checked, warnings: [...checked.warnings, ONE_WORKER] } : checked;
  return watched(await runGateway(ofOne, env, { ...options, ownsProcess: true }), configuration, options);
}

/**
 * Watches the process of a gateway that serves, until the gateway has stopped. Nothing else notices when this process hangs.
 * Not part of `runGateway`, because a gateway in another program's process must not end that.
 */
function watched(
  gateway: RunningGateway,
  { settings: { watchdog, logLevel } }: Configuration,
  { terminal = null }: Pick<GatewayOptions, 'terminal'>,
): RunningGateway {
  if (watchdog.limitMs === null) return gateway;
  const end = startWatchdog({
    limitMs: watchdog.limitMs,
    line: logLevel === 'silent' ? 'none' : terminal === null ? 'json' : 'sentence',
  });
  return { ...gateway, stop: () => gateway.stop().finally(end) };
}
