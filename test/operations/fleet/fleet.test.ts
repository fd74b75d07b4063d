import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { windowLimit } from '../../../src/admit/windows.ts';
import { Failure } from '../../../src/failure.ts';
import type { Exchange } from '../../../src/gateway/exchange.ts';
import { packedRecord, unpackedPart } from '../../../src/operations/fleet/decided-parts.ts';
import { Fleet } from '../../../src/operations/fleet/fleet.ts';
import type { FleetStore } from '../../../src/operations/fleet/fleet-store.ts';
import { recentRecordOf } from '../../../src/operations/fleet/recent-record-of-fleet.ts';
import type { GatewayBatch } from '../../../src/operations/fleet/tails.ts';
import type { GatewayFacts, LiveQuestion, LocalAnswer } from '../../../src/operations/live/shapes.ts';
import { packed, sumOf, unpacked } from '../../../src/operations/live/traffic.ts';
import { EmbeddedFleet } from '../../../src/stores/embedded/fleet.ts';
import { RecentRequests } from '../../../src/telemetry/recent-requests.ts';
import { eventually } from '../../support/conditions.ts';
import { countedWindowsOf } from '../../support/counted-windows.ts';
import { atEnd } from '../../support/endings.ts';
import { LATE_MS } from '../../support/room.ts';

const NOTHING_FOUND = { refusals: [], calls: null };

const FACTS: GatewayFacts = {
  ...{ host: 'h', address: 'http://10.0.0.1:8080', version: '1', startedAt: '2026-01-01T00:00:00.000Z', workers: 1 },
  ...{
    ready: true,
    draining: false,
    store: 'present',
    outage: null,
    settings: 'in_force',
    faults: [],
    memory: 'enough',
  },
  ...{ versions: { settings: 'a', plans: 'b' }, certificate: null, connections: 0, inFlight: 0, upstreams: [] },
};
const EVERYTHING = { plan: null, key: null, route: null, verdict: null, status: null };

const SILENT = { report: null, readsReports: false, questions: new Map(), answers: [], ends: new Map() };

/** A fleet whose requests the test makes up. */
function fleetOn(store: FleetStore, id: string, facts: Partial<GatewayFacts> = {}, wallMs = () => Date.now()) {
  const recent = new RecentRequests(() => Date.now());
  const asked: LiveQuestion[] = [];
  const defects: unknown[] = [];
  const fleet = new Fleet({
    explanations: async () => ({ keep: async () => {}, of: async () => [] }),
    id,
    local: {
      ask: async (question): Promise<LocalAnswer> => {
        asked.push(question);
        return { facts: { ...FACTS, ...facts }, seen: recent.answer(question) };
      },
      decidedColumns: async () => [recent.decidedColumns()],
    },
    store: async () => store,
    wallMs,
    monotonicMs: () => performance.now(),
    onDefect: (error) => defects.push(error),
  });
  atEnd(() => fleet.close());
  return { fleet, recent, asked, defects };
}

type Clocked = ReturnType<typeof fleetOn> & { readonly nowMs: () => number };

/** A store that the test can take away. */
function breakable() {
  const store = new EmbeddedFleet({ wallMs: () => Date.now() });
  const state = { isAway: false };
  const guarded: FleetStore = {
    exchange: async (message) => {
      if (state.isAway) throw new Failure('store_unavailable', 'away');
      return store.exchange(message);
    },
    leavePart: (name, bytes) => store.leavePart(name, bytes),
    takePart: (name) => store.takePart(name),
    leave: (id) => store.leave(id),
  };
  return { state, guarded, store };
}

describe('the record of recent requests', () => {
  const decided = (consumerId: string, decidedAtMs: number) =>
    ({
      ...{ consumerId, decidedAtMs, plan: 'free', cost: 1, limits: [windowLimit('minute', 60)] },
      windows: countedWindowsOf([windowLimit('minute', 60)], [5]),
      ...{ method: 'GET', path: '/v1/pets', route: '/v1/pets' },
      ...{
        judgement: 'admitted',
        source: 'store',
        imposedBan: null,
        status: 200,
        code: null,
        clientAddress: '10.0.0.1',
      },
    }) as unknown as Exchange;

  async function readOf(fleet: Fleet) {
    const ids: string[] = [];
    const told = await recentRecordOf(await fleet.records.collect()).read((requests) => {
      ids.push(...requests.map(({ consumerId, atMs }) => `${consumerId} ${atMs}`));
      return true;
    });
    return { ids: ids.sort(), ...told! };
  }

  async function two(store: FleetStore) {
    const [here, there] = [fleetOn(store, 'a'), fleetOn(store, 'b')];
    await eventually(async () => expect((await here.fleet.presence.gateways()).gateways).toHaveLength(2), {
      withinMs: 6_000,
    });
    return { here, there };
  }

  test('has the requests of all gateways, up to the moment of the question', async () => {
    const { here, there } = await two(breakable().guarded);
    here.recent.note(decided('x', 1));
    for (let i = 0; i < 5_000; i++) there.recent.note(decided('y🐟', i));
    there.recent.note(decided('late', Date.now() + 60_000));
    const { ids, about, isComplete } = await readOf(here.fleet);
    expect([ids.length, ids[0], isComplete]).toEqual([5_001, 'x 1', true]);
    expect(about).toBe(
      'The last 5001 requests of identified callers that 2 of 2 gateways decided since 1970-01-01T00:00:00.000Z.',
    );
    expect(ids.filter((id) => id.startsWith('late'))).toEqual([]);
  });

  test('is of this gateway alone while the store is away, and says that it is not complete', async () => {
    const { state, guarded } = breakable();
    const { here, there } = await two(guarded);
    here.recent.note(decided('x', 1));
    there.recent.note(decided('y', 2));
    state.isAway = true;
    const { ids, about, isComplete } = await readOf(here.fleet);
    expect([ids, isComplete]).toEqual([['x 1'], false]);
    expect(about).toContain('are not among them');
  });

  test('leaves out what somebody else has put in place of a part, and says so', async () => {
    const foreign: readonly unknown[] = [
      'no JSON',
      {},
      { ...SOUND_PART, costs: [] },
      { ...SOUND_PART, atMs: ['1'] },
      { ...SOUND_PART, judgements: [3] },
      { ...SOUND_PART, limits: [1] },
      { ...SOUND_PART, limitSets: [{ fortnight: 1 }] },
      { ...SOUND_PART, consumerIds: [null] },
      { ...SOUND_PART, customerIds: [1] },
      { ...SOUND_PART, paths: [] },
      { ...SOUND_PART, units: [] },
      { ...SOUND_PART, units: [{ tokens: { reserved: 1 } }] },
      { ...SOUND_PART, units: [{ tokens: null }] },
    ];
    for (const one of foreign) expect(await unpackedPart(gzipSync(JSON.stringify(one)))).toBeNull();
    expect(await unpackedPart(Buffer.from('x'))).toBeNull();
    expect(await unpackedPart(gzipSync(Buffer.alloc(64 * 1024 * 1024)))).toBeNull();
    // As earlier versions leave it, and as this version does.
    expect(await unpackedPart(gzipSync(JSON.stringify(SOUND_PART)))).toMatchObject({
      ...{ consumerIds: ['x'], customerIds: [null], methods: [''], paths: [null], units: null },
    });
    const units = [{ tokens: { reserved: 5, settled: 3 } }];
    const inUnits = await unpackedPart(gzipSync(JSON.stringify({ ...SOUND_PART, units })));
    expect(inUnits).toMatchObject({ units });
    for await (const part of packedRecord([inUnits!])) expect(await unpackedPart(part)).toEqual(inUnits);
    const whole = { ...SOUND_PART, customerIds: ['cus_a'], methods: ['GET'], paths: ['/a'] };
    const ofCustomer = { ...whole, limitSets: [{ minute: 1, 'customer-search-minute': 2 }] };
    expect(await unpackedPart(gzipSync(JSON.stringify(ofCustomer)))).toMatchObject({
      customerIds: ['cus_a'],
      paths: ['/a'],
    });
    const { guarded } = breakable();
    const takePart = async () => gzipSync(JSON.stringify({}));
    const { here, there } = await two({ ...guarded, takePart });
    here.recent.note(decided('x', 1));
    there.recent.note(decided('y', 2));
    expect(await readOf(here.fleet)).toMatchObject({ ids: ['x 1'], isComplete: false });
  });

  test('of one gateway is at most what was asked for: its newest requests, and it says that some are missing', async () => {
    const { guarded, store } = breakable();
    const { here, there } = await two(guarded);
    for (let i = 0; i < 5_000; i++) there.recent.note(decided(`y${Math.random()}`, 1 + i));
    const left: number[] = [];
    guarded.leavePart = async (name, bytes) => {
      left.push(bytes.length);
      return store.leavePart(name, bytes);
    };
    await readOf(here.fleet);
    expect(left).toHaveLength(3);
    const asked = { id: 'c', report: null, readsReports: false, answers: [], ends: new Map() };
    const questions = new Map([['c 1', JSON.stringify({ record: left[0]! + left[1]! - 1 })]]);
    const answers: unknown[] = [];
    await eventually(
      async () => {
        answers.push(...(await store.exchange({ ...asked, questions })).answers.map((text) => JSON.parse(text)));
        expect(answers).toContainEqual({ record: 'c 1', gateway: 'b', parts: 1, isWhole: false });
      },
      { withinMs: 4_000 },
    );
    const newest = await unpackedPart((await store.takePart('c 1 b 0'))!);
    expect([newest!.atMs[0], newest!.atMs.at(-1)]).toEqual([3_001, 5_000]);
    expect(await store.takePart('c 1 b 1')).toBeNull();
  });
});

const SOUND_PART = {
  ...{ atMs: [1], costs: [1], imposedBans: [0], remaining: [0], judgements: [0], sources: [0], consumerIds: ['x'] },
  ...{ plans: ['free'], limits: [0], limitSets: [{ minute: 1 }] },
};

describe('the end of somebody’s sessions', () => {
  test('reaches the other gateways, also if the store was away when it was made', async () => {
    const { state, guarded } = breakable();
    const [here, there] = [fleetOn(guarded, 'a'), fleetOn(guarded, 'b')];
    const heard: unknown[] = [];
    there.fleet.sessionEnds.onEnd((name, beforeMs) => heard.push([name, beforeMs]));
    state.isAway = true;
    const beforeMs = Date.now();
    here.fleet.sessionEnds.end('Jo', beforeMs);
    expect(here.fleet.sessionEnds.endedBefore('Jo')).toBe(beforeMs);
    await here.fleet.presence.gateways();
    expect(there.fleet.sessionEnds.endedBefore('Jo')).toBe(0);
    state.isAway = false;
    await eventually(() => expect(heard).toHaveLength(1), { withinMs: 5_000 });
    expect(there.fleet.sessionEnds.endedBefore('Jo')).toBeGreaterThanOrEqual(beforeMs);
    expect(there.fleet.sessionEnds.endedBefore('Jo')).toBeLessThan(beforeMs + LATE_MS);
    expect(here.fleet.sessionEnds.endedBefore('Jo')).toBe(beforeMs);
    expect(there.fleet.sessionEnds.endedBefore('Ann')).toBe(0);
    const late = fleetOn(guarded, 'c');
    await eventually(() => expect(late.fleet.sessionEnds.endedBefore('Jo')).toBeGreaterThanOrEqual(beforeMs));
  });

  test('is translated from the clock of one gateway to that of another, and an hour that one is ahead hides no later end (reliability 167)', async () => {
    const { guarded } = breakable();
    const HOUR_MS = 3_600_000;
    const clocks = { ahead: () => Date.now() + HOUR_MS, right: () => Date.now(), behind: () => Date.now() - HOUR_MS };
    const [ahead, right, behind] = (['ahead', 'right', 'behind'] as const).map((id) => ({
      ...fleetOn(guarded, id, {}, clocks[id]),
      nowMs: clocks[id],
    })) as [Clocked, Clocked, Clocked];
    for (const from of [ahead, right, behind]) {
      const heard: [Clocked, number][] = [];
      const others = [ahead, right, behind].filter((one) => one !== from);
      const leave = others.map((one) => one.fleet.sessionEnds.onEnd((_, beforeMs) => heard.push([one, beforeMs])));
      const saidAtMs = performance.now();
      from.fleet.sessionEnds.end('Jo', from.nowMs());
      await eventually(() => expect(heard).toHaveLength(2), { withinMs: 5_000 });
      const tookMs = performance.now() - saidAtMs;
      for (const [one, beforeMs] of heard) expect(one.nowMs() - beforeMs).toBeLessThan(tookMs + LATE_MS);
      for (const [one, beforeMs] of heard) expect(one.nowMs() - beforeMs).toBeGreaterThanOrEqual(0);
      for (const end of leave) end();
    }
  });
});

describe('a gateway', () => {
  test('that ends is not listed any more, and one that reports again is', async () => {
    const { guarded } = breakable();
    const [here, there] = [fleetOn(guarded, 'a'), fleetOn(guarded, 'b')];
    const ids = async () => (await here.fleet.presence.gateways()).gateways.map(({ id }) => id);
    await eventually(async () => expect(await ids()).toEqual(['a', 'b']), { withinMs: 6_000 });
    await there.fleet.close();
    await eventually(async () => expect(await ids()).toEqual(['a']), { withinMs: 3_000 });
  });

  test('says how many gateways there were before the store was away', async () => {
    const { state, guarded } = breakable();
    const [here] = [fleetOn(guarded, 'a'), fleetOn(guarded, 'b')];
    const known = () => here.fleet.presence.gateways();
    await eventually(async () => expect((await known()).gateways).toHaveLength(2), { withinMs: 6_000 });
    expect((await known()).lastKnown).toBeNull();
    state.isAway = true;
    await eventually(async () =>
      expect(await known()).toMatchObject({
        complete: false,
        gateways: [{ id: 'a' }],
        lastKnown: { gateways: 2, at: expect.stringMatching(/Z$/) },
      }),
    );
    state.isAway = false;
    await eventually(async () => expect((await known()).lastKnown).toBeNull(), { withinMs: 6_000 });
  });

  test('leaves a report of at most 8 KiB, however many targets it has', async () => {
    const { guarded, store } = breakable();
    const targets = Array.from({ length: 500 }, (_, i) => ({ name: `http://10.0.0.${i}:8080`, usable: i !== 3 }));
    fleetOn(guarded, 'a', { upstreams: [{ name: 'store', inFlight: 1, targets }] });
    const other = fleetOn(guarded, 'b');
    await eventually(
      async () => {
        const shown = (await other.fleet.presence.gateways()).gateways.find(({ id }) => id === 'a');
        expect(shown?.upstreams[0]?.targets).toEqual([{ name: 'http://10.0.0.3:8080', usable: false }]);
      },
      { withinMs: 6_000 },
    );
    const { reports } = await store.exchange({ ...SILENT, id: 'x', readsReports: true });
    for (const { text } of reports) expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8_192);
  });

  test('goes on if the store holds reports, questions and answers that make no sense', async () => {
    const { guarded, store } = breakable();
    const here = fleetOn(guarded, 'a');
    const nonsense = [
      '',
      '{',
      'null',
      '[]',
      '"x"',
      '{"clock":1,"facts":{},"traffic":[1,[[1,2],5]],"near":[1,null,[]]}',
    ];
    const questions = new Map<string, string>();
    const others = ['{"tail":5}', '{"tail":{"plan":5,"status":{}}}', '{"explain":7}', '{"tail":[]}'];
    for (const [i, text] of [...nonsense, ...others].entries()) {
      questions.set(`x ${i}`, text);
    }
    const answers = [...nonsense, '{"gateway":"x","tail":"a 1","requests":5}'].map((text) => ({ to: 'a', text }));
    for (const [i, report] of nonsense.entries()) {
      const message = { id: `x${i}`, report, readsReports: false, questions, answers, ends: new Map() };
      await store.exchange(message);
    }
    here.fleet.tails.open(EVERYTHING, () => {});
    await eventually(() => expect(here.asked.some(({ tails }) => tails.some(({ id }) => id === 'x 7'))).toBe(true));
    const tails = here.asked.flatMap((question) => question.tails.filter(({ id }) => id === 'x 7'));
    expect(tails[0]!.filter).toEqual(EVERYTHING);
    expect((await here.fleet.presence.gateways()).complete).toBe(true);
    expect((await here.fleet.presence.traffic()).buckets).toHaveLength(120);
    expect(await here.fleet.explanations.find({ requestId: 'r' })).toEqual(NOTHING_FOUND);
    expect(here.defects).toEqual([]);
  });

  test('passes on nothing of another gateway that has not the form it should have (reliability 166)', async () => {
    const { guarded, store } = breakable();
    const here = fleetOn(guarded, 'a');
    const batches: GatewayBatch[] = [];
    here.fleet.tails.open(EVERYTHING, (batch) => batches.push(batch));
    // JSON can make an object that no text and no number can be made of.
    const hostile = { toString: null, valueOf: null, toJSON: 1 };
    const request = {
      ...{ at: new Date().toISOString(), requestId: 'r', method: 'GET', path: '/', route: null, consumerId: null },
      ...{ plan: null, verdict: 'admitted', status: 200, code: null, window: null, totalMs: 1, clientAddress: '::1' },
    };
    const rows = [
      [hostile, 'p', 'minute', 1, 0, 1],
      ['key_x', 'p', 'minute', hostile, 0, 1],
      ['key_y', 'p', 'eon', 1, 0, 1],
    ];
    const near = [...rows, ['key_near', 'free', 'minute', 1, 0.1, Date.now()]];
    const report = { clock: Date.now(), facts: FACTS, traffic: [0, [[hostile]]], near };
    const reports = {
      other: { ...report, facts: { ...FACTS, id: 'a', self: true, seenAt: hostile } },
      incomplete: { ...report, facts: { ...FACTS, upstreams: undefined } },
      odd: { ...report, facts: { ...FACTS, certificate: { expiresAt: hostile } } },
    };
    const tail = (requests: unknown, skipped: unknown = 0) => ({ tail: 'a 1', gateway: 'other', requests, skipped });
    const answers = [
      tail([null, hostile, { ...request, at: hostile }, { ...request, at: 'noon' }, { ...request, secret: 's' }]),
      tail([], hostile),
      { explain: 'a 2', gateway: 'other', host: hostile, refusals: [] },
      { explain: 'a 2', gateway: 'other', host: 'h', refusals: [], calls: { last: hostile } },
      { explain: 'a 2', gateway: 'other', host: 'h', refusals: [null, { requestId: 'r', at: hostile }] },
    ];
    for (const [id, text] of Object.entries(reports)) {
      await store.exchange({ ...SILENT, id, report: JSON.stringify(text) });
    }
    await store.exchange({
      ...SILENT,
      id: 'x',
      answers: answers.map((one) => ({ to: 'a', text: JSON.stringify(one) })),
    });
    await eventually(() => expect(batches.flatMap(({ requests }) => requests)).toEqual([request]));
    expect(batches.every(({ skipped }) => skipped === 0)).toBe(true);
    const { gateways } = await here.fleet.presence.gateways();
    expect(gateways.map(({ id, self }) => [id, self])).toEqual([
      ['a', true],
      ['other', false],
    ]);
    expect((await here.fleet.presence.near()).map(({ id }) => id)).toEqual(['key_near']);
    expect((await here.fleet.presence.traffic()).buckets).toHaveLength(120);
    expect(here.defects).toEqual([]);
  });

  test('looks for 20 refusals at a time, and then for others', async () => {
    const { guarded } = breakable();
    const here = fleetOn(guarded, 'a');
    const found = await Promise.all(
      Array.from({ length: 30 }, (_, i) => here.fleet.explanations.find({ requestId: `r${i}` })),
    );
    expect(found).toEqual([...Array(20).fill(NOTHING_FOUND), ...Array(10).fill(null)]);
    expect(await here.fleet.explanations.find({ requestId: 'again' })).toEqual(NOTHING_FOUND);
  });

  test('asks and answers in the words that gateways of the previous version read and write, but for a caller', async () => {
    const { guarded } = breakable();
    const [asked, answered] = [new Set<string>(), new Set<string>()];
    const store: FleetStore = {
      ...guarded,
      exchange: async (message) => {
        for (const [id, text] of message.questions) asked.add(`${id}: ${text}`);
        for (const { to, text } of message.answers) answered.add(`${to}: ${text}`);
        return guarded.exchange(message);
      },
    };
    const [here] = [fleetOn(store, 'a'), fleetOn(store, 'b')];
    await eventually(async () => expect((await here.fleet.presence.gateways()).gateways).toHaveLength(2), {
      withinMs: 6_000,
    });
    here.fleet.tails.open({ ...EVERYTHING, plan: 'free' }, () => {});
    await here.fleet.explanations.find({ requestId: 'r' });
    await here.fleet.explanations.find({ caller: 'key_a' });
    await here.fleet.records.collect();
    expect([...asked].sort()).toEqual([
      'a 1: {"tail":{"plan":"free","key":null,"route":null,"verdict":null,"status":null}}',
      'a 2: {"explain":"r"}',
      'a 3: {"caller":"key_a"}',
      'a 4: {"record":4194304}',
      'a watch: {}',
    ]);
    expect([...answered].sort()).toEqual([
      'a: {"explain":"a 2","gateway":"b","host":"h","refusals":[]}',
      'a: {"explain":"a 3","gateway":"b","host":"h","refusals":[],"calls":{"last":null,"admittedAt":null,"refusedSince":null}}',
      'a: {"record":"a 4","gateway":"b","parts":0,"isWhole":true}',
    ]);
  });

  test('ends the tails of a gateway that asks no longer', async () => {
    const { guarded } = breakable();
    const [here, there] = [fleetOn(guarded, 'a'), fleetOn(guarded, 'b')];
    const batches: GatewayBatch[] = [];
    const leave = here.fleet.tails.open(EVERYTHING, (batch) => batches.push(batch));
    const openThere = () => there.asked.at(-1)!.tails.length;
    await eventually(() => expect(openThere()).toBe(1), { withinMs: 5_000 });
    leave();
    await eventually(() => expect(openThere()).toBe(0), { withinMs: 9_000 });
  });
});

test('traffic is the same after it was packed as text and read again, and is moved by the difference of the clocks', () => {
  const counts = Uint32Array.from({ length: 120 * 9 }, (_, i) => (i % 7 === 0 ? i : 0));
  const text = JSON.stringify(packed({ lastStep: 1_000, counts }));
  expect(unpacked(JSON.parse(text), 3)).toEqual({ lastStep: 1_003, counts });
  const empty = { lastStep: 1_000, counts: new Uint32Array(120 * 9) };
  expect(unpacked(packed(empty), 0)).toEqual(empty);
  for (const wrong of [null, {}, [], [1], ['1', []], [1, 5], [1, Array(121).fill(0)], [1, [[...Array(10).keys()]]]]) {
    expect(unpacked(wrong, 0)).toBeNull();
  }
});

test('traffic is summed bucket by bucket: what is older than 10 minutes or later than the sum is left out', () => {
  const one = (lastStep: number) => ({ lastStep, counts: new Uint32Array(120 * 9).fill(1) });
  const { counts } = sumOf([one(100), one(98), one(101), one(300), one(-300)], 100);
  const firstColumn = Array.from({ length: 120 }, (_, i) => counts[i * 9]);
  expect(firstColumn.slice(0, 2)).toEqual([2, 3]);
  expect(firstColumn.slice(-3)).toEqual([3, 2, 2]);
});
