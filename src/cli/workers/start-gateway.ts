import { availableParallelism } from 'node:os';
import type { Configuration } from '../../config/settings.ts';
import type { RunningGateway } from '../run-gateway.ts';

const EMBEDDED =
  'WORKERS: the embedded store belongs to one process, so one runs; set REDIS_URL to run several on one quota.';

/**
 * Brings one gateway up: in this process, or in as many workers as WORKERS says (`auto`: one for each core), which this
 * process then supervises without loading what a request needs. Several need Redis, where they share one quota.
 * @throws Failure `store_owned`, `store_corrupt`, `cannot_listen`, `no_worker`, `bad_settings`
 */
export async function startGateway(configuration: Configuration, env: NodeJS.ProcessEnv): Promise<RunningGateway> {
  const { workers, redis } = configuration.settings;
  const wanted = workers === 'auto' ? availableParallelism() : workers;
  if (wanted > 1 && redis.url !== null) {
    const { supervise } = await import('./supervisor.ts');
    return supervise(configuration, wanted, env);
  }
  const { runGateway } = await import('../run-gateway.ts');
  const warnings = wanted > 1 ? [...configuration.warnings, EMBEDDED] : configuration.warnings;
  return runGateway({ ...configuration, warnings }, env);
}
