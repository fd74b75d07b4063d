import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { metricsOf, startEncrypted } from '../../support/encrypted.ts';
import { startUpstream, type Upstream } from '../../support/upstream.ts';
import { HTTP2_CASES, type Http2Case, MAX_STREAMS } from './http2-cases.ts';
import { isServed, type Played, pathOf, playHttp2 } from './http2-play.ts';

const ROUTES = `
  - { path: /h2spec/**, methods: [GET, HEAD, POST], upstream: store, auth: none, limits: { minute: 1000000 } }
  - { path: /further, methods: [GET], upstream: store, auth: none, limits: { minute: 1000000 } }
`;
const AT_A_TIME = 32;

let gateway: Awaited<ReturnType<typeof startEncrypted>>['gateway'];
let upstream: Upstream;
/** By id: what came of the case, and whether the gateway served a new session afterwards. */
const played = new Map<string, Played & { readonly servedAfterwards: boolean }>();

beforeAll(async () => {
  upstream = await startUpstream();
  const started = await startEncrypted({
    upstream: upstream.origin,
    listen: { http2: `{ maxStreams: ${MAX_STREAMS} }` },
    routes: ROUTES,
  });
  gateway = started.gateway;
  const left = HTTP2_CASES.values();
  const walk = async () => {
    for (const it of left) {
      const outcome = await playHttp2(it, gateway.port, started.ca);
      played.set(it.id, { ...outcome, servedAfterwards: await isServed(gateway.port, started.ca) });
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, walk));
});

test('h2spec has 147 cases, and each is here', () => {
  expect(new Set(HTTP2_CASES.map(({ id }) => id)).size).toBe(147);
});

test('http2.md has a row for each case in which the gateway differs', async () => {
  const table = HTTP2_CASES.flatMap(({ id, what, differs }) =>
    differs === undefined ? [] : [`| ${id} | ${what} | ${differs.outcome} | ${differs.because} |`],
  );
  const page = await readFile(join(import.meta.dirname, 'http2.md'), 'utf8');
  expect(page.split('\n').filter((line) => /^\| (generic|http2|hpack)\//.test(line))).toEqual(table);
});

describe('h2spec', () => {
  test.for(HTTP2_CASES.map((it) => ({ ...it, title: `${it.id}: ${it.what} (RFC ${it.rfc})` })))(
    '$title',
    async (it, { task }) => {
      const { id } = it;
      const verdict = it.differs === undefined ? 'conforms' : 'differs';
      task.meta.conformance = { suite: 'h2spec', id, cases: 1, verdict, reason: it.differs?.because };
      const { outcome, said, furtherErrors, end, servedAfterwards } = played.get(id)!;
      const inFull = `The gateway said ${said.join(', ')}`;
      if (it.differs === undefined) expect(it.expect, inFull).toContain(outcome);
      else {
        expect(it.expect, 'It does not differ').not.toContain(it.differs.outcome);
        expect(outcome, inFull).toBe(it.differs.outcome);
      }
      expect(furtherErrors, inFull).toEqual([]);
      expect(end, inFull).not.toBe('neither');
      expect(servedAfterwards).toBe(true);
      const forwarded = requestsOf(it);
      const whole = (await Promise.all(forwarded.map((request) => request.whole))).filter(Boolean).length;
      if (it.forwarded !== undefined) expect(whole).toBe(it.forwarded);
      if (it.field !== undefined) expect(forwarded[0]?.values(it.field[0])).toEqual([it.field[1]]);
    },
  );
});

test('nothing is left of all these sessions, and no request reached the upstream that is not one of theirs', async () => {
  await eventually(async () => {
    const metrics = await metricsOf(gateway);
    for (const name of ['connections', 'in_flight', 'upstream_in_flight{upstream="store"}']) {
      expect(metrics.split('\n')).toContain(`tollgate_${name} 0`);
    }
  });
  const paths = new Set([...HTTP2_CASES.map(pathOf), '/further']);
  expect(upstream.requests.map(({ url }) => url).filter((url) => !paths.has(url))).toEqual([]);
  // The gateway breaks off a request whose body turns out to be malformed.
  const brokenOff = ['ECONNRESET', 'HPE_INVALID_EOF_STATE'];
  expect(upstream.refused.filter((error) => !brokenOff.includes((error as NodeJS.ErrnoException).code!))).toEqual([]);
  await gateway.process.stop();
  expect(gateway.process.stdout).not.toMatch(/a defect|uncaught/);
  expect(gateway.process.stderr).toBe('');
});

const requestsOf = (it: Http2Case) => upstream.requests.filter(({ url }) => url === pathOf(it));
