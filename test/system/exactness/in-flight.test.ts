import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, startReplica, type TestGateway } from '../../support/gateway.ts';
import { privateRedis } from '../../support/redis.ts';
import { ROOM } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';
import { PEPPER } from './fleet.ts';

/*
 * Requests in flight are bounded over all gateways (contract section 3): three real gateways on one real Redis.
 */

const LIMIT = 6;
const PLANS = `
plans:
  calm: { limits: { minute: 100000 }, in-flight: ${LIMIT} }
bans: off
`;
const ROUTES = `\n  - { path: '/v1/**', methods: [GET], upstream: store }`;

/** What reaches the service: requests wait there until the test answers them. */
class Service {
  readonly waiting = new Set<() => void>();
  most = 0;
  answersAtOnce = true;
  readonly #arrivals: (() => void)[] = [];

  /** Fulfilled when more than `present` requests wait. */
  async next(present: number): Promise<void> {
    while (this.waiting.size <= present) await new Promise<void>((resolve) => this.#arrivals.push(resolve));
  }

  take(answer: () => void, onGone: (gone: () => void) => void): void {
    const end = () => {
      this.waiting.delete(end);
      answer();
    };
    this.waiting.add(end);
    onGone(() => this.waiting.delete(end));
    this.most = Math.max(this.most, this.waiting.size);
    for (const arrival of this.#arrivals.splice(0)) arrival();
    if (this.answersAtOnce) setTimeout(end, 5 + Math.random() * 20);
  }

  answerAll(): void {
    for (const end of [...this.waiting]) end();
  }
}

const service = new Service();
let gateways: readonly TestGateway[];

beforeAll(async () => {
  const redis = await privateRedis();
  const upstream = await startUpstream((_request, response) => {
    service.take(
      () => response.writeHead(200, { 'content-length': 2 }).end('ok'),
      (gone) => response.on('close', gone),
    );
  });
  const env = { REDIS_URL: redis.url, KEY_PEPPER: PEPPER };
  const setup = { plans: PLANS, routes: ROUTES, env, more: 'redis: { timeout: 5s }' };
  const first = await startGateway({
    ...setup,
    upstream: upstream.origin,
    upstreamSettings: { fairShare: 1, responseTimeout: '60s' },
  });
  gateways = [first, await startReplica(first), await startReplica(first)];
});

/** Sends a request until one reaches the service, where it waits: a place is free a moment after the request that had it has ended. */
async function placed(gateway: TestGateway, key: string): Promise<{ readonly answer: Promise<Response> }> {
  for (;;) {
    const arrived = service.waiting.size;
    const answer = gateway.get('/v1/b', key);
    const isRefused = answer.then(({ status }) => status === 429);
    const hasArrived = service.next(arrived).then(() => false);
    if (!(await Promise.race([isRefused, hasArrived]))) return { answer };
  }
}

const codes = async (answers: readonly Promise<Response>[]) => {
  const all = await Promise.all(answers.map(async (answer) => (await answer).status));
  return { ok: all.filter((status) => status === 200).length, refused: all.filter((status) => status === 429).length };
};

test('the limit is never exceeded, and used in full, by three gateways at several times the load (reliability 281)', async () => {
  const { key } = await gateways[0]!.createKey('calm');
  const sent = { ok: 0, refused: 0 };
  const worker = async (i: number) => {
    for (let n = 0; n < 40; n++) {
      const { ok, refused } = await codes([gateways[(i + n) % 3]!.get('/v1/a', key)]);
      sent.ok += ok;
      sent.refused += refused;
    }
  };
  await Promise.all(Array.from({ length: 4 * LIMIT }, (_, i) => worker(i)));
  expect(service.most).toBe(LIMIT);
  expect(sent.ok + sent.refused).toBe(160 * LIMIT);
  // Nothing is left behind: all places are free.
  service.answersAtOnce = false;
  const all: Promise<Response>[] = [];
  for (let i = 0; i < LIMIT; i++) all.push((await placed(gateways[i % 3]!, key)).answer);
  expect(service.waiting.size).toBe(LIMIT);
  service.answerAll();
  expect(await codes(all)).toEqual({ ok: LIMIT, refused: 0 });
  service.answersAtOnce = true;
});

test(
  'what a killed gateway had in flight counts for at most ten seconds, and what others hold goes on counting (reliability 282)',
  async () => {
    const { key } = await gateways[0]!.createKey('calm');
    service.answersAtOnce = false;
    service.most = 0;
    const mine = Array.from({ length: 2 }, () => gateways[0]!.get('/v1/c', key));
    const theirs = Array.from({ length: LIMIT - 2 }, () => gateways[2]!.get('/v1/c', key).catch(() => null));
    await eventually(() => expect(service.waiting.size).toBe(LIMIT));
    expect((await gateways[1]!.get('/v1/c', key)).status).toBe(429);
    gateways[2]!.process.signal('SIGKILL');
    await Promise.all(theirs);
    await eventually(() => expect(service.waiting.size).toBe(2));
    const killedAtMs = performance.now();
    // Longer than the ten seconds: the requests of the gateway that lives are reported again and again meanwhile.
    const more: Promise<Response>[] = [];
    while (more.length < LIMIT - 2) {
      more.push((await placed(gateways[1]!, key)).answer);
      expect(performance.now() - killedAtMs).toBeLessThan(10_000 + 1_000 * ROOM);
    }
    expect((await gateways[1]!.get('/v1/d', key)).status).toBe(429);
    expect(service.most).toBe(LIMIT);
    service.answerAll();
    expect(await codes([...mine, ...more])).toEqual({ ok: LIMIT, refused: 0 });
  },
  120_000 * ROOM,
);
