import { z } from 'zod';
import { MAX_LIMIT, WINDOWS } from '../admit/plan.ts';

const rule = `must be a whole number from 0 to ${MAX_LIMIT}`;
const limit = z.int(rule).min(0, rule).max(MAX_LIMIT, rule).optional().describe('Requests that one window admits.');

/** The limits of a route without a key, for each client address. */
export const addressLimits = z
  .strictObject({ second: limit, minute: limit, hour: limit, day: limit })
  .refine(
    (limits) => Object.keys(limits).length > 0,
    `is empty; give a limit for at least one of ${WINDOWS.join(', ')}`,
  )
  .meta({ minProperties: 1 });
