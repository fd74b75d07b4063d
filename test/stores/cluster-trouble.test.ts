import { expect, test } from 'vitest';
import { ClusterClient } from '../../src/stores/redis/cluster.ts';
import { watchTrouble } from '../../src/stores/redis/connection.ts';
import { atEnd } from '../support/endings.ts';
import { freePort } from '../support/free-port.ts';

test('the cause of an outage is forgotten once the slots are on nodes that were connected before', async () => {
  const host = { host: '127.0.0.1', port: await freePort() };
  const link = { connectTimeout: 1_000, retryStrategy: () => null };
  const cluster = new ClusterClient({ nodes: [host], link: link as never, description: 'cluster' });
  atEnd(() => cluster.disconnect());
  const trouble = watchTrouble(cluster);
  // As after a failover: the primary that has gone is not in the map of slots any more, and its replica has its slots.
  let isMoved = false;
  const [gone, heir] = [{ status: 'reconnecting' }, { status: 'ready' }];
  cluster.nodes = () => (isMoved ? [heir] : [gone]) as never;
  cluster.status = 'ready';
  cluster.emit('node error', Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }), 'a:1');
  expect(trouble()?.message).toContain('ECONNREFUSED');
  cluster.emit('refresh');
  expect(trouble()?.message).toContain('ECONNREFUSED');
  isMoved = true;
  cluster.emit('refresh');
  expect(trouble()).toBe(null);
});
