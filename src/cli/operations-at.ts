import { DURABLE } from '../admit/ledger.ts';
import { askedGatewayOf } from '../config/environment.ts';
import { Failure } from '../failure.ts';
import { partsOf, performGiven } from '../operations/catalogue/methods.ts';
import type { InputOf, OutputOf } from '../operations/catalogue/operation.ts';
import { type AnyOperation, PLAINLY } from '../operations/catalogue/perform.ts';
import { type OpenOptions, type OpenStore, withStore } from '../serve/open-store.ts';
import { type AskedAt, contextOn, type OperationsAt } from './operations.ts';
import { operationsAtGateway } from './operations-at-gateway.ts';
import { recordingOf } from './recorded-change.ts';
import type { Terminal } from './terminal/command.ts';

export type { OperationsAt, Performed } from './operations.ts';

/**
 * Runs `work` at the gateway of TOLLGATE_GATEWAY, or else with the store of the gateways open, which is closed in any case. A command that
 * uses it has the variables `OF_OPERATIONS`.
 * @param options how a store is opened
 * @throws Failure `bad_usage` for a gateway that cannot be asked; as `openStore` and `work`
 */
export async function withOperations<T>(
  terminal: Terminal,
  work: (at: OperationsAt) => Promise<T>,
  options: OpenOptions = {},
): Promise<T> {
  const asked = askedGatewayOf(terminal.env);
  if ('faults' in asked) throw new Failure('bad_usage', asked.faults.join('\n'));
  if (asked.gateway !== null) {
    const { url, token } = asked.gateway;
    const headers = { Authorization: `Bearer ${token}` };
    const withinMs = terminal.answerWithinMs;
    return work(operationsAtGateway({ name: `the gateway at ${url}`, url, headers, secret: token, withinMs }));
  }
  const here = (store: OpenStore) => work(operationsHere(store, terminal.error));
  return withStore(terminal.env, here, { warn: terminal.error, ...options });
}

/**
 * Does operations on a store that this process has open.
 * @param warn called with a line for stderr if the record of a change is missing or lacks the outcome
 */
export function operationsHere(store: OpenStore, warn: (line: string) => void): OperationsAt {
  const contexts = { store: contextOn(store) };
  return {
    name: store.name,
    async perform<O extends AnyOperation>(operation: O, input: InputOf<O>, { once = null }: AskedAt = {}) {
      const asked = { ...PLAINLY, once };
      const recording = recordingOf(store, warn);
      const done = await performGiven(operation, contexts, recording, partsOf(operation, input), asked);
      const { output, change, isRepeated = false } = done as Awaited<ReturnType<AnyOperation['run']>>;
      const { outcome = 'done', durability = DURABLE } = change ?? {};
      return {
        output: output as OutputOf<O>,
        isRepeated,
        ...(change === undefined
          ? {}
          : { change: { outcome: outcome === 'unchanged' ? outcome : 'done', durability: durability.kind } }),
      };
    },
  };
}
