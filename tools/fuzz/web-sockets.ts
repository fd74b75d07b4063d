import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../../test/support/conditions.ts';
import { countConnections, listen } from '../../test/support/listening.ts';
import { leftOpen, restingResources } from '../../test/support/open-resources.ts';
import { HANDSHAKE, switching, WEBSOCKET_ACCEPT, WEBSOCKET_KEY } from '../../test/support/web-socket-handshake.ts';
import { Chance } from '../kit/chance.ts';
import { inLanes } from '../kit/lanes.ts';
import { startWatchedGateway, type WatchedGateway } from './gateway.ts';

export interface WebSocketsOptions {
  readonly clients: number;
  readonly seed: number;
  readonly onProgress?: (done: number) => void;
}

export interface WebSocketsResult {
  readonly clients: number;
  /** WebSockets that were opened, by the gateway's own count. */
  readonly opened: number;
  readonly problems: readonly string[];
  /** Resident memory of the gateway, MiB. */
  readonly rssMib: { readonly before: number; readonly after: number };
  readonly tookMs: number;
}

const AT_A_TIME = 64;
const GROWTH_MIB = 64;
const MOMENTS = ['at once', 'before the answer', 'after the answer', 'in the middle', 'not at all'] as const;
const ENDS = ['destroy', 'resetAndDestroy', 'end'] as const;
/** What the upstream does, told in the path. */
const MANNERS = ['agree', 'late', 'silent', 'refuse', 'wrong', 'cut', 'reset', 'leave', 'flood'] as const;

interface Plan {
  readonly moment: (typeof MOMENTS)[number];
  readonly end: (typeof ENDS)[number];
  readonly manner: (typeof MANNERS)[number];
  readonly early: boolean;
  readonly hesitatesMs: number;
}

/** Opens WebSockets and drops them at random moments, from either side, and looks for what is left behind. */
export async function runWebSockets({
  clients,
  seed,
  onProgress = () => {},
}: WebSocketsOptions): Promise<WebSocketsResult> {
  const startedAtMs = performance.now();
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  const connections = countConnections(server, serve);
  const { origin } = await listen(server);
  const gateway = await startWatchedGateway({
    upstreams: `  store: { targets: [${origin}], responseTimeout: 300ms, bodyTimeout: 300ms }`,
    routes: '  - { path: /**, methods: [GET], upstream: store, websocket: true }',
    callers: 1,
  });
  try {
    for (const plan of plansOf(200, seed + 1)) await play(plan, gateway);
    await eventually(() => connections.open === 0, { withinMs: 10_000 });
    const before = { rssMib: gateway.rssMib(), open: await restingResources(gateway) };
    let done = 0;
    await inLanes(AT_A_TIME, plansOf(clients, seed), async (plan) => {
      await play(plan, gateway);
      onProgress(++done);
    });
    const problems = [...(await leftOpen(gateway, before.open, { withinMs: 10_000 })), ...gateway.defects];
    await eventually(() => connections.open === 0).catch(() => {
      problems.push(`${connections.open} connections to the upstream`);
    });
    if (gateway.ended() !== null) problems.push(`The gateway ended: ${gateway.ended()}`);
    const after = gateway.rssMib();
    if (after > before.rssMib + GROWTH_MIB) problems.push(`Memory grew from ${before.rssMib} to ${after} MiB`);
    const opened = [...(await gateway.metrics())].reduce(
      (sum, [name, count]) => (name.startsWith('tollgate_websockets_total') ? sum + count : sum),
      0,
    );
    const rssMib = { before: before.rssMib, after };
    return { clients, opened, problems, rssMib, tookMs: performance.now() - startedAtMs };
  } finally {
    await gateway.stop();
    await connections.close();
  }
}

function plansOf(count: number, seed: number): Plan[] {
  const chance = new Chance(seed);
  return Array.from({ length: count }, () => ({
    moment: chance.of(MOMENTS),
    end: chance.of(ENDS),
    // Most of them agree: what happens to a tunnel is what this is about.
    manner: chance.share() < 0.5 ? 'agree' : chance.of(MANNERS),
    early: chance.share() < 0.3,
    hesitatesMs: chance.share() < 0.5 ? 0 : chance.below(20),
  }));
}

/** One client from its connection to its end. */
async function play({ moment, end, manner, early, hesitatesMs }: Plan, { port, callers }: WatchedGateway) {
  const socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await Promise.race([once(socket, 'connect').catch(() => {}), closed]);
  const answered = new Promise<void>((resolve) => socket.once('data', () => resolve()));
  socket.resume();
  socket.write(
    `GET /${manner} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${callers[0]!.key}\r\n${HANDSHAKE}\r\n${early ? 'early' : ''}`,
  );
  if (moment !== 'at once' && moment !== 'before the answer') await Promise.race([answered, closed]);
  if (moment === 'in the middle') socket.write(Buffer.alloc(100_000));
  if (hesitatesMs > 0) await delay(hesitatesMs);
  // Whoever does not leave is left, or says goodbye in the end.
  if (moment === 'not at all') await Promise.race([closed, delay(50)]);
  socket[moment === 'not at all' ? 'end' : end]();
  await Promise.race([closed, delay(2_000).then(() => socket.destroy())]);
}

function serve(socket: Socket): void {
  let head = '';
  const onHead = (chunk: Buffer) => {
    head += chunk.toString('latin1');
    if (!head.includes('\r\n\r\n')) return;
    socket.off('data', onHead);
    socket.resume();
    act(socket, /^GET \/(\w+)/.exec(head)?.[1] ?? '');
  };
  socket.on('data', onHead);
  // A gateway that closes its half, perhaps before it has sent a head, has the other half closed soon.
  socket.once('end', () => socket.end());
}

function act(socket: Socket, manner: string): void {
  const later = (what: () => void) => setTimeout(what, 10);
  if (manner === 'silent') return;
  if (manner === 'late') later(() => socket.writable && socket.write(switching()));
  else if (manner === 'refuse') socket.write('HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno');
  else if (manner === 'wrong') socket.write(switching().replace(WEBSOCKET_ACCEPT, WEBSOCKET_KEY));
  else if (manner === 'cut') socket.destroy();
  else if (manner === 'reset') socket.resetAndDestroy();
  else {
    socket.write(switching());
    if (manner === 'leave') later(() => (socket.bytesRead % 2 === 0 ? socket.destroy() : socket.resetAndDestroy()));
    if (manner === 'flood') socket.write(Buffer.alloc(1_000_000));
  }
}
