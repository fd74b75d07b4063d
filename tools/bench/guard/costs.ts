import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What one request costs, by counts that do not depend on how fast the machine is. */
export interface RequestCost {
  /** Bytes that the serving thread allocates in V8's heap. */
  readonly bytes: number;
  /** System calls of all threads of the gateway for the median request; null if strace cannot be used here. */
  readonly systemCalls: number | null;
  /** Scripts that Redis runs. */
  readonly scripts: number;
  /** Commands that Redis runs, those inside scripts included. */
  readonly commands: number;
}

/** The requests whose cost is guarded. */
export const GUARDED = ['admitted', 'first of a key', 'banned', 'spent', 'unknown key'] as const;
export type Guarded = (typeof GUARDED)[number];
export type Costs = Readonly<Record<Guarded, RequestCost>>;

const COUNTS: Readonly<Record<keyof RequestCost, string>> = {
  bytes: 'bytes',
  systemCalls: 'system calls',
  scripts: 'scripts',
  commands: 'Redis commands',
};
const FILE = join(import.meta.dirname, 'costs.json');
/** Runs of the same code differ by 1 to 2 %. */
const TOLERANCE = 0.05;
/** A call in a hundred requests. */
const LEAST = 0.01;

export interface ComparedCost {
  /** `banned: 8123 bytes (8101 before), 3 system calls, 0 scripts, 0 Redis commands`. */
  readonly text: string;
  readonly isWithin: boolean;
}

/** Compares each cost with the one on file; a change of one of its counts by more than 5 % is not within. */
export function compared(costs: Costs, onFile: Partial<Costs>): ComparedCost[] {
  return GUARDED.map((kind) => {
    let isWithin = true;
    const counts = Object.entries(COUNTS).map(([name, title]) => {
      const now = costs[kind][name as keyof RequestCost];
      const before = onFile[kind]?.[name as keyof RequestCost] ?? 0;
      if (now === null) return `${title} were not counted`;
      const change = now - before;
      isWithin &&= Math.abs(change) <= Math.max(LEAST, before * TOLERANCE);
      return `${now} ${title}${change === 0 ? '' : ` (${before} before)`}`;
    });
    return { text: `${kind}: ${counts.join(', ')}${isWithin ? '' : ': not within 5 %'}`, isWithin };
  });
}

export async function readCosts(): Promise<Partial<Costs>> {
  return JSON.parse(await readFile(FILE, 'utf8'));
}

export async function writeCosts(costs: Costs): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(costs, null, 2)}\n`);
}
