import { z } from 'zod';
import { nearest } from '../../config/yaml.ts';
import { Failure } from '../../failure.ts';
import { purgeText } from '../../forward/cache/response-cache.ts';
import { visible } from '../operation-values.ts';
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
  fails: { not_found: 'gateway.yaml has no such route, or the route has no `cache`.' },
  async run({ cachePurges, cachedPatterns }, { route = null, path = null, reason }) {
    if (route !== null) insistOnCache(route, cachedPatterns());
    const purge = { route, path };
    await cachePurges.announce(purgeText(purge));
    const after = reason === undefined ? purge : { ...purge, reason };
    return { output: purge, change: { target: null, before: null, after } };
  },
});

const MAX_NAMED = 10;

/** @throws Failure `not_found` if no route with this pattern keeps responses */
function insistOnCache(route: string, patterns: ReadonlyMap<string, boolean>): void {
  const isCached = patterns.get(route);
  if (isCached === true) return;
  const cached = [...patterns].flatMap(([pattern, keeps]) => (keeps ? [pattern] : []));
  const near = nearest(route, cached) ?? cached.find((pattern) => pattern.startsWith(route)) ?? null;
  const named = cached.slice(0, MAX_NAMED).join(', ');
  const others = cached.length > MAX_NAMED ? ` and ${cached.length - MAX_NAMED} more` : '';
  const all = cached.length === 0 ? 'No route has `cache`.' : `Routes with \`cache\`: ${named}${others}.`;
  const hint = near === null ? all : `Did you mean ${near}? ${all}`;
  const wrong =
    isCached === false
      ? `The route ${visible(route)} of gateway.yaml has no \`cache\``
      : `gateway.yaml has no route ${visible(route)}`;
  throw new Failure('not_found', `${wrong}, so nothing was removed. ${hint}`);
}
