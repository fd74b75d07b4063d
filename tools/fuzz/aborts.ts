import { randomBytes } from 'node:crypto';
import { eventually } from '../../test/support/conditions.ts';
import { leftOpen, type OpenResources, restingResources } from '../../test/support/open-resources.ts';
import { inLanes } from '../kit/lanes.ts';
import type { AnswerScript, Exchange, SeenRequest } from './exchange.ts';
import { type Caller, startWatchedGateway, type WatchedGateway } from './gateway.ts';
import { type Leaver, leave, leavers } from './leavers.ts';
import { type StrictUpstream, startStrictUpstream } from './upstream.ts';

export interface AbortsOptions {
  readonly clients: number;
  readonly seed: number;
  readonly onProgress?: (done: number) => void;
}

export interface AbortsResult {
  readonly clients: number;
  /** Access lines of their requests. */
  readonly lines: number;
  readonly problems: readonly string[];
  /** Resident memory of the gateway, MiB. */
  readonly rssMib: { readonly before: number; readonly after: number };
  readonly tookMs: number;
}

const AT_A_TIME = 64;
const GROWTH_MIB = 64;
const METHODS = '[GET, POST]';

/** Lets clients leave at random moments, and looks for what they leave behind. */
export async function runAborts({ clients, seed, onProgress = () => {} }: AbortsOptions): Promise<AbortsResult> {
  const startedAtMs = performance.now();
  const stage = await setStage();
  const { gateway, upstream } = stage;
  try {
    await warmUp(stage);
    const before = { rssMib: gateway.rssMib(), open: await restingResources(gateway) };
    const all = leavers(clients, seed);
    const from = { port: gateway.port, key: stage.caller.key, onArrival: stage.onArrival };
    let done = 0;
    await inLanes(AT_A_TIME, all, async (leaver) => {
      await leave(leaver, from);
      onProgress(++done);
    });
    const problems = await leftBehind(stage, before.open, all);
    problems.push(...upstream.violations, ...gateway.defects);
    const after = gateway.rssMib();
    if (after > before.rssMib + GROWTH_MIB) problems.push(`Memory grew from ${before.rssMib} to ${after} MiB`);
    const rssMib = { before: before.rssMib, after };
    return { clients, lines: stage.lines.length, problems, rssMib, tookMs: performance.now() - startedAtMs };
  } finally {
    await gateway.stop();
    await upstream.connections.close();
  }
}

interface Line {
  readonly id: string;
  readonly status: number;
}

interface Stage {
  readonly gateway: WatchedGateway;
  readonly upstream: StrictUpstream;
  readonly caller: Caller;
  readonly lines: Line[];
  /** Ids of the requests that reached the upstream. */
  readonly arrived: Set<string>;
  /** Called when one arrives. */
  readonly onArrival: Map<string, () => void>;
}

async function setStage(): Promise<Stage> {
  const via = `secret-${randomBytes(12).toString('hex')}`;
  const book = new Map<string, Exchange>();
  const upstream = await startStrictUpstream(via, book);
  const gateway = await startWatchedGateway({
    listen: { via },
    upstreams: `  store: { targets: [${upstream.origin}] }`,
    routes: `  - { path: /**, methods: ${METHODS}, upstream: store }`,
    callers: 1,
  });
  const [caller] = gateway.callers as [Caller];
  const stage = { gateway, upstream, caller, lines: [] as Line[], arrived: new Set<string>(), onArrival: new Map() };
  const late = ({ requestId }: SeenRequest) => {
    stage.arrived.add(requestId);
    stage.onArrival.get(requestId)?.();
  };
  book.set(caller.id, { tag: '', seen: [], script: ({ target }) => SCRIPTS[target] ?? HOLD, late });
  gateway.onAccess(({ requestId = '', status = 0 }) => {
    if (requestId.startsWith('leaver-')) stage.lines.push({ id: requestId, status });
  });
  return stage;
}

const HOLD: AnswerScript = { segments: [], end: 'silence' };
const PIECE = Buffer.alloc(64 * 1024, 'b');
const SCRIPTS: Readonly<Record<string, AnswerScript>> = {
  '/at-once': { segments: [Buffer.from('HTTP/1.1 204 OK\r\nConnection: close\r\n\r\n')], end: 'fin' },
  '/long': {
    segments: [
      Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${32 * PIECE.length}\r\n\r\n`),
      ...Array(31).fill(PIECE),
    ],
    end: 'silence',
  },
};

async function warmUp({ gateway, caller }: Stage): Promise<void> {
  const headers = { Authorization: `Bearer ${caller.key}`, Connection: 'close' };
  const ask = () => fetch(`http://127.0.0.1:${gateway.port}/at-once`, { headers });
  for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 20 }, ask));
}

/** Waits until all is as it was before; what is not, after a while, is a problem. */
async function leftBehind(stage: Stage, before: OpenResources, all: readonly Leaver[]): Promise<string[]> {
  const { gateway, upstream } = stage;
  let left: string[] = [];
  const look = () => {
    left = wrongLines(all, stage);
    if (upstream.connections.open > 0) left.push(`${upstream.connections.open} connections to the upstream`);
    if (upstream.busy > 0) left.push(`${upstream.busy} requests at the upstream`);
    return left.length === 0;
  };
  await eventually(look, { withinMs: 10_000, everyMs: 100 }).catch(() => {});
  return [...left, ...(await leftOpen(gateway, before, { withinMs: 10_000 }))];
}

/** One line for each request whose head was complete, none for any other; 499 where the client left. */
function wrongLines(all: readonly Leaver[], { lines, arrived }: Stage): string[] {
  const byId = Map.groupBy(lines, ({ id }) => id);
  return all.flatMap((leaver) => {
    const { id, moment, how } = leaver;
    const own = byId.get(id) ?? [];
    const hasHead = moment !== 'connected' && moment !== 'in the head';
    // A reset may overtake what was sent before it.
    const isCertain = hasHead && (how === 'FIN' || arrived.has(id));
    const statuses = own.map(({ status }) => status);
    const what = `A client that left ${moment} with ${how} has access lines with [${statuses}]`;
    if (own.length > (hasHead ? 1 : 0) || (isCertain && own.length === 0)) return [what];
    // A body that ends too early is malformed first; that nobody waits for the answer shows later.
    const mayBe400 = moment === 'in the body' || moment === 'in a chunk';
    return statuses.every((status) => status === 499 || (mayBe400 && status === 400)) ? [] : [what];
  });
}
