import { describe, expect, test } from 'vitest';
import { parseLog } from '../../../../tools/bench/loaders/h2load.ts';
import { faultsOf, type LoadReport, parseReport } from '../../../../tools/bench/loaders/load.ts';
import { parseCommandStats } from '../../../../tools/bench/redis.ts';

const REPORT: LoadReport = {
  ...{ requests: 5000, durationUs: 1_000_500, status: 0, lateP99Us: 1, loaderCpuUs: 9.5 },
  ...{ connect: 0, read: 0, write: 0, timeout: 0, wrong: 0, p50Us: 900, p99Us: 4100 },
};
const OUTPUT = `Running 1s test @ http://127.0.0.1:8080
  1 threads and 32 connections
  5000 requests in 1.00s, 1.90MB read
Requests/sec:   4998.53

${JSON.stringify(REPORT)}
`;

describe('what wrk prints', () => {
  test('ends with the report of wrk.lua', () => {
    expect(parseReport('wrk', OUTPUT)).toEqual(REPORT);
  });

  test('is an error without it, with its own words', () => {
    expect(() => parseReport('wrk', 'unable to connect to 127.0.0.1:1 Connection refused')).toThrow(
      /Connection refused/,
    );
    expect(() => parseReport('wrk', '{"requests":1}')).toThrow('wrk reported no durationUs');
  });
});

test('the log of h2load has a line for each request; one that failed has taken no time that counts', () => {
  const log = '1700000000000000\t200\t900\n1700000000000900\t429\t100\n1700000000001000\t-1\t5000000\n';
  const report = { requests: 2, read: 1, status: 1, p50Us: 100, p99Us: 900, durationUs: 3e6, loaderCpuUs: null };
  expect(parseLog(log, 3)).toMatchObject(report);
});

describe('a measurement is worth nothing', () => {
  test.each([
    ['admitted', {}, []],
    ['admitted', { status: 3 }, ['3 answers with an error status']],
    ['admitted', { read: 1, timeout: 2 }, ['1 read errors', '2 timeout errors']],
    ['admitted', { requests: 0 }, ['no answers']],
    ['admitted', { wrong: 4 }, ['4 answers other than the expected one']],
    ['refused', { status: 5000, wrong: 1 }, ['1 answers other than the expected one']],
    ['refused', { status: 5000 }, []],
    ['refused', { status: 4990 }, ['10 answers that were no refusal']],
  ] as const)('where %s and %j: %j', (expects, differs, faults) => {
    expect(faultsOf({ ...REPORT, ...differs }, expects)).toEqual(faults);
  });
});

test('Redis tells its commands; what the bench asks itself does not count', () => {
  const text = [
    '# Commandstats',
    'cmdstat_evalsha:calls=7,usec=100,usec_per_call=14.28,rejected_calls=0,failed_calls=0',
    'cmdstat_eval:calls=1,usec=10,usec_per_call=10,rejected_calls=0,failed_calls=0',
    'cmdstat_hmget:calls=8,usec=9,usec_per_call=1,rejected_calls=0,failed_calls=0',
    'cmdstat_info:calls=3,usec=9,usec_per_call=3,rejected_calls=0,failed_calls=0',
    'cmdstat_client|setinfo:calls=2,usec=9,usec_per_call=4,rejected_calls=0,failed_calls=0',
  ].join('\r\n');
  expect(parseCommandStats(text)).toEqual({ scripts: 8, commands: 16 });
});
