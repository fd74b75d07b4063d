import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What one request costs, by counts that do not depend on how fast the machine is. */
export interface RequestCost {
  /** Bytes that the serving thread allocates in V8's heap. */
  readonly bytes: number;
  /** System calls of all threads of the gateway; null if strace cannot be used here. */
  readonly systemCalls: number | null;
}

/** The requests whose cost is guarded. */
export const GUARDED = ['admitted', 'banned', 'spent', 'unknown key'] as const;
export type Guarded = (typeof GUARDED)[number];
export type Costs = Readonly<Record<Guarded, RequestCost>>;

const FILE = join(import.meta.dirname, 'costs.json');
/** Runs of the same code differ by 1 to 2 %. */
const TOLERANCE = 0.05;

export interface ComparedCost {
  /** `banned: 8123 bytes (+1.2 %), 3.01 system calls (0.0 %)`. */
  readonly text: string;
  readonly isWithin: boolean;
}

/** Compares each cost with the one on file; a change by more than 5 % is not within. */
export function compared(costs: Costs, onFile: Costs): ComparedCost[] {
  return GUARDED.map((kind) => {
    const [now, before] = [costs[kind], onFile[kind]];
    const bytes = changeOf(now.bytes, before.bytes);
    const calls = now.systemCalls === null ? null : changeOf(now.systemCalls, before.systemCalls ?? 0);
    const text = `${now.bytes} bytes (${percent(bytes)})`;
    const callsText =
      calls === null ? 'system calls were not counted' : `${now.systemCalls} system calls (${percent(calls)})`;
    const isWithin = Math.abs(bytes) <= TOLERANCE && (calls === null || Math.abs(calls) <= TOLERANCE);
    return { text: `${kind}: ${text}, ${callsText}${isWithin ? '' : ': not within 5 %'}`, isWithin };
  });
}

export async function readCosts(): Promise<Costs> {
  return JSON.parse(await readFile(FILE, 'utf8'));
}

export async function writeCosts(costs: Costs): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(costs, null, 2)}\n`);
}

function changeOf(now: number, before: number): number {
  return now / before - 1;
}

function percent(change: number): string {
  return `${change >= 0 ? '+' : ''}${(change * 100).toFixed(1)} %`;
}
