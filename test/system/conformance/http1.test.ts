import { beforeAll, describe, expect, test } from 'vitest';
import { rawExchange } from '../../support/raw-http.ts';
import { SUITES } from './http1-cases.ts';
import { FRAGMENTS, restAfter } from './http1-fragments.ts';
import { answerOf, outcomesOf, type Row, servedIn, stepsOf, verdictOf } from './http1-row.ts';
import { comesFrom, fieldLines, type Played, type Stage, setStage } from './http1-stage.ts';

// The cases of uNetworking/h1spec and MDA2AV/Http11Probe against a running gateway: README.md beside this file.

let stage: Stage;
let played: ReadonlyMap<Row, Played>;

beforeAll(async () => {
  stage = await setStage();
  played = await stage.play(Object.values(SUITES).flat());
});

for (const [suite, rows] of Object.entries(SUITES)) {
  for (const row of rows) {
    test(`${suite} ${row.id}: ${row.title}`, ({ task }) => {
      const result = played.get(row)!;
      const verdict = verdictOf(row, result.outcome);
      task.meta.conformance = { suite, id: row.id, cases: 1, verdict, reason: row.differs };
      expect(outcomesOf(row, false)).toContain(result.outcome);
      expectRest(row, result);
    });
  }
}

/** What has to hold beside the outcome. */
function expectRest(row: Row, { outcome, answer, whole, broken }: Played): void {
  // Each request that was answered well has reached the upstream once, no other has reached it whole, and none of those
  // that stand in bodies has reached it at all.
  expect(whole).toHaveLength(servedIn(outcome));
  expect(whole.length + broken.length).toBeLessThanOrEqual(stepsOf(row).length);
  for (const { url } of [...whole, ...broken]) expect(url).not.toContain('smuggled');
  for (const [name, value] of Object.entries(row.has ?? {})) expect(answer?.header(name)).toMatch(value);
  for (const name of row.lacks ?? []) expect(answer?.header(name)).toBe(null);
  if (row.body !== undefined) {
    expect(whole[0]?.body.toString('latin1')).toBe(row.body);
    expect(answer?.body.toString('latin1')).toBe(row.body);
  }
  if (row.forwards !== undefined) expect(fieldLines(whole.at(-1)!)).toMatch(row.forwards);
  if (row.withholds !== undefined) expect(fieldLines(whole.at(-1)!)).not.toMatch(row.withholds);
}

test.each(FRAGMENTS)('h1spec $id, once more: the request is served when its rest has come', async (row) => {
  const { responses } = await rawExchange(stage.gateway.port, [String(row.sent), restAfter(row)], { pauseMs: 20 });
  expect(responses.map(({ status }) => status)).toEqual([200]);
});

if (process.env.CONFORMANCE === 'all') {
  test('every row gets the same answer when its bytes come in pieces, but for what the row says', async () => {
    const differ: string[] = [];
    for (const [row, result] of await stage.play(Object.values(SUITES).flat(), 40)) {
      if (outcomesOf(row, true).includes(result.outcome)) expectRest(row, result);
      else differ.push(`${row.id}: ${result.outcome}`);
    }
    expect(differ).toEqual([]);
  });
}

describe('all rows together', () => {
  test('are the 33 of h1spec and the 215 of Http11Probe, each once', () => {
    const ids = Object.entries(SUITES).map(([suite, rows]) => [suite, new Set(rows.map(({ id }) => id)).size]);
    expect(ids).toEqual([
      ['h1spec', 33],
      ['Http11Probe', 215],
    ]);
  });

  test('say why, where the gateway does not do what the suite would like best, and only there', () => {
    const rows = Object.values(SUITES).flat();
    const unsaid = rows.filter((row) => (verdictOf(row, answerOf(row)) === 'conforms') !== (row.differs === undefined));
    expect(unsaid.map(({ id }) => id)).toEqual([]);
  });

  test('brought nothing to the upstream that no row sent, or that could not be read', () => {
    const { requests, refused } = stage.upstream;
    expect(requests.filter(({ url }) => url.includes('smuggled'))).toEqual([]);
    expect(requests.filter((request) => !comesFrom(request).startsWith('127.'))).toEqual([]);
    // What is broken off in its body breaks off at the upstream, too.
    expect(refused.filter((error) => (error as NodeJS.ErrnoException).code !== 'HPE_INVALID_EOF_STATE')).toEqual([]);
  });

  test('left a gateway that serves, and that has seen no defect', async () => {
    expect((await stage.gateway.get('/')).status).toBe(200);
    await stage.gateway.process.stop();
    expect(stage.gateway.process.stdout + stage.gateway.process.stderr).not.toMatch(
      /a defect|uncaught|internal_error/i,
    );
  });
});
