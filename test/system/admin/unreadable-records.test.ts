import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { followEvents } from '../../admin/event-reader.ts';
import { ask, openWithAdmin, STORES, startWithAdmin } from '../../admin/operator.ts';
import { DAMAGES } from '../../contracts/unreadable-records.ts';
import { eventually } from '../../support/conditions.ts';
import {
  damageCounts,
  damageLatestChange,
  damageLatestPlans,
  damageRecord,
  damageRefusals,
  forgetChanges,
} from '../../support/damaged-record.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { entriesOf, runCommand } from '../../support/run-command.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

// What operators see of a record that the store has and cannot read, through each face.

const PLANS = `
plans:
  free: { limits: { minute: 60, day: 1000 } }
  gone: { limits: { minute: 60 } }
  strict: { limits: { hour: 1 }, bans: { after: 1, first: 1h } }
`;
const ROUTES = `
  - { path: /v1/pets, methods: [GET], upstream: store, deprecated: { since: 2020-01-01, sunset: 2090-01-01 } }
`;

describe.each(Object.entries(STORES))('on %s', (_, emptyStore) => {
  let gateway: TestGateway;
  let good: string;
  let banned: { readonly id: string; readonly key: string };
  let customer: string;
  let ofCustomer: string;
  const undo: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    gateway = await startWithAdmin(await emptyStore(), {
      plans: PLANS,
      routes: ROUTES,
      more: 'usage: { history: on }',
    });
    good = (await admin('POST', '/keys', { plan: 'free', name: 'good' })).body.id;
    banned = (await admin('POST', '/keys', { plan: 'strict', name: 'banned' })).body;
    customer = (await admin('POST', '/customers', { plan: 'free', name: 'Acme' })).body.id;
    ofCustomer = (await admin('POST', '/keys', { customer, name: 'shop' })).body.id;
    await admin('POST', '/customers', { plan: 'free', name: 'Zoo' });
    await eventually(async () => {
      await gateway.get('/v1/pets', banned.key);
      expect((await admin('GET', '/bans')).body.bans).toMatchObject([{ id: banned.id }]);
      expect((await admin('GET', '/deprecations')).body.deprecations[0].callers).toMatchObject([{ id: banned.id }]);
    });
  });
  afterEach(async () => {
    for (const one of undo.splice(0)) await one();
  });
  const admin = (method: string, path: string, body?: unknown) => ask(gateway, method, `/admin${path}`, body);
  const run = (...words: string[]) => runCommand({ ...gateway.env, BACKUP_PASSPHRASE: 'a long passphrase' }, ...words);
  const damage = async (id: string, how = 'cut off') => undo.push(await damageRecord(gateway.env, id, DAMAGES[how]!));
  const idsOf = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id);

  test.each(Object.keys(DAMAGES))(
    'no list fails of a key that is %s, and each has it (reliability 362, 447)',
    async (how) => {
      await damage(banned.id, how);
      const keys = await admin('GET', '/keys');
      expect([keys.status, idsOf(keys.body.keys)]).toEqual([200, [good, ofCustomer]]);
      expect(keys.body.unreadable).toEqual([{ id: banned.id, reason: expect.stringContaining(banned.id) }]);
      expect((await admin('GET', `/keys?q=${banned.id}`)).body.unreadable).toMatchObject([{ id: banned.id }]);
      expect((await admin('GET', '/bans')).body.bans).toMatchObject([{ id: banned.id }]);
      const now = (await admin('GET', '/now?scan=true')).body.consumers;
      expect(now).toMatchObject([{ id: banned.id, name: null, state: 'banned', unreadable: expect.any(String) }]);
      for (const path of ['/customers', '/near', '/deprecations', '/audit', `/customers/${customer}`]) {
        expect([path, (await admin('GET', path)).status]).toEqual([path, 200]);
      }
      const one = await admin('GET', `/keys/${banned.id}`);
      expect([one.status, one.body.code]).toEqual([500, 'store_corrupt']);
      expect(one.body.message).toContain(`The record of ${banned.id} cannot be read`);
      const refused = await admin('PATCH', `/keys/${banned.id}`, { name: 'x' });
      expect([refused.status, refused.body.code]).toEqual([500, 'store_corrupt']);
      const [listed] = (await admin('GET', '/audit')).body.changes;
      expect(listed).toMatchObject({ action: 'key.update', outcome: 'refused', code: 'store_corrupt' });
    },
  );

  test.each(Object.keys(DAMAGES))(
    'no list fails of a customer that is %s, each has it, and the plan of its keys is unknown (reliability 362, 322)',
    async (how) => {
      await damage(customer, how);
      const keys = (await admin('GET', '/keys')).body.keys;
      expect(keys.find(({ id }: { id: string }) => id === ofCustomer).customer).toEqual({
        ...{ id: customer, name: null, state: 'unreadable' },
      });
      // The plan in the record of the key may be an older one of its customer.
      const unknown = { plan: null, unreadable: expect.stringContaining(`The record of ${customer} cannot be read`) };
      expect(keys.find(({ id }: { id: string }) => id === ofCustomer)).toMatchObject(unknown);
      expect((await admin('GET', `/keys/${ofCustomer}`)).body).toMatchObject(unknown);
      expect(JSON.parse((await run('keys', 'show', ofCustomer, '--json')).stdout)).toMatchObject(unknown);
      const [listed] = entriesOf((await run('keys', 'list', 'shop', '--json')).stdout);
      expect(listed).toMatchObject(unknown);
      expect((await run('keys', 'show', ofCustomer)).stdout).toMatch(
        /^plan +unknown\. The record of cus_\w+ cannot be read/m,
      );
      expect((await run('keys', 'list', 'shop')).stdout).toMatch(new RegExp(`^${ofCustomer}\t\\S+\tunknown\t`, 'm'));
      const customers = await admin('GET', '/customers');
      expect([customers.status, customers.body.customers.length]).toEqual([200, 1]);
      expect(customers.body.unreadable).toMatchObject([{ id: customer }]);
      for (const path of ['/keys?plan=free', '/now', '/bans', '/near', '/deprecations', `/keys/${ofCustomer}`]) {
        expect([path, (await admin('GET', path)).status]).toEqual([path, 200]);
      }
      const one = await admin('GET', `/customers/${customer}`);
      expect([one.status, one.body.code]).toEqual([500, 'store_corrupt']);
      expect((await admin('POST', '/keys', { customer })).body.code).toBe('store_corrupt');
    },
  );

  test.each(['cut off', 'of another type'])(
    'each list of commands has a key and a customer that are %s',
    async (how) => {
      for (const id of [banned.id, customer]) await damage(id, how);
      const list = await run('keys', 'list', '--json');
      expect([list.code, list.stderr]).toEqual([0, '']);
      const reason = expect.stringContaining(banned.id);
      expect(JSON.parse(list.stdout).unreadable).toEqual([{ id: banned.id, reason }]);
      const table = await run('keys', 'list');
      expect(table.stdout).toMatch(new RegExp(`${banned.id}\\s.*\\sunreadable`));
      expect((await run('customers', 'list')).stdout).toMatch(new RegExp(`${customer}\\s.*\\sunreadable`));
      for (const words of [['bans', 'list'], ['now'], ['deprecations']]) {
        const { code, stdout, stderr } = await run(...words);
        expect([words, code, stderr]).toEqual([words, 0, '']);
        expect(stdout).toMatch(new RegExp(`${banned.id}.*unreadable`));
      }
      const shown = await run('keys', 'show', banned.id);
      expect([shown.code, shown.stderr]).toEqual([
        1,
        expect.stringContaining(`The record of ${banned.id} cannot be read`),
      ]);
      expect((await run('keys', 'show', ofCustomer)).code).toBe(0);
    },
  );

  test('the events of the screen Now have the callers near a limit that cannot be read (reliability 322)', async () => {
    const { id, key } = (await admin('POST', '/keys', { plan: 'free', name: 'close', limits: { day: 10 } })).body;
    for (let i = 0; i < 9; i++) await gateway.get('/v1/pets', key);
    const stream = await followEvents(gateway, '/admin/events/now');
    const last = () => stream.events.findLast(({ event }) => event === 'now')?.data;
    await eventually(() => expect(last()).toMatchObject({ near: [{ id }], nearUnreadable: [] }));
    await damage(id);
    const reason = expect.stringContaining(`The record of ${id} cannot be read`);
    await eventually(() => expect(last()).toMatchObject({ near: [], nearUnreadable: [{ id, reason }] }));
    await damage(banned.id);
    await eventually(() => expect(last().refused).toMatchObject([{ id: banned.id, unreadable: expect.any(String) }]));
    stream.close();
    for (const one of undo.splice(0)) await one();
    await admin('DELETE', `/keys/${id}`);
    await admin('POST', `/keys/${id}/delete`);
  });

  test('a key leaves a customer that cannot be read if it is given a plan (reliability 322)', async () => {
    const { id } = (await admin('POST', '/keys', { customer, name: 'leaves' })).body;
    await damage(customer);
    expect((await admin('POST', `/keys/${id}/move`, { customer: null })).body.code).toBe('store_corrupt');
    const moved = await admin('POST', `/keys/${id}/move`, { customer: null, plan: 'free' });
    expect([moved.status, moved.body.plan, moved.body.customer]).toEqual([200, 'free', undefined]);
    await admin('DELETE', `/keys/${id}`);
    await admin('POST', `/keys/${id}/delete`);
  });

  test('what claims to be complete says what it lacks, and exits with 1 (reliability 363)', async () => {
    const folder = await temporaryFolder();
    const whole = join(folder, 'whole');
    expect((await run('keys', 'backup', whole)).code).toBe(0);
    for (const id of [banned.id, customer]) await damage(id);
    const backup = await run('keys', 'backup', join(folder, 'part'), '--json');
    expect([backup.code, JSON.parse(backup.stdout)]).toMatchObject([
      1,
      { keys: 2, unreadable: [{ id: customer }, { id: banned.id }] },
    ]);
    expect(backup.stderr).toContain('2 records cannot be read and are not in');
    // A backup that has them is not replaced by one that lacks them.
    const before = await readFile(whole);
    const replacing = await run('keys', 'backup', whole, '--force');
    expect([replacing.code, replacing.stdout]).toEqual([1, '']);
    expect(replacing.stderr).toContain(`2 records cannot be read and would be missing in ${whole}`);
    expect(replacing.stderr).toContain(`${whole} stays as it is.`);
    expect((await readFile(whole)).equals(before)).toBe(true);
    const restored = await run('keys', 'restore', whole, '--force');
    expect([restored.code, restored.stdout]).toEqual([
      1,
      expect.stringContaining('1 left because its record here cannot be read'),
    ]);
    for (const id of [banned.id, customer]) expect(restored.stderr).toContain(`${id} was left as it is.`);
    const exported = await run('keys', 'export');
    expect([exported.code, exported.stdout.split('\n').length]).toEqual([1, 4]);
    expect(exported.stderr).toContain(`The record of ${banned.id} cannot be read`);
    const usage = await run('usage', 'export', '--from', '1d', '--to', '2100-01-01');
    expect([usage.code, usage.stderr]).toEqual([
      1,
      expect.stringContaining(`The record of ${banned.id} cannot be read`),
    ]);
    const doctor = await run('doctor', '--json');
    const records = JSON.parse(doctor.stdout).findings.find(({ check }: { check: string }) => check === 'records');
    expect([doctor.code, records]).toEqual([
      1,
      {
        check: 'records',
        state: 'fail',
        message: expect.stringMatching(new RegExp(`2 records.*${customer}, ${banned.id}`)),
      },
    ]);
    const plans = join(folder, 'plans.yaml');
    await writeFile(plans, await readFile(gateway.env.TOLLGATE_PLANS!, 'utf8'));
    expect(await run('plans', 'check', plans, '--against')).toMatchObject({
      ...{ code: 1, stderr: expect.stringContaining('2 records cannot be read') },
    });
  });

  test('an import reports the records that it meets and cannot read, and imports the rest (reliability 363)', async () => {
    const file = join(await temporaryFolder(), 'keys.csv');
    const line = (digit: string, of: string) => `${digit.repeat(64)},${digit},${of}`;
    const write = (...lines: string[]) => writeFile(file, `sha256,name,plan,customer\n${lines.join('\n')}\n`);
    await write(line('a', 'free,'), line('b', 'free,'));
    expect((await run('keys', 'import', file, '--json')).code).toBe(0);
    const keyOf = async (digit: string) =>
      (await admin('GET', '/keys')).body.keys.find(({ name }: { name: string | null }) => name === digit);
    const b = await keyOf('b');
    await damage(b.id);
    await damage(customer);
    await write(
      line('a', 'free,'),
      line('b', 'free,'),
      line('c', `,${customer}`),
      line('d', ',Acme'),
      line('e', 'free,'),
    );
    const { code, stdout, stderr } = await run('keys', 'import', file, '--json');
    const { lines, ...counts } = JSON.parse(stdout);
    expect([code, stderr]).toEqual([1, '']);
    expect(counts).toEqual({ moved: 1, unknown: 0, already: 1, refused: 3, dryRun: false });
    const why = (id: string) => expect.stringContaining(`The record of ${id} cannot be read`);
    expect(lines.filter(({ kind }: { kind: string }) => kind === 'refused')).toEqual([
      { line: 3, kind: 'refused', id: null, why: why(b.id) },
      { line: 4, kind: 'refused', id: null, why: why(customer) },
      { line: 5, kind: 'refused', id: null, why: expect.stringContaining('customer is the id or name of no customer') },
    ]);
    for (const one of undo.splice(0)) await one();
    expect(await keyOf('b')).toEqual(b);
    for (const { id } of [await keyOf('a'), b, await keyOf('e')]) {
      await admin('DELETE', `/keys/${id}`);
      await admin('POST', `/keys/${id}/delete`);
    }
  });

  test.each([
    '',
    'garbage',
    '{"action":"key.create"}',
    '{"action":"key.create","outcome":"done","actor":{"kind":"token"}}',
  ])(
    'an entry of the record of changes that has become %j is in each list as unreadable (reliability 390)',
    async (text) => {
      await forgetChanges(gateway.env);
      undo.push(() => forgetChanges(gateway.env));
      const { id } = (await admin('POST', '/keys', { plan: 'free', name: 'recorded' })).body;
      await damageLatestChange(gateway.env, text);
      await admin('DELETE', `/keys/${id}`);
      const whole = await admin('GET', '/audit');
      const unreadable = [{ id: expect.any(String), reason: expect.stringMatching(/^Entry .* cannot be read/) }];
      expect([whole.status, whole.body]).toMatchObject([200, { changes: [{ action: 'key.revoke' }], unreadable }]);
      const [{ id: entry }] = whole.body.unreadable;
      // What is cut off may be a change of this key.
      const ofKey = (await admin('GET', `/audit?key=${id}`)).body;
      expect(ofKey.changes).toMatchObject([{ action: 'key.revoke', target: id }]);
      expect(idsOf(ofKey.unreadable)).toEqual(text.endsWith('}') ? [] : [entry]);
      const found: string[] = [];
      for (let cursor = ''; ; ) {
        const page = (await admin('GET', `/audit?limit=1${cursor}`)).body;
        found.push(...idsOf([...page.changes, ...page.unreadable]));
        if (page.cursor === null) break;
        cursor = `&cursor=${page.cursor}`;
      }
      expect(found.toSorted()).toEqual([...idsOf(whole.body.changes), entry].toSorted());
      const list = await run('audit', '--json');
      expect([list.code, list.stderr]).toEqual([1, expect.stringContaining(`Entry ${entry} of the record of changes`)]);
      expect(JSON.parse(list.stdout).unreadable).toEqual([{ id: entry, reason: expect.stringContaining(entry) }]);
      expect((await run('audit', '--no-header')).stdout).toMatch(new RegExp(`\tunreadable\t${entry}\t`));
    },
  );

  test('refused attempts that cannot be read are on the first page of changes (reliability 390)', async () => {
    await forgetChanges(gateway.env);
    undo.push(() => forgetChanges(gateway.env));
    await admin('POST', '/keys', { plan: 'gold' });
    await damageRefusals(gateway.env, '{"action"');
    const { changes, unreadable } = (await admin('GET', '/audit?limit=1')).body;
    expect([changes.length, unreadable.length]).toEqual([0, 1]);
    expect(unreadable[0].reason).toMatch(/tg:audit:refused|audit_refused/);
    expect((await run('audit')).code).toBe(1);
  });

  test('a version in the history of plans that cannot be read is in each list, and is not taken for absent (reliability 391)', async () => {
    await damageLatestPlans(gateway.env);
    const { status, body } = await admin('GET', '/plans/history');
    const [{ id, reason }] = body.unreadable;
    expect([status, body.versions, reason]).toEqual([200, [], expect.stringContaining(`Version ${id} in the history`)]);
    const list = await run('plans', 'history', '--json');
    expect([list.code, list.stderr]).toEqual([1, expect.stringContaining(reason)]);
    expect(JSON.parse(list.stdout)).toEqual({ versions: [], unreadable: [{ id, reason }] });
    expect((await run('plans', 'history', '--no-header')).stdout).toMatch(/^unreadable\t/);
    for (const words of [
      ['plans', 'rollback'],
      ['plans', 'rollback', '0123', '--yes'],
      ['plans', 'show', '0123'],
    ]) {
      const { code, stderr } = await run(...words);
      expect([words, code, stderr]).toEqual([words, 1, expect.stringContaining(`Version ${id} in the history`)]);
    }
    expect((await admin('GET', '/plans/history/0123')).body.code).toBe('store_corrupt');
  });

  test('a plan that an unreadable record may use is not removed (reliability 364)', async () => {
    await damage(good);
    const text = PLANS.replace(/ {2}gone.*\n/, '');
    const compared = await admin('POST', '/plans/diff', { text });
    expect(compared.body.live).toMatchObject({ isComplete: true, unreadable: [good] });
    expect(compared.body.refused).toEqual([
      expect.stringMatching(new RegExp(`lacks \`gone\`, and 1 record cannot be read: ${good}`)),
    ]);
  });

  test('a prune revokes no key that it cannot judge, and says so (reliability 363)', async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'secrets'), { mode: 0o700 });
    const file = join(folder, 'keys.yaml');
    const apply = async (keys: object, ...words: string[]) => {
      await writeFile(file, JSON.stringify({ set: 'parts', keys }));
      return run('keys', 'apply', file, '--secrets', join(folder, 'secrets'), ...words);
    };
    const plan = 'free';
    expect((await apply({ a: { plan }, b: { plan }, c: { plan } })).code).toBe(0);
    const keys = entriesOf((await run('keys', 'list', '--json')).stdout) as { id: string; name: string }[];
    const [a, b, c] = ['a', 'b', 'c'].map((name) => keys.find((one) => one.name === name)!.id) as [
      string,
      string,
      string,
    ];
    for (const id of [a, b]) await damage(id);
    const pruned = await apply({ a: { plan } }, '--prune', '--yes');
    expect([pruned.code, pruned.stdout]).toEqual([1, expect.stringMatching(/1 revoked.*1 refused/)]);
    expect(pruned.stderr).toContain(`a: The record of ${a} cannot be read`);
    expect(pruned.stderr).toContain(`1 record cannot be read: ${b}`);
    for (const one of undo.splice(0)) await one();
    const after = entriesOf((await run('keys', 'list', '--json')).stdout) as { id: string }[];
    expect([a, b, c].map((id) => after.some((one) => one.id === id))).toEqual([true, true, false]);
  });

  test('a customer is deleted with its keys but those that cannot be read, and not without being asked (reliability 363)', async () => {
    const { id } = (await admin('POST', '/customers', { plan: 'free' })).body;
    const [one, other] = [
      (await admin('POST', '/keys', { customer: id })).body,
      (await admin('POST', '/keys', { customer: id })).body,
    ];
    await admin('DELETE', `/keys/${one.id}`);
    await damage(other.id);
    const refused = await admin('POST', `/customers/${id}/delete`, {});
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining(other.id)]);
    const deleted = await run('customers', 'delete', id, '--keys', 'revoke', '--yes', '--json');
    expect([deleted.code, JSON.parse(deleted.stdout)]).toMatchObject([
      1,
      { deleted: true, unreadable: [{ id: other.id }] },
    ]);
    expect(deleted.stderr).toContain(`1 record cannot be read: ${other.id}`);
  });

  test('a request with a key whose record, or whose customer, cannot be read gets 500, and the log names the record (reliability 384)', async () => {
    const key = (await admin('POST', '/keys', { plan: 'free' })).body;
    const later = (await admin('POST', '/customers', { plan: 'free', name: 'Later' })).body.id;
    const keyOfLater = (await admin('POST', '/keys', { customer: later })).body;
    for (const [id, secret] of [
      [key.id, key.key],
      [later, keyOfLater.key],
    ]) {
      await damage(id);
      const answer = await gateway.get('/v1/pets', secret, { headers: { 'X-Request-Id': `unreadable-${id}` } });
      expect([answer.status, await answer.json()]).toMatchObject([500, { code: 'internal_error' }]);
      const [line] = await gateway.process.until(new RegExp(`^.*"requestId":"unreadable-${id}".*$`, 'm'));
      expect(JSON.parse(line).cause).toContain(`The record of ${id} cannot be read`);
    }
    for (const undone of undo.splice(0)) await undone();
    await eventually(async () => expect((await gateway.get('/v1/pets', key.key)).status).toBe(200));
  });
});

test.each(Object.entries(STORES))(
  'a gateway on %s that decides alone about a consumer, because its counters cannot be read, names it in the log (reliability 365) (reliability 401)',
  async (_, emptyStore) => {
    const store = await emptyStore();
    const before = await openWithAdmin(store, { plans: PLANS });
    const { id, key } = (await ask(before, 'POST', '/admin/keys', { plan: 'free' })).body;
    await before.process.stop();
    await damageCounts(store, id);
    const gateway = await openWithAdmin(store, { plans: PLANS });
    expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    const [line] = await gateway.process.until(/^.*"the store has no decision about a consumer.*$/m);
    expect(JSON.parse(line)).toMatchObject({ level: 50, consumerId: id });
    expect((await gateway.get('/usage', key, { headers: { 'X-Request-Id': 'damaged-usage' } })).status).toBe(500);
    const [asked] = await gateway.process.until(/^.*"requestId":"damaged-usage".*$/m);
    expect(JSON.parse(asked).cause).toContain(`What was counted for ${id} cannot be read`);
    const doctor = await runCommand(gateway.env, 'doctor', '--json');
    expect(JSON.parse(doctor.stdout).findings).toContainEqual({
      ...{ check: 'records', state: 'fail' },
      message: expect.stringMatching(new RegExp(`^1 record cannot be read: ${id}. .tollgate usage. says`)),
    });
    const usage = await runCommand(gateway.env, 'usage', id);
    expect([usage.code, usage.stderr]).toEqual([
      1,
      expect.stringContaining(`What was counted for ${id} cannot be read`),
    ]);
    expect((await runCommand(gateway.env, 'usage', 'reset', id)).code).toBe(0);
    await eventually(async () => expect((await gateway.get('/usage', key)).status).toBe(200));
    expect((await runCommand(gateway.env, 'usage', id)).code).toBe(0);
  },
);
