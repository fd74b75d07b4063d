import type { DeprecatedCalls } from '../annotate/deprecated-calls.ts';
import { EmbeddedDeprecatedCalls } from '../stores/embedded/deprecated-calls.ts';
import { RedisDeprecatedCalls } from '../stores/redis/deprecated-calls.ts';
import type { OpenStore } from './open-store.ts';

/** The calls of deprecated routes that an opened store knows of. */
export function deprecatedCallsOf({ technology }: Pick<OpenStore, 'technology'>): DeprecatedCalls {
  return technology.kind === 'redis' ? new RedisDeprecatedCalls(technology) : new EmbeddedDeprecatedCalls(technology);
}
