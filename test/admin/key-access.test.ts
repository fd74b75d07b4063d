import { beforeAll, expect, test } from 'vitest';
import type { TestGateway } from '../support/gateway.ts';
import { ask, STORES, startWithAdmin } from './operator.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startWithAdmin(await STORES['the embedded store']!());
});

interface Member {
  readonly name: string;
  readonly given: unknown;
  readonly faults: readonly (readonly [unknown, RegExp])[];
}

const MEMBERS: readonly Member[] = [
  {
    name: 'scopes',
    given: ['orders:read', 'orders:write'],
    faults: [
      [['a b'], /^scopes\.0 must be 1 to 128 visible characters/],
      [['ok', 7], /^scopes\.1 must be/],
      ['orders:read', /^scopes must be a list of at most 32 scopes/],
      [Array.from({ length: 33 }, (_, i) => `s${i}`), /at most 32/],
    ],
  },
  {
    name: 'addresses',
    given: ['192.0.2.7', '2001:db8::/32'],
    faults: [
      [['a'], /^addresses\.0 must be an IP address or network/],
      [['10.0.0.1/8'], /10\.0\.0\.0\/8/],
      [Array.from({ length: 65 }, (_, i) => `10.0.0.${i}`), /^addresses must be a list of at most 64/],
    ],
  },
  {
    name: 'origins',
    given: ['https://app.example.com', 'https://*.example.com'],
    faults: [
      [['*'], /^origins\.0 must be an origin/],
      ['https://app.example.com', /^origins must be a list of at most 32/],
    ],
  },
];

test.each(MEMBERS)(
  '$name of a key: made, changed under If-Match, recorded, and removed with null or nothing',
  async ({ name, given }) => {
    const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free', [name]: given });
    expect([made.status, made.body[name]]).toEqual([201, given]);
    const path = `/admin/keys/${made.body.id}`;
    const before = (await ask(gateway, 'GET', path)).headers.get('etag')!;
    const removed = await ask(gateway, 'PATCH', path, { [name]: null }, { 'If-Match': before });
    expect([removed.status, name in removed.body]).toEqual([200, false]);
    // The change is a change to whoever had read the key before.
    expect((await ask(gateway, 'PATCH', path, { [name]: given }, { 'If-Match': before })).status).toBe(412);
    expect((await ask(gateway, 'PATCH', path, { [name]: given })).body[name]).toEqual(given);
    const empty = Array.isArray(given) ? [] : null;
    expect((await ask(gateway, 'PATCH', path, { [name]: empty })).body).not.toHaveProperty(name);
    const { body } = await ask(gateway, 'GET', `/admin/audit?key=${made.body.id}`);
    expect(body.changes.find(({ action }: { action: string }) => action === 'key.create')).toMatchObject({
      after: { [name]: given },
    });
  },
);

test.each(MEMBERS)('$name of a key: what is wrong is a 400 that says what is allowed', async ({ name, faults }) => {
  for (const [value, message] of faults) {
    const told = await ask(gateway, 'POST', '/admin/keys', { plan: 'free', [name]: value });
    expect([told.status, told.body.message]).toEqual([400, expect.stringMatching(message)]);
  }
});
