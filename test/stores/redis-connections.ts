import type { StoreChange } from '../../src/identify/record-store.ts';
import { RedisChanges } from '../../src/stores/redis/changes.ts';
import { connectRedis, untilReady } from '../../src/stores/redis/connection.ts';
import { DurableWrites, type LostChanges } from '../../src/stores/redis/durable-writes.ts';
import { RedisFleet } from '../../src/stores/redis/fleet.ts';
import { storesOn } from '../../src/stores/redis/open.ts';
import { circuitFor, type StoreCircuit } from '../../src/stores/redis/shards.ts';
import { atEnd } from '../support/endings.ts';

interface GatewayOptions {
  readonly timeoutMs?: number;
  readonly durableWithinMs?: number;
  readonly onLoss?: (loss: LostChanges) => void;
}

/** The keys and changes of one gateway: connections of its own, closed at the end of the test. */
export async function gatewayOn(
  url: string,
  { timeoutMs = 2_000, durableWithinMs = 2_000, onLoss = () => {} }: GatewayOptions = {},
) {
  const redis = connectRedis({ url, connectTimeoutMs: 1_000 });
  const circuit: StoreCircuit = circuitFor(redis, { timeoutMs, failures: 3, probeEveryMs: 50 });
  const changes = new RedisChanges({ redis, circuit });
  const writes = new DurableWrites({ redis, replicas: 'all', timeoutMs: durableWithinMs, onLoss });
  const records = { redis, circuit, publish: (change: StoreChange) => changes.publish(change), writes };
  atEnd(() => {
    changes.close();
    writes.close();
    circuit.close();
    redis.disconnect();
  });
  await untilReady(redis, 5_000);
  return { redis, circuit, changes, writes, ...storesOn(records), fleet: new RedisFleet({ redis, circuit }) };
}
