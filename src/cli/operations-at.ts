import { DURABLE } from '../admit/ledger.ts';
import { askedGatewayOf } from '../config/environment.ts';
import { Failure } from '../failure.ts';
import { partsOf, performGiven } from '../operations/catalogue/methods.ts';
import type { InputOf, OutputOf } from '../operations/catalogue/operation.ts';
import { type AnyOperation, isDryRun, PLAINLY } from '../operations/catalogue/perform.ts';
import { shellActor } from '../operations/recorded.ts';
import { namedStore, type OpenOptions, type OpenStore, untilReleased } from '../serve/open-store.ts';
import { NotReached, operationsAtGateway } from './operations-at-gateway.ts';
import { type AskedAt, contextOn, type OperationsAt, plansContextOn } from './operations-interface.ts';
import { recordingOf } from './recorded-change.ts';
import type { Terminal } from './terminal/command.ts';

export type { OperationsAt, Performed } from './operations-interface.ts';

/** How a store is opened for a command that does this operation. */
export function openingFor({ needsNoPlans, makesSecret }: AnyOperation): OpenOptions {
  return { needsPlans: needsNoPlans !== true, makesSecrets: makesSecret === true };
}

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
  const warn = (warnings: readonly string[]) => {
    for (const warning of warnings) terminal.error(`warning: ${warning}\n`);
  };
  warn(asked.warnings);
  if (asked.gateway !== null) {
    const { url, token } = asked.gateway;
    const headers = { Authorization: `Bearer ${token}` };
    const withinMs = terminal.answerWithinMs;
    return work(operationsAtGateway({ name: `the gateway at ${url}`, url, headers, secret: token, withinMs }));
  }
  return withOwnerOrStore(terminal, work, options, warn);
}

/**
 * Runs `work` at the gateway that owns the embedded store, or else with the store open.
 *
 * Fault: the gateway has ended and has left its socket behind, or a gateway starts or ends while the command runs. What reaches no gateway is
 * done on the store itself; what changes it, as its owner, so a change waits for a gateway that starts or stops, and for another command. What
 * a gateway has taken and not answered may be done, and the command says so.
 */
async function withOwnerOrStore<T>(
  terminal: Terminal,
  work: (at: OperationsAt) => Promise<T>,
  options: OpenOptions,
  warn: (warnings: readonly string[]) => void,
): Promise<T> {
  const store = await namedStore(terminal.env, options);
  const first = store.owner();
  first?.close();
  const warned = first === null ? [] : store.warnings;
  warn(warned);
  const open = async () => {
    const opened = await store.open();
    warn(opened.warnings.filter((warning) => !warned.includes(warning)));
    return opened;
  };
  let opening: Promise<OpenStore> | null = null;
  const here = () => {
    opening ??= open();
    return opening;
  };
  const name = first === null || store.name === null ? (await here()).name : store.name;
  const perform: OperationsAt['perform'] = async (operation, input, asked) => {
    const attempt = async () => {
      const socket = store.owner();
      try {
        if (socket !== null) return await atOwner(socket.path, terminal).perform(operation, input, asked);
      } catch (error) {
        if (!(error instanceof NotReached)) throw error;
      } finally {
        socket?.close();
      }
      const opened = await here();
      const changes = operation.action !== undefined && !isDryRun(input);
      const owner = changes ? await opened.own() : NO_OWNER;
      if (owner === null) return null;
      try {
        return await operationsHere(opened, terminal.error).perform(operation, input, asked);
      } finally {
        owner.release();
      }
    };
    const done = await untilReleased(attempt, terminal.answerWithinMs);
    if (done === null) throw new Failure('store_owned', ownedText(name));
    return done;
  };
  try {
    return await work({ name, perform });
  } finally {
    const opened = await (opening as Promise<OpenStore> | null)?.catch(() => null);
    await opened?.close();
  }
}

/** What reads needs no owner. */
const NO_OWNER = { release() {} };

function ownedText(name: string): string {
  return (
    `Another process owns ${name}, and no gateway answers on its socket, so nothing was changed. It may be a gateway of an earlier version or ` +
    'on another machine: stop it, or ask it with TOLLGATE_GATEWAY and TOLLGATE_TOKEN.'
  );
}

function atOwner(socketPath: string, { answerWithinMs: withinMs }: Terminal): OperationsAt {
  const { user, host } = shellActor();
  const headers = { 'tollgate-shell': String(new URLSearchParams({ user, host })) };
  return operationsAtGateway({
    name: 'the gateway that owns the store',
    url: 'http://localhost',
    socketPath,
    headers,
    withinMs,
  });
}

/** For an operation on what gateways remember. */
const ONLY_GATEWAYS =
  'Only a gateway knows that, and none was asked. Name the admin port of one with --gateway or TOLLGATE_GATEWAY, and a token of it in TOLLGATE_TOKEN.';

/**
 * Does operations on a store that this process has open.
 * @param warn called with a line for stderr if the record of a change is missing or lacks the outcome
 */
export function operationsHere(store: OpenStore, warn: (line: string) => void): OperationsAt {
  const contexts = { store: contextOn(store), plans: plansContextOn(store) };
  return {
    name: store.name,
    async perform<O extends AnyOperation>(operation: O, input: InputOf<O>, { once = null, version }: AskedAt = {}) {
      const asked = { ...PLAINLY, once, versions: version === undefined ? null : [version] };
      if (operation.on === 'live') {
        if (operation.fromStore === undefined) throw new Failure('gateway_unavailable', ONLY_GATEWAYS);
        const { ids, body } = partsOf(operation, input);
        const { output } = await operation.fromStore(contexts.store, { ...body, ...ids } as never);
        return { output: output as OutputOf<O>, isRepeated: false };
      }
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
