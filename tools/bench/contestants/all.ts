import type { ContestantName } from '../scenarios.ts';
import { bareNode } from './bare-node.ts';
import { caddy } from './caddy.ts';
import type { Contestant } from './contestant.ts';
import { haproxy } from './haproxy.ts';
import { nginx, nginxLua, nginxLuaWith2Workers } from './nginx.ts';
import { fastify, httpProxy3 } from './node-servers.ts';
import { service } from './service.ts';
import { tollgate, tollgateBare, tollgateWatched, tollgateWith2Workers, tollgateWithFeatures } from './tollgate.ts';

const ALL = [
  tollgate,
  tollgateWith2Workers,
  tollgateBare,
  tollgateWatched,
  nginxLua,
  nginxLuaWith2Workers,
  haproxy,
  nginx,
  caddy,
  fastify,
  httpProxy3,
  bareNode,
  service,
  ...tollgateWithFeatures,
];

export const CONTESTANTS: ReadonlyMap<ContestantName, Contestant> = new Map(ALL.map((one) => [one.name, one]));
