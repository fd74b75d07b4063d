import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../../../test/support/conditions.ts';
import type { RedisProcess } from '../../../test/support/redis-process.ts';
import type { Row } from '../row.ts';
import type { Context, Scenario } from '../scenario.ts';
import { commandsTo } from '../stand/server.ts';
import { openStand, type Stand } from '../stand/stand.ts';
import type { StoreKind } from '../stand/store.ts';

/** Keys that are revoked in one failover, and how far apart: some before, most of them in it, some after. */
const AT_ONCE = 30;
const APART_MS = 80;
const GATEWAYS = 2;
/** A busy machine must not make the gateways believe that their store is away. */
const PATIENT_MS = 1_000;
const HEALED = { withinMs: 60_000, everyMs: 100 };

interface Failover {
  readonly name: string;
  readonly about: string;
  readonly store: StoreKind;
  strike(primary: RedisProcess, stand: Stand): Promise<void>;
  /** Brings back what was struck. */
  heal(primary: RedisProcess): Promise<void>;
}

const FAILOVERS: readonly Failover[] = [
  {
    name: 'durable: planned failover',
    about: 'SENTINEL FAILOVER while keys are revoked through the admin API.',
    store: 'sentinel',
    strike: async (_, { store }) => {
      const [, port] = /:(\d+)/.exec(store.url)!;
      // Until it has seen the replicas after the failover before.
      const ask = () => commandsTo({ port: Number(port) })('SENTINEL', 'FAILOVER', 'main');
      await eventually(ask, HEALED);
    },
    heal: async () => {},
  },
  {
    name: 'durable: kill -9',
    about: 'kill -9 of the primary, watched by Sentinels, while keys are revoked through the admin API.',
    store: 'sentinel',
    strike: (primary) => primary.kill(),
    heal: (primary) => primary.launchAgain({ keepData: true }),
  },
  {
    name: 'durable: SIGSTOP',
    about: 'SIGSTOP of the primary, watched by Sentinels, while keys are revoked; SIGCONT when another has its place.',
    store: 'sentinel',
    strike: async (primary) => primary.pause(),
    heal: async (primary) => primary.resume(),
  },
  {
    name: 'durable: cluster failover',
    about: 'CLUSTER FAILOVER of one of three primaries while keys are revoked through the admin API.',
    store: 'cluster',
    strike: async (primary, { store }) => {
      const id = String(await commandsTo(primary)('CLUSTER', 'MYID'));
      const lines = String(await commandsTo(primary)('CLUSTER', 'NODES')).split('\n');
      const port = Number(/:(\d+)@/.exec(lines.find((line) => line.includes(`slave ${id}`)) ?? '')?.[1]);
      await commandsTo(store.servers.find((server) => server.port === port)!)('CLUSTER', 'FAILOVER');
    },
    heal: async () => {},
  },
  {
    name: 'durable: cluster kill -9',
    about: 'kill -9 of one of three primaries of a cluster while keys are revoked through the admin API.',
    store: 'cluster',
    strike: (primary) => primary.kill(),
    heal: (primary) => primary.launchAgain({ keepData: true }),
  },
];

/** What operators were told of revocations has to be true after a failover. Played `--tries` times each. */
export const DURABLE_SCENARIOS: readonly Scenario[] = FAILOVERS.map((failover) => ({
  name: failover.name,
  about: failover.about,
  run: async (context) => {
    const stand = await openStand({ store: failover.store, gateways: GATEWAYS, timeoutMs: PATIENT_MS });
    try {
      return await revokeThrough(failover, stand, context);
    } finally {
      await stand.close();
    }
  },
}));

interface Revocation {
  readonly id: string;
  readonly secret: string;
  readonly status: number;
  readonly tookMs: number;
}

async function revokeThrough(failover: Failover, stand: Stand, { tries, chance, tell, signal }: Context): Promise<Row> {
  const startedAtMs = performance.now();
  const all: Revocation[] = [];
  const undone: Revocation[] = [];
  const notMadeAgain: Revocation[] = [];
  let failovers = 0;
  let longestMs = 0;
  while (all.length < tries && !signal.aborted) {
    const made = await Promise.all(Array.from({ length: AT_ONCE }, () => makeKey(stand)));
    const primaries = await primariesOf(stand);
    const primary = primaries[chance.below(primaries.length)]!;
    const revoking: Promise<Revocation>[] = [];
    let struck: Promise<void> = Promise.resolve();
    let struckAtMs = 0;
    const first = chance.below(AT_ONCE);
    for (const [i, key] of made.entries()) {
      if (i === first) {
        struckAtMs = performance.now();
        struck = failover.strike(primary, stand);
      }
      revoking.push(revoke(stand, i, key));
      await delay(APART_MS);
    }
    await struck;
    const revoked = await Promise.all(revoking);
    await eventually(async () => !(await primariesOf(stand)).includes(primary), HEALED);
    await failover.heal(primary);
    await eventually(() => isWhole(stand, primaries.length), HEALED);
    failovers++;
    longestMs = Math.max(longestMs, performance.now() - struckAtMs);
    all.push(...revoked);
    for (const one of revoked) {
      if (one.status === 200 && (await works(stand, one))) undone.push(one);
      const isRevoked = () => works(stand, one).then((it) => !it);
      if (one.status === 202)
        await eventually(isRevoked, { withinMs: 5_000, everyMs: 250 }).catch(() => notMadeAgain.push(one));
    }
    tell(`${all.length} of ${tries} revoked in ${failovers} failovers, ${undone.length} undone`);
  }
  const count = (status: number) => all.filter((one) => one.status === status).length;
  const answers = [...new Set(all.map(({ status }) => status))]
    .sort()
    .map((status) => [String(status), count(status)] as const);
  return {
    scenario: failover.name,
    about: failover.about,
    answers,
    longestWaitMs: Math.max(0, ...all.map(({ tookMs }) => tookMs)),
    waitAllowedMs: Number.POSITIVE_INFINITY,
    quotas: [],
    bans: 'not tried',
    normalAfterMs: 0,
    leftovers: [],
    notes: [
      `${all.length} keys were revoked in ${failovers} failovers: ${count(200)} acknowledged as durable, ${count(202)} made and unknown.`,
      `At the longest ${(longestMs / 1_000).toFixed(1)} s after the failover had begun every replica followed again.`,
    ],
    broken: [
      ...undone.map(({ id }) => `The revocation of ${id} was acknowledged, and the key works again.`),
      ...notMadeAgain.map(({ id }) => `The revocation of ${id} was undone, and not made again within 5 s.`),
      ...(count(200) === 0 ? ['No revocation was acknowledged at all: nothing was tried.'] : []),
    ],
    tookMs: performance.now() - startedAtMs,
  };
}

async function ask({ gateways, keys }: Stand, i: number, method: string, path: string, body?: object) {
  const { adminOrigin } = gateways[i % gateways.length]!;
  const answer = await fetch(`${adminOrigin}${path}`, {
    method,
    headers: { Authorization: `Bearer ${keys.env.ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

/** One that is durable, and so revoked in the failover that is meant. */
async function makeKey(stand: Stand): Promise<{ readonly id: string; readonly secret: string }> {
  return eventually(
    async () => {
      const { status, body } = await ask(stand, 0, 'POST', '/admin/keys', { plan: 'once' });
      if (status !== 201) throw new Error(`A key was answered with ${status}.`);
      return { id: String(body.id), secret: String(body.key) };
    },
    { withinMs: 30_000, everyMs: 200 },
  );
}

async function revoke(
  stand: Stand,
  i: number,
  key: { readonly id: string; readonly secret: string },
): Promise<Revocation> {
  const fromMs = performance.now();
  const status = await ask(stand, i, 'DELETE', `/admin/keys/${key.id}`).then(
    (answer) => answer.status,
    () => 0,
  );
  return { ...key, status, tookMs: performance.now() - fromMs };
}

/** Whether the record says that it is not revoked, or a gateway admits it. */
async function works(stand: Stand, { id, secret }: Revocation): Promise<boolean> {
  const shown = await eventually(
    async () => {
      const answer = await ask(stand, 0, 'GET', `/admin/keys/${id}`);
      if (answer.status === 503) throw new Error('The store is away.');
      return answer;
    },
    { withinMs: 30_000, everyMs: 200 },
  );
  if (shown.status !== 200 || shown.body.revokedAt === null) return true;
  const asked = stand.gateways.map(({ origin }) =>
    fetch(`${origin}/v1/pets`, { headers: { Authorization: `Bearer ${secret}` } }).then(async (answer) => {
      await answer.arrayBuffer();
      return answer.status;
    }),
  );
  return (await Promise.all(asked)).some((status) => status !== 401 && status !== 503);
}

async function infoOf(server: RedisProcess): Promise<string> {
  return String(await commandsTo(server)('INFO', 'replication').catch(() => ''));
}

/** As those say who decide, of those that run. */
async function primariesOf({ store }: Stand): Promise<RedisProcess[]> {
  const asked = await Promise.all(
    store.servers.map(async (server) => {
      const answer = await Promise.race([infoOf(server), delay(500, '', { ref: false })]);
      return /role:master/.test(answer) ? [server] : [];
    }),
  );
  return asked.flat();
}

/** Every server runs and has its role, and every replica follows. */
async function isWhole(stand: Stand, primaries: number): Promise<boolean> {
  const infos = await Promise.all(stand.store.servers.map(infoOf));
  const replicas = infos.filter((info) => /master_link_status:up/.test(info));
  const inOrder = (await primariesOf(stand)).length === primaries;
  return inOrder && replicas.length === infos.length - primaries;
}
