import { expect, test } from 'vitest';
import { USAGE_FORMATS } from '../../src/cli/usage-formats.ts';
import type { UsageRecord } from '../../src/operations/usage-history.ts';

const RECORD: Omit<UsageRecord, 'customer'> = {
  ...{ id: 'cus_1/key_1%tokens/2026-11-22T05:00:00Z', consumer: 'key_1', name: 'shop', owner: null, plan: 'pro' },
  ...{ step: 'hour', at: '2026-11-22T05:00:00Z', admitted: 42, refused: 0, banned: 0 },
};

// What OpenMeter asks of an event: the attributes of CloudEvents 1.0, the customer as subject, and one id for one event.
test.each([
  ['of a customer, in a unit', { customer: 'cus_1', unit: 'tokens' }, 'cus_1', 'tokens'],
  ['of a key by itself, in requests', { customer: null }, 'key_1', 'requests'],
])('a record %s is a CloudEvent for who pays, within the time that it counts', (_, own, subject, unit) => {
  const line = USAGE_FORMATS.cloudevents!.line({ ...RECORD, ...own }, null as never);
  expect(line).toMatch(/^\{.*\}\n$/);
  expect(JSON.parse(line)).toEqual({
    specversion: '1.0',
    id: RECORD.id,
    source: 'tollgate',
    type: 'tollgate.usage',
    subject,
    time: '2026-11-22T05:59:59.999Z',
    datacontenttype: 'application/json',
    data: { ...RECORD, ...own, unit },
  });
});
