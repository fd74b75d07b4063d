import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parsePlans } from '../../src/config/plans-schema.ts';
import { Failure } from '../../src/failure.ts';
import type { Plans } from '../../src/model/plan.ts';

export const OWN_PLANS = join(import.meta.dirname, 'plans.yaml');

/** The plans that scenarios name. */
export function ownPlans(): Plans {
  return readPlans(OWN_PLANS);
}

/** @throws Failure `bad_settings` with every fault */
export function readPlans(file: string): Plans {
  const parsed = parsePlans(readFileSync(file, 'utf8'), file);
  if ('faults' in parsed) throw new Failure('bad_settings', parsed.faults.join('\n'));
  return parsed.value;
}
