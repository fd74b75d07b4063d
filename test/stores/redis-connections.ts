import type { StoreChange } from '../../src/identify/record-store.ts';
import { RedisAudit } from '../../src/stores/redis/audit.ts';
import { RedisChanges } from '../../src/stores/redis/changes.ts';
import { connectRedis, untilReady } from '../../src/stores/redis/connection.ts';
import { redisCustomers } from '../../src/stores/redis/customers.ts';
import { DurableWrites, type LostChanges } from '../../src/stores/redis/durable-writes.ts';
import { RedisFleet } from '../../src/stores/redis/fleet.ts';
import { RedisKeys } from '../../src/stores/redis/keys.ts';
import { RedisPlansHistory } from '../../src/stores/redis/plans-history.ts';
import { RedisSecretUses } from '../../src/stores/redis/secret-uses.ts';
import { circuitFor, type StoreCircuit } from '../../src/stores/redis/shards.ts';
import { RedisTraffic } from '../../src/stores/redis/traffic.ts';
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
  const [keys, customers] = [new RedisKeys(records), redisCustomers(records)];
  atEnd(() => {
    changes.close();
    writes.close();
    circuit.close();
    redis.disconnect();
  });
  await untilReady(redis, 5_000);
  const fleet = new RedisFleet({ redis, circuit });
  const secretUses = new RedisSecretUses({ redis, circuit });
  const traffic = new RedisTraffic({ redis, circuit });
  return {
    redis,
    circuit,
    changes,
    writes,
    keys,
    customers,
    audit: new RedisAudit({ redis, circuit, writes }),
    plansHistory: new RedisPlansHistory({ redis, circuit }),
    fleet,
    secretUses,
    traffic,
  };
}
