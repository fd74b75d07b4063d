import { expect, test } from 'vitest';
import type { z } from 'zod';
import { parsePlans } from '../../../src/config/plans-schema.ts';
import { showPlans } from '../../../src/operations/catalogue/plan-operations.ts';

const PLANS = `
plans:
  team:
    limits: { minute: 600 }
    each-key: { minute: { limit: 300, window: sliding }, in-flight: 5 }
    groups: { search: { routes: [/v1/search/**], limits: { minute: 10 }, instead: true } }
    in-flight: 20
    bans: { of: customer }
`;

test('the plans in force have groups, bounds of each key and of requests in flight, in the form that is described', async () => {
  const parsed = parsePlans(PLANS, 'plans.yaml');
  if ('faults' in parsed) throw new Error(parsed.faults[0]!.message);
  const versions = () => ({ settings: '0123456789ab', plans: '0123456789ab' });
  const context = { plans: () => parsed.value, versions } as never;
  const { output } = await showPlans.run(context, {} as never, {} as never);
  const shown = (showPlans.output as z.ZodType<typeof output>).parse(output);
  expect(shown.plans).toMatchObject([
    {
      windows: [{ window: 'minute', limit: 600, form: 'fixed', shadow: false }],
      eachKey: { inFlight: 5, windows: [{ window: 'minute', limit: 300, form: 'sliding, 12 slices' }] },
      groups: [
        { name: 'search', routes: ['/v1/search/**'], instead: true, windows: [{ window: 'minute', limit: 10 }] },
      ],
      inFlight: 20,
      bansOfCustomer: true,
    },
  ]);
});
