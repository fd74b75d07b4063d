import { describe } from 'vitest';
import { holdsOfAStaleReplica, inCluster } from './stale-replica.ts';

describe('behind a cluster', () => holdsOfAStaleReplica(inCluster, true));
