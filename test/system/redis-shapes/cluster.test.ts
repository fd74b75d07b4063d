import { beforeAll, describe } from 'vitest';
import type { StoreChange } from '../../../src/identify/record-store.ts';
import { RedisLedger } from '../../../src/stores/redis/ledger.ts';
import { auditStoreContract } from '../../contracts/audit-store.ts';
import { keyStoreContract } from '../../contracts/key-store.ts';
import { ledgerContract } from '../../contracts/ledger.ts';
import { gatewayOn } from '../../stores/redis-connections.ts';
import { type PrivateCluster, privateCluster } from '../../support/redis-cluster.ts';

let cluster: PrivateCluster;
beforeAll(async () => {
  cluster = await privateCluster();
});

describe('the ledger in a Redis Cluster', () => {
  ledgerContract(async () => {
    await cluster.empty();
    const told: StoreChange[] = [];
    const publish = async (change: StoreChange) => void told.push(change);
    const [gateway, command] = await Promise.all([gatewayOn(cluster.url), gatewayOn(cluster.url)]);
    return {
      ledger: new RedisLedger({ ...gateway, publish }),
      view: new RedisLedger({ ...command, publish: async () => {} }),
      told,
    };
  });
});

describe('keys in a Redis Cluster', () => {
  keyStoreContract(async () => {
    await cluster.empty();
    const [here, there] = await Promise.all([gatewayOn(cluster.url), gatewayOn(cluster.url)]);
    return { here: here.keys, there: there.keys };
  });
});

describe('the record of changes in a Redis Cluster', () => {
  auditStoreContract(async () => {
    await cluster.empty();
    const [here, there] = await Promise.all([gatewayOn(cluster.url), gatewayOn(cluster.url)]);
    return { here: here.audit, there: there.audit };
  });
});
