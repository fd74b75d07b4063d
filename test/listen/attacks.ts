import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

/** `[what, bytes, statuses allowed]`; 400 alone by default. */
export type Refused = readonly [what: string, bytes: () => string, allowed?: readonly number[]];
/** `[what, bytes, what the upstream gets as the body]`: no error, and one request with one meaning. */
export type Served = readonly [what: string, bytes: () => string, body: string];

/**
 * A gateway and its upstream for a file of attacks. After each test: whatever the bytes were, none of them was read as a
 * second request, nothing unreadable was forwarded, and the process lives on.
 */
export function attackedGateway() {
  let gateway: TestGateway;
  let upstream: Upstream;
  let key: string;

  beforeAll(async () => {
    upstream = await startUpstream();
    gateway = await startGateway({ upstream: upstream.origin });
    ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
  });

  afterEach(async () => {
    // Nothing that was forwarded is unreadable, but for what was broken off on purpose.
    expect(upstream.refused.filter((error) => !('code' in error && error.code === 'HPE_INVALID_EOF_STATE'))).toEqual(
      [],
    );
    expect(upstream.requests.map(({ url }) => url).filter((url) => url.includes('smuggled'))).toEqual([]);
    expect((await gateway.get('/v1/pets?alive', key)).status).toBe(200);
  });

  // The last lines of the log are written at the end.
  afterAll(async () => {
    await gateway.process.stop();
    expect(gateway.process.stdout + gateway.process.stderr).not.toMatch(/a defect|uncaught/i);
  });

  const send = (bytes: string) =>
    rawExchange(gateway.port, bytes, { until: 'closed', methods: [bytes.trimStart().split(' ')[0] as string] });

  async function expectRefused(bytes: string, allowed: readonly number[] = [400]): Promise<void> {
    const seen = upstream.requests.length;
    const { responses, closed } = await send(bytes);
    expect(responses.length).toBeLessThanOrEqual(1);
    for (const { status } of responses) expect(allowed).toContain(status);
    expect(closed).toBe(true);
    const requests = upstream.requests.slice(seen);
    expect(requests.length).toBeLessThanOrEqual(1);
    // What broke in its body never counts as whole.
    for (const request of requests) expect(await request.whole).toBe(false);
  }

  async function expectServed(bytes: string, body: string): Promise<void> {
    const seen = upstream.requests.length;
    const { responses } = await rawExchange(gateway.port, bytes);
    expect(responses.map(({ status }) => status)).toEqual([200]);
    expect(upstream.requests).toHaveLength(seen + 1);
    expect(upstream.requests.at(-1)?.body.toString('latin1')).toBe(body);
  }

  return {
    get gateway() {
      return gateway;
    },
    get upstream() {
      return upstream;
    },
    /** The Host and Authorization lines of a good request. */
    own: () => `Host: a\r\nAuthorization: Bearer ${key}\r\n`,
    /** The statuses that bytes bring about, one of them a second request with no key of its own. */
    async expectStatuses(bytes: string, statuses: readonly number[]): Promise<void> {
      const seen = upstream.requests.length;
      const { responses } = await rawExchange(gateway.port, bytes, { until: statuses.length });
      expect(responses.map(({ status }) => status)).toEqual(statuses);
      expect(upstream.requests).toHaveLength(seen + statuses.filter((status) => status === 200).length);
    },
    /** Each of these is refused, closes the connection, and gives at most one upstream request, which is broken off. */
    refuses: (attack: string, cases: readonly Refused[]) =>
      describe(attack, () => {
        for (const [what, bytes, allowed] of cases) {
          test(`${what} is refused, and the connection ends there`, () => expectRefused(bytes(), allowed));
        }
      }),
    serves: (attack: string, cases: readonly Served[]) =>
      describe(attack, () => {
        for (const [what, bytes, body] of cases) {
          test(`${what} is one request`, () => expectServed(bytes(), body));
        }
      }),
  };
}

/** What an attacker would like to have served. It has no key, so that it shows as 401 where it is a request at all. */
export const SMUGGLED = 'GET /v1/pets?smuggled HTTP/1.1\r\nHost: a\r\n\r\n';
