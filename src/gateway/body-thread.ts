import { parentPort } from 'node:worker_threads';
import { type BodyFault, faultOfBody } from '../validate/body.ts';
import { type Check, Checks, exportsOf } from '../validate/checks.ts';
import type { Program } from '../validate/program.ts';
import { ExcessError, OF_BODY, Work } from '../validate/work.ts';

// The program of the thread of BodyChecks (body-checks.ts). It checks one body after the other.

export interface BodyTask {
  /** A number of the description's program, by which the thread keeps it. */
  readonly id: number;
  /** Null if the thread has been sent it before. */
  readonly program: Pick<Program, 'code' | 'automata'> | null;
  /** The name of the program's export. */
  readonly check: string;
  readonly bytes: Uint8Array;
}

/** `too_much`: it takes too much work. */
export type BodyResult = BodyFault | 'too_much' | null;

const work = new Work();
const programs = new Map<number, Readonly<Record<string, Check>>>();

function resultOf({ id, program, check, bytes }: BodyTask): BodyResult {
  if (program !== null) programs.set(id, exportsOf(program.code, new Checks(work, program.automata)));
  work.begin(OF_BODY);
  try {
    return faultOfBody(programs.get(id)![check]!, bytes, work);
  } catch (error) {
    if (error instanceof ExcessError) return 'too_much';
    throw error;
  }
}

parentPort?.on('message', (task: BodyTask) => parentPort?.postMessage(resultOf(task)));
