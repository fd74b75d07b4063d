import { describe, expect, test } from 'vitest';
import { ENDPOINTS } from '../../src/admin/endpoints.ts';
import type { RefusalCode } from '../../src/admin/response.ts';
import { DURABLE, type FinalDurability } from '../../src/admit/ledger.ts';
import { Failure } from '../../src/failure.ts';
import type { StoredKey } from '../../src/model/record.ts';
import { lineOf } from '../../src/operations/catalogue/input.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { eventually } from '../support/conditions.ts';
import { adminApiWith } from './in-process.ts';
import { TOKEN } from './operator.ts';

const VIEWER = 'the-token-of-a-viewer-1';

/** A store that does what it is asked, and whose answer is lost. */
class SilentStore extends FakeStore {
  isSilent = false;
  override async create(key: StoredKey) {
    const durability = await super.create(key);
    this.#lose();
    return durability;
  }
  override async update(id: string, change: (key: StoredKey) => StoredKey) {
    if (!this.keys.has(id)) return null as never;
    const next = await super.update(id, change);
    this.#lose();
    return next;
  }
  #lose() {
    if (this.isSilent) throw new Failure('store_unavailable', 'no answer');
  }
}

const api = async () => {
  const keys = new SilentStore();
  return { keys, ...(await adminApiWith(keys)) };
};

test('a change that is refused is an audit line that says why, and changes nothing', async () => {
  const { it, lines } = await api();
  const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  await it('POST', '/admin/keys', { plan: 'gold' });
  await it('PATCH', `/admin/keys/${id}`, { name: 'n' }, { 'If-Match': '"x"' });
  await it('DELETE', '/admin/keys/none');
  await it('DELETE', '/admin/bans/none');
  await it('DELETE', `/admin/keys/${id}`);
  await it('POST', `/admin/keys/${id}/rotate`);
  await it('GET', '/admin/keys/none');
  const told = lines.map(({ action, outcome, code, id: of }) => [action, outcome, code, of]);
  expect(told).toEqual([
    ['key.create', 'done', null, id],
    ['key.create', 'refused', 'invalid_request', null],
    ['key.update', 'refused', 'precondition_failed', id],
    // What is no id may be a secret.
    ['key.revoke', 'refused', 'not_found', null],
    ['ban.lift', 'refused', 'not_found', null],
    ['key.revoke', 'done', null, id],
    ['key.rotate', 'refused', 'conflict', id],
  ]);
  for (const line of lines.filter(({ outcome }) => outcome === 'refused')) {
    expect(line).toMatchObject({ msg: 'audit', who: 'admin', clientAddress: '127.0.0.1', before: null, after: null });
  }
});

test('a change whose answer the store did not give is an audit line, because it may have been made', async () => {
  const { it, keys, lines } = await api();
  const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  keys.isSilent = true;
  expect((await it('DELETE', `/admin/keys/${id}`)).status).toBe(503);
  expect(keys.keys.get(id)!.revokedAtMs).not.toBeNull();
  expect(lines.at(-1)).toMatchObject({ action: 'key.revoke', outcome: 'unknown', code: 'store_unavailable', id });
  // A key that was made all the same is told with its id when it is asked for again.
  const header = { 'Idempotency-Key': 'k' };
  expect((await it('POST', '/admin/keys', { plan: 'free' }, header)).status).toBe(503);
  expect(lines.at(-1)).toMatchObject({ action: 'key.create', outcome: 'unknown', id: null });
  keys.isSilent = false;
  const made = await it('POST', '/admin/keys', { plan: 'free' }, header);
  expect(made.status).toBe(201);
  expect(lines.at(-1)).toMatchObject({ action: 'key.create', outcome: 'repeated', id: made.body.id });
});

test('a change that a failover may undo is answered with 202 and told twice: that it is unknown, and how it ended', async () => {
  const { it, keys, lines } = await api();
  const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  for (const [ended, outcome] of [
    ['durable', 'done'],
    ['superseded', 'lost'],
    ['given_up', 'unknown'],
  ] as const) {
    const { promise: final, resolve } = Promise.withResolvers<FinalDurability>();
    keys.durability = { kind: 'unknown', final };
    const told = await it('PATCH', `/admin/keys/${id}`, { name: ended });
    expect([told.status, told.body]).toMatchObject([202, { id, name: ended, durability: 'unknown' }]);
    expect(lines.at(-1)).toMatchObject({
      action: 'key.update',
      outcome: 'unknown',
      code: null,
      after: { name: ended },
    });
    const before = lines.length;
    resolve(ended);
    await eventually(() => expect(lines).toHaveLength(before + 1));
    expect(lines.at(-1)).toEqual({ ...lines.at(-2), outcome, time: expect.anything() });
  }
});

test('a key whose creation a failover may undo is answered with its secret, and asked for again until that is known', async () => {
  const { it, keys } = await api();
  keys.durability = { kind: 'unknown', final: new Promise(() => {}) };
  const create = () => it('POST', '/admin/keys', { plan: 'free' }, { 'Idempotency-Key': 'k' });
  const [first, second] = [await create(), await create()];
  expect([first.status, second.status]).toEqual([202, 202]);
  expect(first.body).toMatchObject({ key: expect.stringMatching(/^tg_live_/), durability: 'unknown' });
  expect(second.body).toEqual(first.body);
  keys.durability = DURABLE;
  const third = await create();
  expect([third.status, third.body.key, 'durability' in third.body]).toEqual([201, first.body.key, false]);
});

test('a wrong admin token is an audit line until the address is no longer listened to, and the token stands nowhere', async () => {
  const { it, lines } = await api();
  for (let i = 0; i < 15; i++) {
    await it('DELETE', '/admin/keys/some', undefined, { Authorization: 'Bearer wrongtoken', 'X-Request-Id': 'r' });
  }
  const line = {
    action: 'admin.access',
    outcome: 'refused',
    code: 'invalid_admin_token',
    who: 'stranger',
    requestId: 'r',
  };
  expect(lines).toEqual(Array(10).fill(expect.objectContaining({ ...line, clientAddress: '127.0.0.1', id: null })));
  expect(JSON.stringify(lines)).not.toContain('wrongtoken');
});

/** How each error refuses a change of somebody who is identified, or why it does not. The types demand an entry for each code. */
const REFUSALS: Readonly<Record<RefusalCode, readonly Refused[] | string>> = {
  invalid_request: [
    { method: 'PATCH', path: '/admin/keys/ID', body: '{"limits":', action: 'key.update' },
    { method: 'POST', path: '/admin/keys', body: { plan: 'none' }, action: 'key.create' },
    { method: 'DELETE', path: '/admin/keys/ID', fields: { 'If-Match': 'x' }, action: 'key.revoke' },
    { method: 'DELETE', path: '/admin/session?all=1', action: 'admin.access' },
  ],
  missing_admin_token: 'Nobody is identified.',
  invalid_admin_token: 'Nobody is identified: the line of a stranger, and no record.',
  forbidden: ENDPOINTS.flatMap((endpoint) => {
    if (!('run' in endpoint) || endpoint.action === undefined) return [];
    const { method, path } = lineOf(endpoint.line);
    const fields = { Authorization: `Bearer ${VIEWER}` };
    return [{ method, action: endpoint.action, path: `/admin${path.replace('{id}', 'ID')}`, fields }];
  }),
  cross_origin: [
    { method: 'DELETE', path: '/admin/keys/ID', cookie: { 'Sec-Fetch-Site': 'cross-site' }, action: 'key.revoke' },
    { method: 'POST', path: '/admin/keys/ID/rotate', cookie: { 'Sec-Fetch-Site': 'same-site' }, action: 'key.rotate' },
    {
      ...{ method: 'POST', path: '/admin/keys', body: 'plan=free', action: 'key.create' },
      cookie: { 'Sec-Fetch-Site': 'same-origin', 'Content-Type': 'application/x-www-form-urlencoded' },
    },
  ],
  not_found: [
    { method: 'DELETE', path: '/admin/nothing', action: 'admin.access' },
    { method: 'DELETE', path: '/admin/keys/none', action: 'key.revoke' },
  ],
  method_not_allowed: [
    { method: 'PUT', path: '/admin/keys', action: 'admin.access' },
    { method: 'DELETE', path: '/admin/now', action: 'admin.access' },
    { method: 'POST', path: '/admin/openapi.json', action: 'admin.access' },
    { method: 'PATCH', path: '/admin/session', action: 'admin.access' },
  ],
  request_timeout: 'Only of a sign-in.',
  conflict: [{ method: 'POST', path: '/admin/keys/REVOKED/rotate', action: 'key.rotate' }],
  precondition_failed: [
    { method: 'DELETE', path: '/admin/keys/ID', fields: { 'If-Match': '"x"' }, action: 'key.revoke' },
  ],
  payload_too_large: [
    { method: 'PATCH', path: '/admin/keys/ID', body: `"${'x'.repeat(70_000)}"`, action: 'key.update' },
  ],
  unsupported_media_type: [
    {
      ...{ method: 'POST', path: '/admin/keys', body: { plan: 'free' }, action: 'key.create' },
      fields: { 'Content-Type': 'text/plain' },
    },
  ],
  idempotency_key_reused: [
    {
      ...{ method: 'POST', path: '/admin/keys', body: { plan: 'small' }, action: 'key.create' },
      fields: { 'Idempotency-Key': 'used' },
    },
  ],
  invalid_plans: 'Of plans.yaml, as precondition_required: see plans-file.',
  precondition_required: 'Of plans.yaml, which this API may not write: forbidden.',
  too_costly: 'Only of questions.',
  too_many_failed_attempts: 'Nobody is identified, or a secret was looked up.',
  too_many_streams: 'Only of streams.',
  internal_error: 'The outcome is unknown.',
  store_corrupt: 'Nothing of this gateway can be damaged from outside: see unreadable-records.',
  audit_unavailable: 'Nothing can be recorded: a line alone.',
  identity_unavailable: 'Nobody is identified.',
  busy: 'No way to fill all places here. It passes through the same function as the others.',
  store_unavailable: 'The outcome is unknown.',
};

interface Refused {
  readonly method: string;
  readonly path: string;
  readonly action: string;
  readonly body?: unknown;
  readonly fields?: Readonly<Record<string, string>>;
  /** Fields that come with the cookie of a session instead of a token. */
  readonly cookie?: Readonly<Record<string, string>>;
}

describe('every refusal of a change is a line, and counted in the record (reliability 237)', () => {
  const all = Object.entries(REFUSALS).flatMap(([code, them]) =>
    typeof them === 'string' ? [] : them.map((one) => ({ code, ...one })),
  );

  test.each(all)('$code: $method $path', async ({ code, method, path, action, body, fields = {}, cookie }) => {
    const { it, lines, audit } = await adminApiWith(new SilentStore(), { tokens: [{ name: 'vera', token: VIEWER }] });
    const { id } = (await it('POST', '/admin/keys', { plan: 'free' }, { 'Idempotency-Key': 'used' })).body;
    const revoked = (await it('POST', '/admin/keys', { plan: 'free' })).body.id;
    await it('DELETE', `/admin/keys/${revoked}`);
    const session = await it('POST', '/admin/session', { token: TOKEN }, { Authorization: '' });
    const secret = session.headers.get('set-cookie')!.split(';')[0]!;
    const before = { lines: lines.length, kept: audit.kept.length };
    const sent = cookie === undefined ? fields : { ...cookie, Cookie: secret, Authorization: '' };
    const at = path.replace('ID', id).replace('REVOKED', revoked);
    const told = await it(method, at, body, sent);
    expect(told.body.code).toBe(code);
    const actor = 'Authorization' in fields ? 'vera' : 'ADMIN_TOKEN';
    expect(lines.slice(before.lines)).toMatchObject([{ action, outcome: 'refused', code, who: 'admin', actor }]);
    expect([...audit.refused.values()].map(({ count, text }) => [count, JSON.parse(text)])).toMatchObject([
      [1, { action, outcome: 'refused', code, actor: { kind: 'token', name: actor }, clientAddress: '127.0.0.1' }],
    ]);
    // No record of a change that was made has gone, and none has come.
    expect(audit.kept).toHaveLength(before.kept);
  });

  test('of questions, reads and preflights nothing is recorded', async () => {
    const { it, lines, audit } = await api();
    await it('GET', '/admin/keys/none');
    await it('OPTIONS', '/admin/keys');
    await it('POST', '/admin/plans/check', '{');
    expect([lines, audit.refused.size, audit.kept]).toEqual([[], 0, []]);
  });
});

test('each operation that may change something has its name in the audit', () => {
  const reads = ['checkPlans', 'diffPlans', 'simulatePlans', 'editPlans', 'findKey'];
  for (const endpoint of ENDPOINTS) {
    const changes = lineOf(endpoint.line).method !== 'GET' && !reads.includes(endpoint.name);
    expect([endpoint.name, 'run' in endpoint && endpoint.action !== undefined]).toEqual([endpoint.name, changes]);
  }
});
