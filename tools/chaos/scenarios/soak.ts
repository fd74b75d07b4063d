import { setTimeout as delay } from 'node:timers/promises';
import { spreadOf } from '../../kit/statistics.ts';
import type { Fault } from '../fault.ts';
import { round } from '../round.ts';
import type { Row } from '../row.ts';
import type { Context, Scenario } from '../scenario.ts';
import { openStand, type Stand } from '../stand/stand.ts';
import { GATEWAY_FAULTS } from './gateways.ts';
import { LINK_FAULTS } from './link.ts';
import { AOF_FAULTS, SERVER_FAULTS } from './server.ts';

const GATEWAYS = 3;
const LOOK_EVERY_MS = 1_000;
/** What three gateways may hold more in the last quarter of the soak than in the second one. */
const GROWTH_MIB = 96;
const GROWTH_FILES = 24;

/** A start with other data than was written would be another thing with AOF; with workers there would be other gateways. */
const FAULTS: readonly Fault[] = [...GATEWAY_FAULTS, ...LINK_FAULTS, ...SERVER_FAULTS, ...AOF_FAULTS].filter(
  ({ name }) => name !== 'LOADING',
);

/** One stand for as long as is wished, one fault after the other at random. */
export const SOAK: Scenario = {
  name: 'soak',
  about:
    'Faults at random on the same gateways and the same Redis, each judged as by itself; memory and handles stay flat.',
  run: async (context) => {
    const stand = await openStand({ store: 'aof', gateways: GATEWAYS });
    try {
      return await soak(stand, context);
    } finally {
      await stand.close();
    }
  },
};

interface Look {
  readonly atMs: number;
  readonly rssMib: number;
  readonly files: number;
}

async function soak(stand: Stand, context: Context): Promise<Row> {
  const { chance, timeline, tell, signal, minutes } = context;
  const startedAtMs = performance.now();
  const untilMs = startedAtMs + minutes * 60_000;
  const looks: Look[] = [];
  const over = new AbortController();
  const looking = look(stand, context, looks, over.signal);
  const rounds: { readonly fault: string; readonly row: Row }[] = [];
  try {
    do {
      const fault = chance.of(FAULTS);
      const left = Math.max(untilMs - performance.now(), 0) / 60_000;
      tell(`round ${rounds.length + 1}, ${fault.name}; ${left.toFixed(1)} of ${minutes} minutes left`);
      rounds.push({ fault: fault.name, row: await round(fault, { stand, chance, timeline }) });
    } while (performance.now() < untilMs && !signal.aborted);
  } finally {
    over.abort();
    await looking;
  }
  return rowOf(rounds, looks, performance.now() - startedAtMs);
}

async function look(stand: Stand, { timeline }: Context, looks: Look[], over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    const holdings = stand.holdings();
    // A gateway that is dead at this moment holds nothing, which says nothing.
    if (holdings !== null && stand.gateways.every((gateway) => gateway.ended() === null)) {
      looks.push({ atMs: performance.now(), ...holdings });
      timeline.hold(holdings);
    }
    await delay(LOOK_EVERY_MS, undefined, { signal: over }).catch(() => {});
  }
}

function rowOf(rounds: readonly { fault: string; row: Row }[], looks: readonly Look[], tookMs: number): Row {
  const rows = rounds.map(({ row }) => row);
  const answers = new Map<string, number>();
  for (const [label, count] of rows.flatMap((row) => row.answers))
    answers.set(label, (answers.get(label) ?? 0) + count);
  const judged = rows.filter(({ waitAllowedMs }) => Number.isFinite(waitAllowedMs));
  const worst = judged.toSorted((a, b) => b.longestWaitMs - b.waitAllowedMs - (a.longestWaitMs - a.waitAllowedMs))[0];
  const flat = flatness(looks);
  const normal = rows.map(({ normalAfterMs }) => normalAfterMs);
  return {
    scenario: SOAK.name,
    about: SOAK.about,
    answers: [...answers].toSorted(([, a], [, b]) => b - a),
    longestWaitMs: worst?.longestWaitMs ?? 0,
    waitAllowedMs: worst?.waitAllowedMs ?? 0,
    quotas: [],
    bans: rows.some(({ bans, broken }) => bans === 'lost' && broken.length > 0) ? 'lost' : 'kept',
    normalAfterMs: normal.includes(null) ? null : Math.max(...(normal as number[])),
    leftovers: [...new Set(rows.flatMap(({ leftovers }) => leftovers))],
    notes: [`${rounds.length} rounds.`, ...flat.notes],
    broken: [
      ...rounds.flatMap(({ fault, row }, i) => row.broken.map((it) => `Round ${i + 1}, ${fault}: ${it}`)),
      ...flat.broken,
    ],
    tookMs,
  };
}

/** The second quarter against the last: by then everything has been used once. */
export function flatness(looks: readonly Look[]): { readonly notes: string[]; readonly broken: string[] } {
  const quarter = Math.floor(looks.length / 4);
  if (quarter < 5) return { notes: ['Too short to say whether memory is flat.'], broken: [] };
  const early = looks.slice(quarter, 2 * quarter);
  const late = looks.slice(-quarter);
  const broken: string[] = [];
  const compare = (what: 'rssMib' | 'files', unit: string, most: number) => {
    const [from, to] = [early, late].map((part) => spreadOf(part.map((it) => it[what]))!.median) as [number, number];
    const note = `${unit}: ${from.toFixed(0)} in the second quarter, ${to.toFixed(0)} in the last.`;
    if (to - from > most) broken.push(`Not flat. ${note}`);
    return note;
  };
  const notes = [compare('rssMib', 'MiB of all gateways', GROWTH_MIB), compare('files', 'Open files', GROWTH_FILES)];
  return { notes, broken };
}
