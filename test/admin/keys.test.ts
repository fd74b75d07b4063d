import { beforeAll, describe, expect, test } from 'vitest';
import { shownAttributes } from '../../src/model/attributes.ts';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { runCommand } from '../support/run-command.ts';
import { ask, openWithAdmin, STORES, type Told } from './operator.ts';

describe.each(Object.keys(STORES))('on %s', (name) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[name]!());
  });
  const make = async (body: object = { plan: 'free' }) => (await ask(gateway, 'POST', '/admin/keys', body)).body;
  const show = async (id: string) => (await ask(gateway, 'GET', `/admin/keys/${id}`)).body;
  const command = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(gateway.env, ...words);
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout);
  };
  const invalid = (told: Told, message: RegExp) => {
    expect([told.status, told.body.code]).toEqual([400, 'invalid_request']);
    expect(told.body.message).toMatch(message);
  };

  test('a key is made with its secret shown once, and it works at once', async () => {
    const told = await ask(gateway, 'POST', '/admin/keys', {
      plan: 'free',
      name: 'Ünïcode 🐟',
      owner: 'o',
      notes: 'two\nlines',
      limits: { minute: 5, hour: 'unlimited' },
      expiresAt: '2099-12-31',
    });
    expect([told.status, told.headers.get('location')]).toEqual([201, `/admin/keys/${told.body.id}`]);
    const { key, ...rest } = told.body;
    expect(rest).toEqual({
      ...shownAttributes('key', {}),
      id: expect.stringMatching(/^key_/),
      plan: 'free',
      name: 'Ünïcode 🐟',
      owner: 'o',
      limits: { minute: 5, hour: 'unlimited', day: 1000 },
      heldTo: { minute: 5, hour: 'unlimited', day: 1000 },
      createdAt: expect.any(String),
      expiresAt: '2099-12-31T00:00:00.000Z',
      notes: 'two\nlines',
      ownLimits: { minute: 5, hour: 'unlimited' },
      revokedAt: null,
      secrets: [{ last4: key.slice(-4), createdAt: rest.createdAt, expiresAt: null }],
    });
    const answer = await gateway.get('/v1/pets', key);
    expect([answer.status, answer.headers.get('x-ratelimit-limit')]).toEqual([200, '5']);
    const shown = await ask(gateway, 'GET', `/admin/keys/${rest.id}`);
    const today = new Date().toISOString().slice(0, 10);
    const lastUsedOn = expect.toSatisfy((day) => day === null || day <= today);
    const secrets = [{ ...rest.secrets[0], lastUsedOn }];
    expect(shown.body).toEqual({ ...rest, lastUsedOn, secrets });
    const listed = await ask(gateway, 'GET', '/admin/keys');
    for (const { text } of [shown, listed]) expect(text).not.toContain(key.slice(8, -4));
  });

  test('an error names at most ten faults of a body, and null is not an object', async () => {
    const { id } = await make();
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`member${i}`, 1]));
    invalid(await ask(gateway, 'PATCH', `/admin/keys/${id}`, many), /"member9"\. There are 990 more faults\.$/);
    for (const [method, path] of [
      ['POST', '/admin/keys'],
      ['PATCH', `/admin/keys/${id}`],
      ['POST', `/admin/keys/${id}/delete`],
      ['POST', `/admin/keys/${id}/topups`],
    ] as const) {
      invalid(await ask(gateway, method, path, 'null'), /^The body must be a JSON object\.$/);
    }
  });

  test('the command refuses what the API refuses, in the same words', async () => {
    for (const [body, words] of [
      [{ plan: 'gold' }, ['--plan', 'gold']],
      [{ plan: 'enterprise', limits: { minute: 5 } }, ['--plan', 'enterprise', '--limit', 'minute=5']],
      [{ plan: 'free', name: 'a\nb' }, ['--plan', 'free', '--name', 'a\nb']],
      [{ plan: 'free', notes: 'x'.repeat(1001) }, ['--plan', 'free', '--notes', 'x'.repeat(1001)]],
      [{ plan: 'free', expiresAt: '2020-01-01' }, ['--plan', 'free', '--expires', '2020-01-01']],
    ] as const) {
      const told = await ask(gateway, 'POST', '/admin/keys', body);
      const { code, stderr } = await runCommand(gateway.env, 'keys', 'create', ...words);
      expect([told.status, code, `${told.body.message}\n`]).toEqual([400, 1, stderr]);
    }
  });

  test.each([
    [{}, /^plan is missing/],
    [{ plan: 7 }, /^plan must be/],
    [{ plan: null }, /^plan must be/],
    [{ plan: 'constructor' }, /no plan 'constructor'/],
    [{ plan: 'free', colour: 'red' }, /"colour"/],
    [{ plan: 'free', key: 'tg_live_x' }, /"key"/],
    [{ plan: 'free', id: 'key_x' }, /"id"/],
    [{ plan: 'free', name: 7 }, /^name must be/],
    [{ plan: 'free', limits: [] }, /^limits must be/],
    [{ plan: 'free', limits: { year: 1 } }, /"limits\.year"/],
    [{ plan: 'free', limits: { minute: -1 } }, /^limits\.minute must be/],
    [{ plan: 'free', limits: { minute: 1.5 } }, /^limits\.minute must be/],
    [{ plan: 'free', limits: { minute: 1e15 } }, /^limits\.minute must be/],
    [{ plan: 'free', limits: { minute: null } }, /^limits\.minute must be/],
    [{ plan: 'free', expiresAt: 'soon' }, /^expiresAt must be/],
    [{ plan: 'free', expiresAt: '2030-02-30' }, /^expiresAt must be/],
    [{ plan: 'free', expiresAt: '9999-12-31T23:59:59-23:59' }, /^expiresAt must be/],
    [{ plan: 'a\u001b[31m\u009b2J\u202e\ud800' }, /no plan 'a\\u\{1b\}\[31m\\u\{9b\}2J\\u\{202e\}\\u\{d800\}'/],
    [{ plan: 'x'.repeat(60_000) }, /no plan 'x{100}…'/],
    [{ plan: 'free', '\u009b2J': 1 }, /no member "\\u\{9b\}2J"/],
    [[], /must be a JSON object/],
    ['"free"', /must be a JSON object/],
    ['{"plan":"free"', /not valid JSON/],
    ['{"plan":"free","__proto__":{"plan":"pro"}}', /"__proto__"/],
  ])('a body such as %j is refused with a sentence that names the member', async (body, message) => {
    invalid(await ask(gateway, 'POST', '/admin/keys', body), message);
  });

  test('two members that are wrong are both named', async () => {
    const told = await ask(gateway, 'POST', '/admin/keys', { name: 1, plan: 2 });
    invalid(told, /plan must be .*name must be/);
  });

  test('a change takes what it names and nothing else, and binds at once', async () => {
    const { key, ...made } = await make({ plan: 'free', name: 'n', limits: { minute: 5 }, expiresAt: '1d' });
    const patch = async (body: object) => (await ask(gateway, 'PATCH', `/admin/keys/${made.id}`, body)).body;
    expect(await patch({ plan: 'small' })).toEqual({ ...made, plan: 'small' });
    expect(await patch({ limits: { minute: null, day: 9 } })).toMatchObject({
      limits: { minute: 3, day: 9 },
      ownLimits: { day: 9 },
    });
    expect(await patch({ name: null, owner: 'o', notes: 'x', expiresAt: null })).toMatchObject({
      name: null,
      owner: 'o',
      notes: 'x',
      expiresAt: null,
    });
    expect(await patch({ notes: '' })).toMatchObject({ notes: null, owner: 'o' });
    await eventually(async () => {
      const answer = await gateway.get('/v1/pets', key);
      expect(answer.headers.get('x-ratelimit-limit')).toBe('3');
    });
    for (const body of [{}, { plan: 'enterprise' }, { key: 'x' }, { revokedAt: null }]) {
      invalid(await ask(gateway, 'PATCH', `/admin/keys/${made.id}`, body), /./);
    }
    expect(await show(made.id)).toMatchObject({ plan: 'small', limits: { minute: 3, day: 9 } });
  });

  test('a rotation has both secrets work under one quota, and with an overlap of 0s the first no longer (reliability 143)', async () => {
    const made = await make({ plan: 'endless', limits: { minute: 10 } });
    const rotated = await ask(gateway, 'POST', `/admin/keys/${made.id}/rotate`);
    expect(rotated.body).toMatchObject({ id: made.id, key: expect.stringMatching(/^tg_live_/) });
    expect(rotated.body.secrets.map(({ last4 }: { last4: string }) => last4)).toEqual(
      [rotated.body.key, made.key].map((key) => key.slice(-4)),
    );
    const [, old] = rotated.body.secrets;
    expect(Date.parse(old.expiresAt) - Date.now()).toBeGreaterThan(86_000_000);
    const remaining: (string | null)[] = [];
    for (const key of [made.key, rotated.body.key]) {
      remaining.push((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));
    }
    expect(remaining).toEqual(['9', '8']);
    const last = await ask(gateway, 'POST', `/admin/keys/${made.id}/rotate`, { overlap: '0s' });
    await eventually(async () => expect((await gateway.get('/v1/pets', made.key)).status).toBe(401), {
      withinMs: 1_000,
    });
    expect((await gateway.get('/v1/pets', last.body.key)).status).toBe(200);
    invalid(await ask(gateway, 'POST', `/admin/keys/${made.id}/rotate`, { overlap: 'long' }), /^overlap must be/);
    invalid(await ask(gateway, 'POST', `/admin/keys/${made.id}/rotate`, { overlap: 5 }), /^overlap must be/);
  });

  test('a revoked key is refused within a second, stays to be read, and can be neither rotated nor changed', async () => {
    const made = await make();
    expect((await gateway.get('/v1/pets', made.key)).status).toBe(200);
    const first = await ask(gateway, 'DELETE', `/admin/keys/${made.id}`);
    expect([first.status, first.body.revokedAt]).toEqual([200, expect.any(String)]);
    await eventually(async () => expect((await gateway.get('/v1/pets', made.key)).status).toBe(401), {
      withinMs: 1_000,
    });
    const again = await ask(gateway, 'DELETE', `/admin/keys/${made.id}`);
    expect([again.status, again.body]).toEqual([200, first.body]);
    for (const [method, path, body] of [
      ['PATCH', '', { plan: 'small' }],
      ['POST', '/rotate', undefined],
    ] as const) {
      const told = await ask(gateway, method, `/admin/keys/${made.id}${path}`, body);
      expect([told.status, told.body.code]).toEqual([409, 'conflict']);
      expect(told.body.message).toContain('revoked');
    }
    const listed = async (query: string) => (await ask(gateway, 'GET', `/admin/keys?limit=1000${query}`)).body.keys;
    const ids = (keys: { id: string }[]) => keys.map(({ id }) => id);
    expect(ids(await listed(''))).not.toContain(made.id);
    expect(ids(await listed('&all=true'))).toContain(made.id);
  });

  test('a key is suspended and resumed, with another version each time, and shown so in every list', async () => {
    const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free', owner: 'suspended one' });
    const path = `/admin/keys/${made.body.id}`;
    const since = expect.any(String);
    const told = await ask(gateway, 'POST', `${path}/suspend`, { until: '2099-01-01', reason: 'r' });
    expect([told.status, told.body.suspended]).toEqual([
      200,
      { since, until: '2099-01-01T00:00:00.000Z', reason: 'r' },
    ]);
    expect(told.headers.get('etag')).not.toBe(made.headers.get('etag'));
    expect((await ask(gateway, 'GET', '/admin/keys?owner=suspended%20one')).body.keys).toMatchObject([
      { suspended: { since: told.body.suspended.since } },
    ]);
    expect((await command('keys', 'list', '--owner', 'suspended one', '--json')).keys[0]).toMatchObject({
      suspended: told.body.suspended,
    });
    const endless = await ask(gateway, 'POST', `${path}/suspend`);
    expect(endless.body.suspended).toEqual({ since: told.body.suspended.since, until: null, reason: null });
    invalid(await ask(gateway, 'POST', `${path}/suspend`, { until: '2020-01-01' }), /has already passed/);
    invalid(await ask(gateway, 'POST', `${path}/suspend`, { until: 'soon' }), /^until must be/);
    invalid(await ask(gateway, 'POST', `${path}/suspend`, { reason: 'x'.repeat(201) }), /at most 200 characters/);
    const resumed = await ask(gateway, 'POST', `${path}/resume`);
    expect(resumed.body).not.toHaveProperty('suspended');
    expect(resumed.headers.get('etag')).toBe(made.headers.get('etag'));
    const { body } = await ask(gateway, 'GET', `/admin/audit?key=${made.body.id}`);
    const done = body.changes.filter(({ outcome }: { outcome: string }) => outcome === 'done');
    expect(done.toReversed().slice(1)).toMatchObject([
      { action: 'key.suspend', after: { suspended: told.body.suspended } },
      { action: 'key.suspend', after: { suspended: endless.body.suspended } },
      { action: 'key.resume', before: { suspended: endless.body.suspended } },
    ]);
  });

  test('of two secrets one is ended, within a second, and neither the last one nor what is ambiguous (reliability 266)', async () => {
    const made = await make();
    const path = `/admin/keys/${made.id}`;
    const status = async (key: string) => (await gateway.get('/v1/pets', key)).status;
    expect(await status(made.key)).toBe(200);
    const last = await ask(gateway, 'POST', `${path}/secrets/end`, { last4: made.key.slice(-4) });
    expect([last.status, last.body.message]).toEqual([
      409,
      expect.stringMatching(/only secret .* Rotate the key to replace it/),
    ]);
    const { key: second } = (await ask(gateway, 'POST', `${path}/rotate`, { overlap: '1h' })).body;
    const missing = await ask(gateway, 'POST', `${path}/secrets/end`, { last4: '----' });
    expect([missing.status, missing.body.code]).toEqual([404, 'not_found']);
    const whole = await ask(gateway, 'POST', `${path}/secrets/end`, { last4: second });
    invalid(whole, /^last4 must be the last four characters of the secret, and no more of it\.$/);
    const ended = await ask(gateway, 'POST', `${path}/secrets/end`, { last4: made.key.slice(-4) });
    expect([ended.status, ended.body.secrets]).toMatchObject([200, [{ last4: second.slice(-4) }]]);
    await eventually(async () => expect(await status(made.key)).toBe(401), { withinMs: 1_000 });
    expect(await status(second)).toBe(200);
    const [change] = (await ask(gateway, 'GET', `/admin/audit?key=${made.id}`)).body.changes;
    expect(change).toMatchObject({
      action: 'secret.end',
      outcome: 'done',
      before: { secrets: [second.slice(-4), made.key.slice(-4)] },
      after: { secrets: [second.slice(-4)] },
    });
  });

  test('a rotation of a leaked secret ends all that were there at once, and has no overlap (reliability 266)', async () => {
    const made = await make();
    const path = `/admin/keys/${made.id}/rotate`;
    const { key: second } = (await ask(gateway, 'POST', path, { overlap: '30d', leaked: false })).body;
    invalid(await ask(gateway, 'POST', path, { overlap: '0s', leaked: true }), /^A leaked secret has no overlap/);
    invalid(await ask(gateway, 'POST', path, { leaked: 'yes' }), /^leaked must be true or false/);
    const third = (await ask(gateway, 'POST', path, { leaked: true })).body;
    expect(third.secrets).toMatchObject([{ last4: third.key.slice(-4), expiresAt: null }]);
    await eventually(
      async () => {
        const answers = [made.key, second, third.key].map((key) => gateway.get('/v1/pets', key));
        expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([401, 401, 200]);
      },
      { withinMs: 1_000 },
    );
  });

  test('a key that is called while it is suspended was used on the day on which its secret was', async () => {
    const made = await make();
    const path = `/admin/keys/${made.id}`;
    await ask(gateway, 'POST', `${path}/suspend`, {});
    await eventually(async () => expect((await gateway.get('/v1/pets', made.key)).status).toBe(403));
    await eventually(async () => {
      const { lastUsedOn, secrets } = (await ask(gateway, 'GET', path)).body;
      expect(lastUsedOn).toMatch(/^\d{4}-/);
      expect(lastUsedOn).toBe(secrets[0].lastUsedOn);
    });
  });

  test('each secret has the day of its own last use, and nothing is left of it once the key is deleted', async () => {
    const made = await make();
    const path = `/admin/keys/${made.id}`;
    await ask(gateway, 'POST', `${path}/rotate`, { overlap: '1h' });
    const from = new Date().toISOString().slice(0, 10);
    await gateway.get('/v1/pets', made.key);
    const secrets = await eventually(async () => {
      const { body } = await ask(gateway, 'GET', path);
      expect(body.secrets[1].lastUsedOn).not.toBeNull();
      return body.secrets;
    });
    expect(secrets[0].lastUsedOn).toBeNull();
    expect([from, new Date().toISOString().slice(0, 10)]).toContain(secrets[1].lastUsedOn);
    expect((await command('keys', 'show', made.id, '--json')).secrets).toEqual(secrets);
    const { stdout } = await runCommand(gateway.env, 'keys', 'show', made.id);
    expect(stdout).toMatch(/secret .*no use on record\nsecret .*, last used \d{4}-\d\d-\d\d\n$/);
    await ask(gateway, 'DELETE', path);
    expect((await ask(gateway, 'POST', `${path}/delete`)).status).toBe(200);
  });

  test('If-Match lets a change through for the version that was read, and for no other', async () => {
    const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free' });
    const path = `/admin/keys/${made.body.id}`;
    const etag = made.headers.get('etag')!;
    expect((await ask(gateway, 'GET', path)).headers.get('etag')).toBe(etag);
    const stale = { 'If-Match': etag };
    const changed = await ask(gateway, 'PATCH', path, { name: 'one' }, stale);
    expect(changed.status).toBe(200);
    for (const [method, on, body] of [
      ['PATCH', path, { name: 'two' }],
      ['POST', `${path}/rotate`, undefined],
      ['POST', `${path}/suspend`, undefined],
      ['POST', `${path}/secrets/end`, { last4: 'abcd' }],
      ['POST', `${path}/resume`, undefined],
      ['DELETE', path, undefined],
    ] as const) {
      const told = await ask(gateway, method, on, body, stale);
      expect([told.status, told.body.code]).toEqual([412, 'precondition_failed']);
      // A weak tag compares with nothing (RFC 9110 section 13.1.1).
      expect((await ask(gateway, method, on, body, { 'If-Match': `W/${changed.headers.get('etag')}` })).status).toBe(
        412,
      );
      expect((await ask(gateway, method, on, body, { 'If-Match': 'none' })).status).toBe(400);
    }
    expect(await show(made.body.id)).toMatchObject({ name: 'one', revokedAt: null, secrets: [{}] });
    const several = { 'If-Match': `"x", ${changed.headers.get('etag')}` };
    expect((await ask(gateway, 'POST', `${path}/rotate`, undefined, several)).status).toBe(200);
    expect((await ask(gateway, 'DELETE', path, undefined, { 'If-Match': '*' })).status).toBe(200);
  });

  test('of two changes of one version at the same time one is made', async () => {
    const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free' });
    const header = { 'If-Match': made.headers.get('etag')! };
    const told = await Promise.all(
      ['a', 'b', 'c', 'd'].map((name) => ask(gateway, 'PATCH', `/admin/keys/${made.body.id}`, { name }, header)),
    );
    expect(told.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412]);
  });

  test('a list has every key once, page by page, though keys are made and revoked meanwhile', async () => {
    const own = await openWithAdmin(await STORES[name]!());
    const made: string[] = [];
    for (let i = 0; i < 7; i++) made.push((await ask(own, 'POST', '/admin/keys', { plan: 'free' })).body.id);
    await ask(own, 'DELETE', `/admin/keys/${made[2]}`);
    const seen: string[] = [];
    let path: string | null = '/admin/keys?limit=2';
    while (path !== null) {
      const told: Told = await ask(own, 'GET', path);
      expect(told.body.keys.length).toBeLessThanOrEqual(2);
      seen.push(...told.body.keys.map(({ id }: { id: string }) => id));
      if (seen.length === 2) await ask(own, 'DELETE', `/admin/keys/${seen[1]}`);
      const [, next = null] = /^<(.+)>; rel="next"$/.exec(told.headers.get('link') ?? '') ?? [];
      expect(next === null).toBe(told.body.cursor === null);
      path = next;
    }
    expect(seen.length).toBe(6);
    expect([...seen].sort()).toEqual(made.filter((_, i) => i !== 2).sort());
  });

  test('a ban is listed, and lifted for the gateway that runs', async () => {
    const made = await make({ plan: 'small' });
    for (let i = 0; i < 14; i++) await gateway.get('/v1/pets', made.key);
    expect(await (await gateway.get('/v1/pets', made.key)).json()).toMatchObject({ code: 'api_key_banned' });
    const bans = async (query = '') => (await ask(gateway, 'GET', `/admin/bans${query}`)).body;
    const whose = { name: null, owner: null, plan: 'small' };
    const ban = { id: made.id, number: 1, window: 'minute', until: expect.any(Number), ...whose };
    expect((await bans()).bans).toEqual([ban]);
    expect(await bans(`?cursor=${made.id}`)).toEqual({ bans: [], cursor: null, unreadable: [] });
    expect((await ask(gateway, 'DELETE', `/admin/bans/${made.id}`)).body).toEqual({
      id: made.id,
      lifted: true,
      spent: [{ window: 'minute', resetAt: expect.any(Number) }],
    });
    expect((await bans()).bans).toEqual([]);
    await eventually(
      async () =>
        expect(await (await gateway.get('/v1/pets', made.key)).json()).toMatchObject({ code: 'rate_limit_exceeded' }),
      { withinMs: 1_000 },
    );
    expect((await ask(gateway, 'DELETE', `/admin/bans/${made.id}`)).body).toMatchObject({
      status: 404,
      message: `Key ${made.id} is not banned.`,
    });
    expect((await ask(gateway, 'DELETE', '/admin/bans/key_none')).body.message).toBe('There is no key key_none.');
  });

  test('bans are told page by page', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) {
      const { id, key } = await make({ plan: 'small' });
      ids.push(id);
      for (let n = 0; n < 13; n++) await gateway.get('/v1/pets', key);
    }
    const first = await ask(gateway, 'GET', '/admin/bans?limit=2');
    expect(first.body.bans).toHaveLength(2);
    const [, next] = /^<(.+)>; rel="next"$/.exec(first.headers.get('link')!)!;
    const second = await ask(gateway, 'GET', next!);
    const told = [...first.body.bans, ...second.body.bans].map(({ id }) => id);
    expect(told).toEqual(ids.toSorted());
    expect(second.body.cursor).toBeNull();
  });

  test('the plans in force are told with the versions of their files', async () => {
    const { body } = await ask(gateway, 'GET', '/admin/plans');
    expect(body).toMatchObject({
      versions: { settings: expect.stringMatching(/^[0-9a-f]{12}$/), plans: expect.stringMatching(/^[0-9a-f]{12}$/) },
      failedAuthentication: { minute: 30 },
    });
    const [free] = body.plans.filter(({ name: plan }: { name: string }) => plan === 'free');
    expect(free).toMatchObject({ limits: { minute: 60, day: 1000 }, bans: { after: 10, firstMs: 60_000 } });
  });

  test('who still calls a deprecated route is told', async () => {
    const made = await make();
    await gateway.get('/v1/pets/1', made.key);
    await eventually(
      async () => {
        const { body } = await ask(gateway, 'GET', '/admin/deprecations?days=1');
        const [route] = body.deprecations.filter(({ route: path }: { route: string }) => path === '/v1/pets/{petId}');
        expect(route.callers).toContainEqual(expect.objectContaining({ id: made.id, calls: 1 }));
      },
      { withinMs: 4_000 },
    );
    const first = await ask(gateway, 'GET', '/admin/deprecations?limit=1');
    expect([first.body.deprecations.length, first.body.cursor]).toEqual([1, 'GET,HEAD /v1/pets/{petId}']);
    for (const query of ['days=0', 'days=93', 'cursor=none']) {
      invalid(await ask(gateway, 'GET', `/admin/deprecations?${query}`), /days|cursor/);
    }
  });
});
