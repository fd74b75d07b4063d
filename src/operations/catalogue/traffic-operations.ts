import { z } from 'zod';
import { wholeNumber } from '../../model/values.ts';
import { flag, textRule } from '../operation-values.ts';
import {
  RANGES,
  spanBefore,
  TRAFFIC_BY,
  TRAFFIC_STEPS,
  trafficIn,
  trafficReport,
  trafficSpan,
} from '../traffic/traffic-report.ts';
import { defineOperation } from './operation.ts';

const NAMES = Object.keys(RANGES) as [keyof typeof RANGES];

export const showTrafficHistory = defineOperation({
  name: 'showTrafficHistory',
  line: 'GET /traffic/history',
  role: 'viewer',
  sentence: 'Requests, errors and latency of all gateways over time.',
  description:
    'By minute (of the last 48 hours), hour or day (of the last 92 days, UTC). Each gateway adds a minute to the store when it is over, so the ' +
    'latest minute may be unknown for some seconds. A step of which no gateway has reported anything is unknown, which is not zero. A day counts up to 300 ' +
    'routes, plans, customers and upstreams by name: the first of each kind, and in each minute and hour those with the most requests. All ' +
    'further ones are counted together as others.',
  on: 'store',
  input: z.strictObject({
    by: z
      .enum(TRAFFIC_BY, `must be one of ${TRAFFIC_BY.join(', ')}`)
      .default('route')
      .describe('What the series are: route, plan, customer, upstream or status.'),
    range: z
      .enum(NAMES, `must be one of ${NAMES.join(', ')}`)
      .default('1h')
      .describe('How long the span is: 1h, 24h, 7d or 30d. `from` takes precedence.'),
    from: z
      .string(textRule)
      .optional()
      .describe(
        'The beginning of a span of your own: a duration before now such as 6h, a date (midnight UTC) or an RFC 3339 time.',
      ),
    to: z.string(textRule).optional().describe('In the same form; the present unless given.'),
    step: z
      .enum(TRAFFIC_STEPS, 'must be minute, hour or day')
      .optional()
      .describe('minute for a span of up to 3 hours, hour up to 8 days, day for a longer one, unless given.'),
    compare: flag.describe('Also gives the period of the same length before.'),
    top: wholeNumber(1, 50)
      .default(10)
      .describe('How many values have a series of their own; the rest is one of others.'),
  }),
  output: trafficReport,
  readsMuch: true,
  async run({ traffic, keepsTraffic, nowMs }, { by, compare, top, ...asked }) {
    const span = trafficSpan(asked, nowMs());
    const period = await trafficIn(traffic, span, by, top);
    const before = compare ? await trafficIn(traffic, spanBefore(span), by, top) : null;
    return { output: { by, step: span.step, period, before, isKept: keepsTraffic() } };
  },
});
