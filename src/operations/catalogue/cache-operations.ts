import { z } from 'zod';
import { purgeText } from '../../forward/cache/response-cache.ts';
import { reason } from '../suspensions.ts';
import { defineOperation } from './operation.ts';

// The responses that gateways keep in memory.

/** Longer paths than a purge can name are purged by their route. */
const MAX_PATH = 1_024;
const pathRule = `must be a path such as /v1/pets, without a query and of at most ${MAX_PATH} characters`;
const path = z
  .string(pathRule)
  .regex(/^\/[^?#\s]*$/, pathRule)
  .max(MAX_PATH, pathRule);

export const purgeCache = defineOperation({
  name: 'purgeCache',
  command: ['cache purge', 'Remove stored responses'],
  line: 'POST /cache/purges',
  role: 'operator',
  sentence: 'Removes stored responses of routes with `cache` from the memory of every gateway, within a second.',
  description:
    'Gateways that cannot be reached at that moment empty their whole cache when they are connected to the store again. What is on its way from ' +
    'the service at that moment is not stored either.',
  on: 'store',
  needsNoPlans: true,
  keepsNothing: true,
  action: 'cache.purge',
  input: z.strictObject({
    route: path.optional().describe('The pattern of the route, as `path` in gateway.yaml. Left out, of all routes.'),
    path: path
      .optional()
      .describe(
        'The path that the service gets, without its query: what is stored for all queries goes. Left out, all paths.',
      ),
    reason: reason
      .optional()
      .describe('Why: one line of up to 200 characters for operators, in the record of changes.'),
  }),
  output: z.strictObject({
    route: z.string().nullable().describe('Null: of all routes.'),
    path: z.string().nullable().describe('Null: all paths.'),
  }),
  async run({ cachePurges }, { route = null, path = null, reason }) {
    const purge = { route, path };
    await cachePurges.announce(purgeText(purge));
    const after = reason === undefined ? purge : { ...purge, reason };
    return { output: purge, change: { target: null, before: null, after } };
  },
});
