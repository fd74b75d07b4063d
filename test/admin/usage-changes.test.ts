import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openReplica, type TestGateway } from '../support/gateway.ts';
import { ask, auditLines, openWithAdmin, STORES } from './operator.ts';

/** Gateways obey what was changed through another one, or by a command, within this (contract section 1). */
const SOON = { withinMs: 1_000 };

/** A key of the plan `daily` is refused from what its gateway remembers, because no strikes are counted. */
const plans = `plans:
  daily: { limits: { minute: unlimited, day: 2 }, bans: off }
  small: { limits: { minute: 3, day: 1000 } }`;

describe.each(Object.keys(STORES))('on %s', (name) => {
  let gateway: TestGateway;
  /** All gateways on the store. Only one may have the embedded store. */
  let all: readonly TestGateway[];
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[name]!(), { plans });
    all = name === 'Redis' ? [gateway, await openReplica(gateway)] : [gateway];
  });
  const make = async (attributes: object): Promise<{ id: string; key: string }> =>
    (await ask(gateway, 'POST', '/admin/keys', attributes)).body;
  /** Spends the quota at every gateway, until each of them refuses from what it remembers. */
  const exhaust = async (key: string) => {
    for (let i = 0; i < 4; i++) for (const each of all) await each.get('/v1/pets', key);
  };
  const admitted = async (key: string, asked: number) => {
    let count = 0;
    for (let i = 0; i < asked; i++) {
      const response = await all[i % all.length]!.get('/v1/pets', key);
      if (response.status === 200) count++;
    }
    return count;
  };

  test('a top-up lets a refused key in again at every gateway, by so many requests, and shows in the fields', async () => {
    const { id, key } = await make({ plan: 'daily' });
    await exhaust(key);
    const told = await ask(all.at(-1)!, 'POST', `/admin/keys/${id}/topups`, { window: 'day', amount: 4 });
    const made = { id, window: 'day', amount: 4, limit: 6, until: expect.any(Number), reason: null };
    expect([told.status, told.body]).toEqual([200, { ...made, topUp: expect.stringMatching(/^top_/) }]);
    const response = await gateway.get('/v1/pets', key);
    expect(response.status).toBe(200);
    expect(response.headers.get('x-ratelimit-limit')).toBe('6');
    expect(response.headers.get('x-ratelimit-remaining')).toBe('3');
    expect(response.headers.get('x-ratelimit-reset')).toBe(String(told.body.until));
    expect(await admitted(key, 6)).toBe(3);
    const usage = await ask(gateway, 'GET', `/admin/keys/${id}/usage`);
    expect(usage.body.windows.day).toMatchObject({ limit: 6, used: 6, remaining: 0, resetAt: told.body.until });
  });

  test('a top-up has the end and the reason that the operator gives, and both are shown while it is in force', async () => {
    const { id } = await make({ plan: 'daily' });
    const topUps = `/admin/keys/${id}/topups`;
    const untilMs = Math.ceil(Date.now() / 1_000 + 3 * 86_400) * 1_000;
    const body = { window: 'day', amount: 4, until: new Date(untilMs).toISOString(), reason: 'TICKET-12, “now” 100 %' };
    const { topUp, ...told } = (await ask(gateway, 'POST', topUps, body)).body;
    expect(told).toEqual({ id, ...body, limit: 6, until: untilMs / 1_000 });
    const second = (await ask(gateway, 'POST', topUps, { ...body, amount: 1, reason: null })).body;
    expect(second).toMatchObject({ limit: 7, reason: null });
    for (const each of all) {
      const { day } = (await ask(each, 'GET', `/admin/keys/${id}/usage`)).body.windows;
      expect(day.topUp).toEqual({
        amount: 5,
        until: untilMs / 1_000,
        parts: [
          { id: topUp, amount: 4, reason: body.reason, at: expect.any(Number) },
          { id: second.topUp, amount: 1, reason: null, at: expect.any(Number) },
        ],
      });
    }
    const { changes } = (await ask(gateway, 'GET', `/admin/audit?key=${id}`)).body;
    expect(changes[1].after).toEqual({ window: 'day', limit: 6, until: body.until, reason: body.reason });
    for (const until of ['window', 'today']) {
      const refused = await ask(gateway, 'POST', topUps, { window: 'day', amount: 1, until });
      expect(refused.body).toMatchObject({
        status: 409,
        message: `A top-up of 5 until ${body.until} is in force: undo it, or give the same end.`,
      });
    }
  });

  test('a top-up until today ends with the day of the zone', async () => {
    const { id } = await make({ plan: 'daily' });
    for (const [zone, given] of [
      ['Pacific/Kiritimati', { zone: 'Pacific/Kiritimati' }],
      ['UTC', {}],
    ] as const) {
      const startOfTomorrow = () =>
        Temporal.Now.zonedDateTimeISO(zone).add({ days: 1 }).startOfDay().epochMilliseconds / 1_000;
      const before = startOfTomorrow();
      const body = { window: 'day', amount: 1, until: 'today', ...given };
      const { until } = (await ask(gateway, 'POST', `/admin/keys/${id}/topups`, body)).body;
      expect([before, startOfTomorrow()]).toContain(until);
      await ask(gateway, 'DELETE', `/admin/keys/${id}/topups/day`);
    }
  });

  test('a top-up is taken back at every gateway, by its id or with all others, and what was used stays counted', async () => {
    const { id, key } = await make({ plan: 'daily' });
    const topUps = `/admin/keys/${id}/topups`;
    const add = async (amount: number) => (await ask(gateway, 'POST', topUps, { window: 'day', amount })).body;
    const first = await add(5_000);
    await add(2);
    expect(await admitted(key, 3)).toBe(3);
    const undone = await ask(all.at(-1)!, 'DELETE', `${topUps}/${first.topUp}`);
    const rest = { id, window: 'day', amount: 5_000, limit: 4, until: first.until };
    expect([undone.status, undone.body]).toEqual([200, rest]);
    await eventually(async () => {
      for (const each of all) {
        const { windows } = (await ask(each, 'GET', `/admin/keys/${id}/usage`)).body;
        expect(windows.day).toMatchObject({ limit: 4, used: 3, remaining: 1, topUp: { amount: 2 } });
      }
    }, SOON);
    expect(await admitted(key, 3)).toBe(1);
    expect((await ask(gateway, 'DELETE', `${topUps}/day`)).body).toEqual({ ...rest, amount: 2, limit: 2, until: null });
    const { windows } = (await ask(gateway, 'GET', `/admin/keys/${id}/usage`)).body;
    expect(windows.day).toMatchObject({ limit: 2, used: 4, remaining: 0, topUp: null });
    expect(await admitted(key, 2)).toBe(0);
    for (const gone of [first.topUp, 'day', 'top_none']) {
      const missing = await ask(gateway, 'DELETE', `${topUps}/${gone}`);
      expect(missing.body).toMatchObject({
        status: 404,
        message: expect.stringContaining('No such top-up is in force'),
      });
    }
    expect((await ask(gateway, 'DELETE', `${topUps}/hour`)).body).toMatchObject({ status: 400 });
    const { changes } = (await ask(gateway, 'GET', `/admin/audit?key=${id}`)).body;
    expect(
      changes.filter(
        (one: { action: string; outcome: string }) => one.action === 'topup.undo' && one.outcome === 'done',
      ),
    ).toMatchObject([
      { before: { window: 'day', limit: 4, until: expect.any(String) }, after: { window: 'day', limit: 2 } },
      { before: { window: 'day', limit: 5_004 }, after: { window: 'day', limit: 4, until: expect.any(String) } },
    ]);
  });

  test('a repeated top-up says that it was undone', async () => {
    const { id } = await make({ plan: 'daily' });
    const add = (name: string) =>
      ask(gateway, 'POST', `/admin/keys/${id}/topups`, { window: 'day', amount: 3 }, { 'Idempotency-Key': name });
    const { topUp } = (await add('one')).body;
    await add('two');
    await ask(gateway, 'DELETE', `/admin/keys/${id}/topups/${topUp}`);
    expect((await add('one')).body).toMatchObject({ topUp, limit: 5, until: null });
    expect((await add('two')).body).toMatchObject({ limit: 5, until: expect.any(Number) });
  });

  test('Explain advises nothing about a ban that was lifted or a limit that was topped up since, and what is in force it does', async () => {
    const { id, key } = await make({ plan: 'small' });
    const adviceOf = async (requestId: string) =>
      (await ask(gateway, 'GET', `/admin/refusals/${requestId}-${id}`)).body.refusals[0].advice;
    for (let i = 0; i < 13; i++) await gateway.get('/v1/pets', key, { headers: { 'X-Request-Id': `no-${i}-${id}` } });
    await gateway.get('/v1/pets', key, { headers: { 'X-Request-Id': `banned-${id}` } });
    expect(await adviceOf('no-5')).toBe('Wait until the time shown below, or top up the minute.');
    expect(await adviceOf('banned')).toMatch(/^Wait until the time shown below, or lift the ban/);
    await ask(gateway, 'DELETE', `/admin/bans/${id}`);
    expect(await adviceOf('banned')).toMatch(/^The ban is over\. If the caller is refused again, see below/);
    expect(await adviceOf('no-5')).toMatch(/^Wait until/);
    await ask(gateway, 'POST', `/admin/keys/${id}/topups`, { window: 'minute', amount: 1 });
    expect(await adviceOf('no-5')).toMatch(/^The wait is over\./);
    await gateway.get('/v1/pets', key);
    expect(await adviceOf('no-5')).toMatch(/^Wait until/);
    expect(await adviceOf('banned')).toMatch(/^The ban is over\./);
    const { body } = await ask(gateway, 'GET', `/admin/refusals?caller=${id}`);
    expect(body.refusals[0].advice).toMatch(/^The ban is over\./);
  });

  test('the reason of a lift is recorded, and one that is no short line lifts nothing', async () => {
    const { id, key } = await make({ plan: 'small' });
    const banned = async () => {
      for (let i = 0; i < 14; i++) await gateway.get('/v1/pets', key);
    };
    const lift = (query: string) => ask(gateway, 'DELETE', `/admin/bans/${id}${query}`);
    await banned();
    for (const wrong of ['x'.repeat(201), 'a%0Ab']) {
      const { status, body } = await lift(`?reason=${wrong}`);
      expect([status, body.code]).toEqual([400, 'invalid_request']);
    }
    expect((await lift('?why=TICKET-12')).status).toBe(400);
    expect((await lift('?reason=TICKET-12')).status).toBe(200);
    await banned();
    expect((await lift('')).status).toBe(200);
    await banned();
    expect((await lift('?reason=')).status).toBe(200);
    const { body } = await ask(gateway, 'GET', `/admin/audit?key=${id}&action=ban.lift`);
    const done = body.changes.filter(({ outcome }: { outcome: string }) => outcome === 'done');
    expect(done.map(({ before, after }: { before: null; after: object }) => [before, after])).toEqual([
      [null, null],
      [null, null],
      [null, { reason: 'TICKET-12' }],
    ]);
  });

  test('a reset gives the whole limit again, a ban stays and is told', async () => {
    const { id, key } = await make({ plan: 'daily' });
    await exhaust(key);
    expect((await ask(gateway, 'POST', `/admin/keys/${id}/usage/reset`)).body).toEqual({
      id,
      windows: ['day'],
      ban: null,
    });
    expect(await admitted(key, 4)).toBe(2);
    const banned = await make({ plan: 'small' });
    for (let i = 0; i < 14; i++) await gateway.get('/v1/pets', banned.key);
    const told = await ask(gateway, 'POST', `/admin/keys/${banned.id}/usage/reset`, { windows: ['minute'] });
    expect(told.body).toEqual({
      id: banned.id,
      windows: ['minute'],
      ban: { number: 1, until: expect.any(Number) },
    });
    expect(await (await gateway.get('/v1/pets', banned.key)).json()).toMatchObject({ code: 'api_key_banned' });
    expect((await ask(gateway, 'DELETE', `/admin/bans/${banned.id}`)).body.spent).toEqual([]);
    expect(await admitted(banned.key, 1)).toBe(1);
  });

  test('both by a command are obeyed within a second by every gateway', async () => {
    const { id, key } = await make({ plan: 'daily' });
    await exhaust(key);
    const toppedUp = await gateway.command('keys', 'topup', id, '--window', 'day', '--amount', '2');
    expect(toppedUp).toMatchObject({ code: 0, stderr: '' });
    for (const each of all) {
      await eventually(async () => expect((await each.get('/v1/pets', key)).status).toBe(200), SOON);
    }
    await exhaust(key);
    expect(await gateway.command('usage', 'reset', id)).toMatchObject({ code: 0, stderr: '' });
    for (const each of all) {
      await eventually(async () => expect((await each.get('/v1/pets', key)).status).toBe(200), SOON);
    }
  });

  test('an Idempotency-Key makes each change once, and another change with it is 422', async () => {
    const { id, key } = await make({ plan: 'daily' });
    const header = { 'Idempotency-Key': 'a customer asked' };
    const topUp = (amount: number) =>
      ask(all.at(-1)!, 'POST', `/admin/keys/${id}/topups`, { window: 'day', amount }, header);
    const first = await topUp(3);
    const second = await topUp(3);
    expect([second.status, second.body]).toEqual([200, first.body]);
    expect([first, second].map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true']);
    expect((await topUp(4)).body).toMatchObject({ status: 422, code: 'idempotency_key_reused' });
    expect(await admitted(key, 7)).toBe(5);
    const reset = () =>
      ask(gateway, 'POST', `/admin/keys/${id}/usage/reset`, undefined, { 'Idempotency-Key': 'reset' });
    await reset();
    expect(await admitted(key, 7)).toBe(5);
    expect((await reset()).headers.get('idempotency-replayed')).toBe('true');
    expect(await admitted(key, 2)).toBe(0);
  });

  test('each change is in the record and in the log, with what it was before and is after', async () => {
    const { id, key } = await make({ plan: 'daily' });
    const header = { 'Idempotency-Key': 'once' };
    await admitted(key, 3);
    await ask(gateway, 'POST', `/admin/keys/${id}/topups`, { window: 'day', amount: 4 }, header);
    await ask(gateway, 'POST', `/admin/keys/${id}/topups`, { window: 'day', amount: 4 }, header);
    await ask(gateway, 'POST', `/admin/keys/${id}/topups`, { window: 'hour', amount: 4 });
    await ask(gateway, 'POST', `/admin/keys/${id}/usage/reset`);
    const { changes } = (await ask(gateway, 'GET', `/admin/audit?key=${id}`)).body;
    const expected = [
      {
        action: 'key.topup',
        outcome: 'done',
        before: { window: 'day', limit: 2 },
        after: { window: 'day', limit: 6, until: expect.stringMatching(/Z$/) },
      },
      { action: 'key.topup', outcome: 'unchanged', before: null, after: null },
      { action: 'key.topup', outcome: 'refused', code: 'invalid_request' },
      {
        action: 'usage.reset',
        outcome: 'done',
        before: { used: { day: 2 }, strikes: 0 },
        after: { used: { day: 0 }, strikes: 0 },
      },
    ];
    // Refused attempts of one minute are one entry, whose place is that of the first, perhaps of another test.
    const made = (changes as { outcome: string }[]).toReversed().filter(({ outcome }) => outcome !== 'refused');
    expect(made.slice(1)).toMatchObject(expected.filter(({ outcome }) => outcome !== 'refused'));
    expect(changes).toContainEqual(expect.objectContaining(expected[2]));
    const logged = expected.filter(({ outcome }) => outcome !== 'unchanged');
    await eventually(() => {
      const lines = auditLines(gateway).filter((line) => line.id === id);
      expect(lines.slice(1)).toMatchObject(logged);
    });
  });

  test.each([
    ['topups', { window: 'hour', amount: 1 }, 'does not count the hour (plan daily). The windows that it counts: day.'],
    ['topups', { window: 'minute', amount: 1 }, 'has no limit for the minute (plan daily). The windows that it counts'],
    ['topups', { window: 'year', amount: 1 }, 'window must be one of second, minute,'],
    ['topups', { window: 'day', amount: 0 }, 'amount must be a whole number from 1 to 999999999999999.'],
    ['topups', { window: 'day', amount: 1.5 }, 'amount must be a whole number from 1 to 999999999999999.'],
    ['topups', { window: 'day', amount: 999_999_999_999_999 }, 'Add at most 999999999999997.'],
    ['topups', { window: 'day' }, 'amount is missing: it must be a whole number'],
    ['topups', { window: 'day', amount: 1, until: 'soon' }, 'until must be window, today, a date such as'],
    ['topups', { window: 'day', amount: 1, until: '2026-01-01' }, 'has already passed; give one in the future.'],
    ['topups', { window: 'day', amount: 1, until: '2300-01-01' }, 'A top-up lasts at most 366 days.'],
    ['topups', { window: 'day', amount: 1, until: 'today', zone: 'Mars/One' }, 'zone must be the name of a time zone'],
    ['topups', { window: 'day', amount: 1, zone: 'UTC' }, 'zone is for until "today"; leave it out.'],
    ['topups', { window: 'day', amount: 1, reason: 'x'.repeat(201) }, 'The reason must be at most 200 characters'],
    ['topups', { window: 'day', amount: 1, reason: 'a\nb' }, 'in one line, without control characters.'],
    ['usage/reset', { windows: ['hour'] }, 'does not count the hour'],
    ['usage/reset', { windows: [] }, 'windows must be an array of different windows'],
    ['usage/reset', { windows: ['day', 'day'] }, 'windows must be an array of different windows'],
  ])('%s with %j is refused with what to do', async (path, body, message) => {
    const { id } = await make({ plan: 'daily' });
    const told = await ask(gateway, 'POST', `/admin/keys/${id}/${path}`, body);
    expect(told.body).toMatchObject({ status: 400, code: 'invalid_request' });
    expect(told.body.message).toContain(message);
  });

  test('a key that is revoked, or that there is not, is refused as elsewhere', async () => {
    const { id } = await make({ plan: 'daily' });
    await ask(gateway, 'DELETE', `/admin/keys/${id}`);
    for (const [method, path, body] of [
      ['POST', 'topups', { window: 'day', amount: 1 }],
      ['DELETE', 'topups/day', undefined],
      ['POST', 'usage/reset', undefined],
    ] as const) {
      expect((await ask(gateway, method, `/admin/keys/${id}/${path}`, body)).body).toMatchObject({
        status: 409,
        message: `Key ${id} is revoked; nothing of it is counted any more.`,
      });
      expect((await ask(gateway, method, `/admin/keys/key_none/${path}`, body)).body).toMatchObject({
        status: 404,
        message: 'There is no key key_none.',
      });
    }
  });
});
