import { expect, test } from 'vitest';
import { plainAllowance } from '../../src/admit/allowance.ts';
import type { Caller } from '../../src/gateway/exchange.ts';
import type { GatewayDeps } from '../../src/gateway/gateway-deps.ts';
import { policyCallerOf } from '../../src/gateway/policy-request.ts';
import { FieldBlock } from '../../src/http1/field-block.ts';
import type { Head } from '../../src/http1/request-head.ts';

const NOTHING_MORE = { scopes: [], onlyFrom: null, meta: {} };

test('a policy sees id, name and owner of the customer of a caller, and nothing else of its record', () => {
  const customer = { id: 'cus_1', name: 'Acme', owner: 'ann', plan: 'pro', limits: { minute: 9 }, ...NOTHING_MORE };
  const consumer = { id: 'key_1', name: 'web', owner: null, plan: 'pro', limits: {}, customer, ...NOTHING_MORE };
  const caller: Caller = {
    id: 'cus_1/key_1',
    shareId: 'cus_1',
    allowance: plainAllowance('pro'),
    consumer,
    tokenExpiresAtMs: null,
    secret: null,
    isSuspended: false,
  };
  const head = { fields: new FieldBlock([]) } as Pick<Head, 'fields'> as Head;
  const seen = policyCallerOf({ keySources: null } as GatewayDeps, head, caller);
  expect(seen).toEqual({
    ...{ id: 'key_1', name: 'web', owner: null, plan: 'pro', claims: null, scopes: [], metadata: {} },
    customer: { id: 'cus_1', name: 'Acme', owner: 'ann' },
  });
  expect([seen, seen.customer].every(Object.isFrozen)).toBe(true);
});
