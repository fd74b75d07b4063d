import { FEATURES, type FeatureName } from './features.ts';
import type { KeyKind } from './request.ts';

export type ContestantName =
  | 'tollgate'
  | 'tollgate-2-workers'
  | 'tollgate-before'
  | 'tollgate-bare'
  | 'tollgate-watched'
  | 'nginx-lua'
  | 'nginx-lua-2-workers'
  | 'haproxy'
  | 'nginx'
  | 'caddy'
  | 'fastify'
  | 'http-proxy-3'
  | 'bare-node'
  | 'service'
  | FeatureName;

/** How the requests of a load get their keys: all in turn, or few of them most of the time. */
export type Draw = 'turns' | 'zipf';

/** One comparison: the same load on several contestants in turn. */
export interface Scenario {
  readonly name: string;
  /** What chooses it together with others, beside its own name. */
  readonly family?: Family;
  readonly title: string;
  readonly contestants: readonly ContestantName[];
  readonly connections: number;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly bodyBytes: number;
  readonly keyKind: KeyKind;
  readonly keys: number;
  readonly draw: Draw;
  /** HTTP/2 over TLS; else HTTP/1.1 without. Only `bodies` has it. */
  readonly isHttp2?: true;
  /** Whether latency is measured once more at a rate that all contestants can serve. */
  readonly fixedRate: boolean;
  /** Load before anything is measured, in seconds, where it takes longer than usual until nothing grows any more. */
  readonly warmUpS?: number;
  /** The same with one thing different, measured in turn with it: what that one thing costs. */
  readonly beside?: Beside;
}

export interface Beside {
  readonly title: string;
  readonly connections: number;
}

export type Family = 'callers' | 'bodies';
export const FAMILIES: readonly Family[] = ['callers', 'bodies'];

/** The scenario whose contestants are gateways with one feature each. */
export const FEATURES_NAME = 'features';

/** The connections of the scenarios that are measured at several. */
const CONNECTIONS = [8, 32, 128] as const;
const GATEWAYS = ['tollgate', 'nginx-lua', 'haproxy', 'nginx', 'caddy', 'fastify', 'http-proxy-3'] as const;
const LIMITERS = ['tollgate', 'bare-node', 'nginx-lua', 'haproxy', 'fastify', 'http-proxy-3'] as const;
const CHECKERS = ['tollgate', 'bare-node', 'nginx-lua', 'haproxy', 'caddy', 'fastify', 'http-proxy-3'] as const;
const SHARERS = ['tollgate', 'nginx-lua'] as const;

const GET = { method: 'GET', path: '/v1/pets', bodyBytes: 0 } as const;
const ONE_KEY = { keyKind: 'good', keys: 1, draw: 'turns' } as const;
const AT_32 = { connections: 32, fixedRate: false } as const;
const AT_64 = { connections: 64, fixedRate: false } as const;

export const SCENARIOS: readonly Scenario[] = [
  ...atEach({
    name: 'admitted',
    title: 'Admitted GET, 284 bytes of JSON',
    contestants: [...GATEWAYS, 'bare-node'],
    ...{ ...GET, ...ONE_KEY, connections: 32, fixedRate: true },
  }),
  {
    name: 'admitted-1',
    title: 'Admitted GET, one connection: what each adds to the service itself',
    contestants: ['tollgate', 'nginx-lua', 'haproxy', 'nginx', 'http-proxy-3', 'service'],
    ...{ ...GET, ...ONE_KEY, connections: 1, fixedRate: true },
  },
  {
    name: 'admitted-post',
    title: 'Admitted POST of 1 KiB',
    contestants: GATEWAYS,
    ...{ ...ONE_KEY, connections: 32, fixedRate: true },
    ...{ method: 'POST', path: '/v1/pets', bodyBytes: 1024 },
  },
  {
    name: 'large-answer',
    title: 'Admitted GET, 100 KiB',
    contestants: GATEWAYS,
    ...{ ...ONE_KEY, connections: 32, fixedRate: true },
    ...{ method: 'GET', path: '/v1/large', bodyBytes: 0 },
  },
  ...atEach({
    name: 'banned',
    title: 'Refused: a banned key continues',
    contestants: LIMITERS,
    ...{ ...GET, ...AT_32, keyKind: 'banned', keys: 1, draw: 'turns' },
  }),
  ...atEach({
    name: 'spent',
    title: 'Refused: a spent key of a plan without bans',
    contestants: LIMITERS,
    ...{ ...GET, ...AT_32, keyKind: 'spent', keys: 1, draw: 'turns' },
  }),
  ...atEach({
    name: 'unknown-key',
    title: 'Unknown keys, each another (right checksum)',
    contestants: CHECKERS,
    ...{ ...GET, ...AT_32, keyKind: 'unknown', keys: 100_000, draw: 'turns' },
  }),
  {
    name: 'made-up-key',
    title: 'Made-up keys, each another (wrong checksum)',
    contestants: CHECKERS,
    ...{ ...GET, ...AT_32, keyKind: 'made-up', keys: 100_000, draw: 'turns' },
  },
  callers(1, 'turns'),
  ...[1_000, 5_000, 50_000].flatMap((count) => [callers(count, 'turns'), callers(count, 'zipf')]),
  callers(1_000_000, 'turns'),
  ...[200 * 1_024, 5 * 1_024 ** 2].flatMap((bytes) =>
    (['download', 'upload'] as const).flatMap((way) => [bodies(way, bytes, false), bodies(way, bytes, true)]),
  ),
  {
    name: 'connections-512',
    title: '512 connections',
    contestants: ['tollgate', 'nginx-lua', 'fastify'],
    beside: { title: '64 connections', connections: 64 },
    ...{ ...GET, ...ONE_KEY, connections: 512, fixedRate: false },
  },
  {
    name: 'workers-2',
    title: 'Admitted GET, two workers',
    // What a second worker costs a program that shares nothing with the first is this machine's price.
    contestants: ['tollgate', 'tollgate-2-workers', 'nginx-lua', 'nginx-lua-2-workers'],
    ...{ ...GET, ...ONE_KEY, ...AT_64 },
  },
  {
    name: 'console',
    title: 'Admitted GET, without an admin token, with one, and while somebody watches the screen Now',
    contestants: ['tollgate', 'tollgate-bare', 'tollgate-watched'],
    ...{ ...GET, ...ONE_KEY, connections: 32, fixedRate: true },
  },
  {
    name: FEATURES_NAME,
    title: 'What each feature costs',
    contestants: FEATURES.map(({ name }) => name),
    // Each contestant has a load of its own; these are the keys of those that are admitted.
    ...{ ...GET, ...ONE_KEY, connections: 32, fixedRate: true },
  },
];

/** Not a load: how long the gateway takes to serve, and what it holds when nobody asks. */
export const START = 'start';

/** What a load has to come to. */
export function expectationOf({ keyKind }: Pick<Scenario, 'keyKind'>): 'admitted' | 'refused' {
  return keyKind === 'good' ? 'admitted' : 'refused';
}

/**
 * A scenario, and the same at fewer and at more connections: there only the gateway and node:http, which is its measure, and of what is
 * admitted nginx with Lua, which asks Redis about each request.
 */
function atEach(scenario: Scenario): Scenario[] {
  return CONNECTIONS.map((connections) => {
    if (connections === scenario.connections) return scenario;
    const { name, title } = scenario;
    const beside = scenario.keyKind === 'good' ? (['nginx-lua'] as const) : [];
    const contestants = ['tollgate', ...beside, 'bare-node'] as const;
    const own = { name: `${name}-${connections}`, title: `${title}, ${connections} connections` };
    return { ...scenario, ...own, contestants, connections, fixedRate: false };
  });
}

/** Of a million in turn, the gateway has forgotten each when it comes again, and so has nginx with Lua: each request is like a key's first. */
function callers(count: number, draw: Draw): Scenario {
  const name = `callers-${count}${draw === 'zipf' ? '-zipf' : ''}`;
  const how = { turns: 'in turn', zipf: 'few of them most of the time (Zipf)' }[draw];
  const title =
    count === 1 ? 'One caller, 64 connections' : `${count.toLocaleString('en')} callers, ${how}, 64 connections`;
  // Until each key has come once; and what is remembered has its bounds at 100,000 keys: until they are reached memory grows.
  const more = count >= 50_000 ? { warmUpS: count > 100_000 ? 20 : 12 } : {};
  const load = { ...GET, connections: 64, keyKind: 'good', keys: count, draw, fixedRate: true } as const;
  return { name, family: 'callers', title, contestants: SHARERS, ...load, ...more };
}

function bodies(way: 'download' | 'upload', bytes: number, isHttp2: boolean): Scenario {
  const size = bytes < 1_024 ** 2 ? `${bytes / 1_024}k` : `${bytes / 1_024 ** 2}m`;
  const load = { path: `/v1/bytes/${bytes}`, connections: 4, fixedRate: false } as const;
  return {
    name: `${way}-${size}${isHttp2 ? '-http2' : ''}`,
    family: 'bodies',
    title: `${way === 'download' ? 'Download' : 'Upload'} of ${size.toUpperCase()}iB, ${isHttp2 ? 'HTTP/2 over TLS' : 'HTTP/1.1'}`,
    contestants: ['tollgate', 'nginx-lua', 'nginx'],
    ...{ ...ONE_KEY, ...load },
    ...(way === 'download' ? { method: 'GET', bodyBytes: 0 } : { method: 'POST', bodyBytes: bytes }),
    ...(isHttp2 ? { isHttp2 } : {}),
  };
}
