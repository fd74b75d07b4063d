import { readdirSync, readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from './conditions.ts';
import type { Held } from './resource-probe.ts';

/** A gateway that was started with {@link probed}. */
export interface ProbedGateway {
  /** Of the process that was started; its workers are found. */
  readonly pid: number;
  readonly adminPort: number;
  /** The folder of the probes' sockets. */
  readonly probes: string;
}

/** What a gateway holds, all its processes together. */
export interface OpenResources {
  /** How many of each kind. */
  readonly counts: ReadonlyMap<string, number>;
  /** What its timers are set for: to say which of them there are too many of. */
  readonly timersMs: readonly number[];
}

const PROBE = join(import.meta.dirname, 'resource-probe.ts');
/** What keeps a process running only for the moment. */
const PASSING = /Req|Immediate|Timeout/;
/**
 * How long a budget of failed authentications is remembered, of which each address has one; those clients share one whose
 * address nobody could ask for any more. That is no leftover of a connection.
 */
const BUDGET_MS = 60_000;
const TIMERS = 'timers';
const GAUGES: readonly (readonly [metric: string, what: string])[] = [
  ['tollgate_connections', 'client connections'],
  ['tollgate_in_flight', 'requests in flight'],
  ['tollgate_upstream_in_flight', 'requests at the service'],
  ['tollgate_websockets', 'WebSockets'],
];
/** Lines of the log are held for half a second. */
const SETTLED_AFTER_MS = 600;
const REST_MS = 1_000;
const LOOK_EVERY_MS = 20;

/** The environment of a gateway whose resources are to be counted. @param folder of its own, for the probes' sockets */
export function probed(
  folder: string,
  options = '',
): { readonly NODE_OPTIONS: string; readonly RESOURCE_PROBE: string } {
  const NODE_OPTIONS = `${options} --import ${PROBE} --disable-warning=ExperimentalWarning`.trim();
  return { NODE_OPTIONS, RESOURCE_PROBE: folder };
}

/**
 * What a gateway holds while it serves nobody, to compare with later: the most of each kind within a second, as it has
 * things to do by itself. What it had to do just now, its log among it, is waited for.
 */
export async function restingResources(gateway: ProbedGateway): Promise<OpenResources> {
  await eventually(async () => {
    const now = await openResources(gateway);
    return GAUGES.every(([, what]) => (now.counts.get(what) ?? 0) === 0);
  });
  await delay(SETTLED_AFTER_MS);
  const counts = new Map<string, number>();
  let timersMs: readonly number[] = [];
  for (const endsAtMs = performance.now() + REST_MS; performance.now() < endsAtMs; ) {
    const now = await openResources(gateway);
    for (const [name, count] of now.counts) counts.set(name, Math.max(count, counts.get(name) ?? 0));
    ({ timersMs } = now);
    await delay(LOOK_EVERY_MS);
  }
  return { counts, timersMs };
}

/**
 * Waits until a gateway holds no more of anything than before.
 * @param withinMs from now on
 * @param beforeEach called before each look, to close what the gateway may keep for its next request
 * @returns what it still holds when the time is over, each as a sentence; empty: nothing
 */
export async function leftOpen(
  gateway: ProbedGateway,
  before: OpenResources,
  { withinMs, beforeEach = () => {} }: { readonly withinMs: number; readonly beforeEach?: () => void },
): Promise<readonly string[]> {
  let left: readonly string[] = [];
  const isReleased = async () => {
    beforeEach();
    left = moreThan(before, await openResources(gateway));
    return left.length === 0;
  };
  try {
    await eventually(isReleased, { withinMs, everyMs: LOOK_EVERY_MS });
    return [];
  } catch (error) {
    return left.length > 0 ? left : [`The gateway could not be asked what it holds: ${(error as Error).message}`];
  }
}

function moreThan(before: OpenResources, now: OpenResources): string[] {
  const tell = ({ timersMs }: OpenResources) => timersMs.toSorted((a, b) => a - b).join(', ');
  return [...now.counts]
    .filter(([name, count]) => count > (before.counts.get(name) ?? 0))
    .map(([name, count]) => {
      const timers = name === TIMERS ? ` (of ${tell(now)} ms; before of ${tell(before)} ms)` : '';
      return `${count} ${name}, ${before.counts.get(name) ?? 0} before${timers}`;
    });
}

/** What a gateway holds now. */
async function openResources({ pid, adminPort, probes }: ProbedGateway): Promise<OpenResources> {
  const counts = new Map<string, number>();
  const timersMs: number[] = [];
  const add = (name: string, count: number) => counts.set(name, (counts.get(name) ?? 0) + count);
  for (const member of familyOf(pid)) {
    const { active, timers } = await ask(join(probes, `${member}.sock`));
    for (const [type, count] of Object.entries(active)) if (!PASSING.test(type)) add(`handles (${type})`, count);
    add('descriptors', readdirSync(`/proc/${member}/fd`).length);
    add('timers that Node waits for', active.Timeout ?? 0);
    timersMs.push(...timers.filter((ms) => ms !== BUDGET_MS).map(Math.round));
  }
  add(TIMERS, timersMs.length);
  // Last: the connection that it takes would be counted.
  const metrics = await readMetrics(adminPort);
  for (const [metric, what] of GAUGES) {
    for (const [name, value] of metrics) if (name === metric || name.startsWith(`${metric}{`)) add(what, value);
  }
  return { counts, timersMs };
}

function ask(path: string): Promise<Held> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    let text = '';
    socket.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    socket.once('error', reject);
    socket.once('end', () => resolve(JSON.parse(text) as Held));
  });
}

/** Samples by name, those with labels by `name{labels}` as they are written. */
export async function readMetrics(adminPort: number): Promise<ReadonlyMap<string, number>> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/metrics`, { headers: { Connection: 'close' } });
  const samples = (await answer.text()).matchAll(/^([a-z]\S*) (\S+)$/gm);
  return new Map([...samples].map(([, name, value]) => [name as string, Number(value)]));
}

/** The process and all its descendants, itself first; none where the system has no /proc. */
export function familyOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return [
      pid,
      ...children
        .split(' ')
        .filter(Boolean)
        .flatMap((child) => familyOf(Number(child))),
    ];
  } catch {
    return [];
  }
}
