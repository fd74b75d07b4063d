import { eventually } from '../../../test/support/conditions.ts';
import type { Fault } from '../fault.ts';
import { nodesOf } from '../stand/cluster.ts';
import { commandsTo } from '../stand/server.ts';
import type { Stand } from '../stand/stand.ts';

/** Writes that a primary had acknowledged and no replica had: at most what clients send a key in this time. */
const LAG = 24;

/** What may happen to a primary with replicas, watched by Sentinels. */
export const SENTINEL_FAULTS: readonly Fault[] = [
  {
    name: 'sentinel failover',
    about: 'kill -9 of the primary; the Sentinels make a replica the new one. Then the old one comes back.',
    allowed: { alone: true, lag: LAG, normalWithinMs: 8_000 },
    holdMs: 1_000,
    strike: ({ store }) => store.server.kill(),
    heal: failOver,
  },
];

/** What may happen to a Cluster. */
export const CLUSTER_FAULTS: readonly Fault[] = [
  {
    name: 'cluster failover',
    about: 'kill -9 of one of three primaries; its replica takes its place. Then it comes back.',
    allowed: { alone: true, lag: LAG, normalWithinMs: 8_000 },
    holdMs: 1_000,
    strike: ({ store }) => store.server.kill(),
    heal: failOver,
  },
  {
    name: 'cluster slots moved',
    about: 'The slots of all keys in use are moved to another primary, one after the other, under load.',
    allowed: { normalWithinMs: 2_500 },
    holdMs: 0,
    strike: moveSlots,
  },
];

/** How long that takes is theirs, not ours: they may have to vote more than once. */
async function failOver({ store }: Stand): Promise<void> {
  await eventually(() => store.hasFailedOver(), { withinMs: 30_000, everyMs: 50 });
  await store.server.launchAgain({ keepData: true });
}

/** As `redis-cli --cluster reshard` does it, slot by slot. */
async function moveSlots({ store, keys }: Stand): Promise<void> {
  const ask = commandsTo(store.server);
  for (const id of keys.ids) {
    const slot = Number(await ask('CLUSTER', 'KEYSLOT', `{${id}}`));
    const primaries = (await nodesOf(store.server)).filter(({ isPrimary, isUp }) => isPrimary && isUp);
    const holder = await holderOf(store.server, slot);
    const from = primaries.find(({ port }) => port === holder)!;
    const to = primaries[(primaries.indexOf(from) + 1) % primaries.length]!;
    await commandsTo(to)('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id);
    await commandsTo(from)('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id);
    for (;;) {
      const names = (await commandsTo(from)('CLUSTER', 'GETKEYSINSLOT', slot, 10)) as string[];
      if (names.length === 0) break;
      await commandsTo(from)('MIGRATE', '127.0.0.1', to.port, '', 0, 2_000, 'KEYS', ...names);
    }
    for (const node of [to, from, ...primaries]) await commandsTo(node)('CLUSTER', 'SETSLOT', slot, 'NODE', to.id);
  }
}

async function holderOf(server: { readonly port: number }, slot: number): Promise<number> {
  const ranges = (await commandsTo(server)('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
  return ranges.find(([from, to]) => from <= slot && slot <= to)![2][1];
}
