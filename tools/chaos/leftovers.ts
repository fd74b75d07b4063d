import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { isLasting } from '../../test/support/lasting-entries.ts';
import { leftOpen, type OpenResources, restingResources } from '../../test/support/open-resources.ts';
import type { Command, Store } from './stand/server.ts';
import type { Stand } from './stand/stand.ts';

/** Everything in Redis that would stay for ever although it must expire, by name; the first twenty. */
export async function leftoversIn(store: Store): Promise<string[]> {
  const left: string[] = [];
  for (const command of await store.primaries()) {
    for await (const name of namesIn(command)) {
      if (isLasting(name)) continue;
      if (Number(await command('PTTL', name)) === -1) left.push(name);
      if (left.length === 20) return left;
    }
  }
  return left;
}

const _ACCOUNT = keyspace.account('').slice(0, -1);

async function* namesIn(command: Command): AsyncGenerator<string> {
  let cursor = '0';
  do {
    const [next, names] = (await command('SCAN', cursor, 'COUNT', 1000)) as [string, string[]];
    cursor = next;
    yield* names;
  } while (cursor !== '0');
}

/** The number in one field of a consumer's account; null where it has none. */
export async function accountField(store: Store, consumerId: string, field: string): Promise<number | null> {
  const text = await accountText(store, consumerId, field);
  return text === null ? null : Number(text);
}

/** One field of a consumer's account; null where it has none. The field is one of the shell's (src/stores/redis/shell). */
export async function accountText(store: Store, consumerId: string, field: string): Promise<string | null> {
  for (const command of await store.primaries()) {
    try {
      const value = await command('HGET', keyspace.account(consumerId), field);
      return value === null ? null : String(value);
    } catch (error) {
      // In a Cluster one node has it, and the others say which.
      if (!String(error).includes('MOVED')) throw error;
    }
  }
  return null;
}

/** Once all is normal again: connections to Redis may have been opened anew only just then. */
const RELEASED_WITHIN_MS = 5_000;
/** What a connection to Redis is to a gateway. */
const OF_A_CONNECTION = ['handles (TCPSocketWrap)', 'descriptors', 'timers'] as const;

/** What each gateway may hold while nobody calls it, in their order. */
export async function restingGateways({ gateways, upstream, store }: Stand): Promise<OpenResources[]> {
  upstream.closeIdle();
  // Where there are several servers, another one may be met only with the first key that lies there.
  const more = store.servers.length - 1;
  const resting = await Promise.all(gateways.map((gateway) => restingResources(gateway)));
  return resting.map(({ counts, timersMs }) => {
    const raised = OF_A_CONNECTION.map((kind) => [kind, (counts.get(kind) ?? 0) + more] as const);
    return { counts: new Map([...counts, ...raised]), timersMs };
  });
}

/** What gateways that nobody calls any more hold beyond that, each as a sentence. */
export async function heldIn({ gateways, upstream }: Stand, before: readonly OpenResources[]): Promise<string[]> {
  const options = { withinMs: RELEASED_WITHIN_MS, beforeEach: () => upstream.closeIdle() };
  const held = await Promise.all(gateways.map((gateway, i) => leftOpen(gateway, before[i]!, options)));
  return held.flatMap((left, i) => left.map((it) => `${gateways[i]!.name} holds ${it}.`));
}
