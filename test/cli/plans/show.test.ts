import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runTollgate, temporaryFolder } from '../../support/processes.ts';

const PLANS = `
plans:
  free: { limits: { minute: 60 }, shadow: { minute: 30 } }
  trial: { limits: { day: 10 }, enforce: false, bans: off }
  exact:
    limits:
      minute: { limit: 60, window: sliding }
      day: { limit: 900, align: calendar, zone: Europe/Berlin }
      week: unlimited
      month: { limit: 9000, anchor: 15 }
    shadow: { minute: { limit: 50, window: sliding, slices: 30 }, month: 8000 }
    bans: off
  team:
    limits: { minute: 600 }
    each-key: { minute: { limit: 300, window: sliding }, in-flight: 5, units: { tokens: { day: 500 } } }
    units: { tokens: { minute: 1000, month: 50000 } }
    groups:
      search: { routes: ["/v1/search/**", "POST /v1/find"], limits: { minute: 10, day: 50 }, units: { tokens: { day: 90 } } }
      reports: { routes: [/v1/reports], limits: { day: 5 }, instead: true }
    in-flight: 20
    bans: { of: customer }
failed-authentication: { minute: 7 }
`;

test('`plans show` prints the plans that a gateway would have, as a table and as JSON', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'plans.yaml'), PLANS);
  const env = { TOLLGATE_PLANS: join(folder, 'plans.yaml') };
  const table = await runTollgate(['plans', 'show'], { env });
  expect(table.code).toBe(0);
  expect(table.stdout).toContain(
    'free\t\t60\t\t\t\t\tafter 10 within 1 min: 1 min x 2, at most 1 d\tminute 30\t\t\t\n',
  );
  expect(table.stdout).toContain('trial\t\t\t\t10\t\t\toff\tall\t\t\t\n');
  expect(table.stdout).toContain(
    'exact\t\t60 (sliding, 12 slices)\t\t900 (calendar, Europe/Berlin)\tunlimited\t9000 (calendar, UTC, from day 15)\t' +
      'off\tminute 50 (sliding, 30 slices), month 8000 (calendar, UTC)\t\t\t\n',
  );
  expect(table.stdout).toContain(
    'team\t\t600\t\t\t\t\tof the customer, after 10 within 1 min: 1 min x 2, at most 1 d\t\t' +
      'minute 300 (sliding, 12 slices), 5 in flight, tokens-day 500\tsearch, reports\t20\n',
  );
  expect(table.stdout).toContain(
    'unit tokens of team: minute 1000, month 50000 (calendar, UTC)\ngroup search of team: minute 10, day 50, tokens-day 90 on /v1/search/**, POST /v1/find\ngroup reports of team: day 5 instead, on /v1/reports\n',
  );
  const { stdout } = await runTollgate(['plans', 'show', '--json'], { env });
  expect(JSON.parse(stdout)).toMatchObject({
    versions: { plans: expect.stringMatching(/^[0-9a-f]{12}$/) },
    failedAuthentication: { minute: 7 },
    plans: [
      { name: 'free', limits: { minute: 60 }, enforce: true, shadow: { minute: 30 } },
      { name: 'trial', limits: { day: 10 }, enforce: false, bans: null },
      {
        name: 'exact',
        limits: { minute: 60, day: 900, week: 'unlimited', month: 9000 },
        forms: {
          minute: { slices: 12 },
          day: { calendar: { unit: 'day', zone: 'Europe/Berlin', anchor: 1 } },
          month: { calendar: { unit: 'month', zone: 'UTC', anchor: 15 } },
        },
        shadow: { minute: 50, month: 8000 },
        shadowForms: { minute: { slices: 30 } },
      },
      {
        name: 'team',
        eachKey: { limits: { minute: 300 }, forms: { minute: { slices: 12 } }, inFlight: 5 },
        groups: [
          {
            name: 'search',
            routes: ['/v1/search/**', 'POST /v1/find'],
            limits: { minute: 10, day: 50 },
            instead: false,
          },
          { name: 'reports', instead: true },
        ],
        inFlight: 20,
        bansOfCustomer: true,
      },
    ],
  });
});
