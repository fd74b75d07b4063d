import type { Readiness } from '../../listen/admin.ts';

/** How one worker is, as `/readyz` shows it. */
export interface WorkerReport {
  /** From 1. */
  readonly worker: number;
  /** Null: there is none at the moment. */
  readonly pid: number | null;
  readonly state: 'serving' | 'starting' | 'replaced' | 'silent';
  readonly connections: number;
}

/** The further down, the better. */
const STORE_STATES: readonly Readiness['store'][] = ['never_reached', 'away', 'present', 'embedded'];

/**
 * The readiness of a gateway of several workers: it is ready while one of them is, because connections are handed to those
 * that serve; of the store the worst of what they say is told.
 * @param told by the workers that serve and have answered
 */
export function joinReadiness(
  told: readonly Readiness[],
  workers: readonly WorkerReport[],
  draining: boolean,
): Readiness & { readonly workers: readonly WorkerReport[] } {
  const badness = ({ store }: Readiness) => STORE_STATES.indexOf(store);
  const [worst] = told.toSorted((a, b) => badness(a) - badness(b));
  return {
    store: 'never_reached',
    ...worst,
    ...(told.some(({ settings }) => settings === 'refused') ? { settings: 'refused' } : {}),
    ...(told.some(({ pepper }) => pepper === 'mismatch') ? { pepper: 'mismatch' } : {}),
    ...(told.some(({ memory }) => memory === 'short') ? { memory: 'short' } : {}),
    ready: !draining && told.some(({ ready }) => ready),
    draining,
    workers,
  };
}
