import { beforeAll, describe, test } from 'vitest';
import { culprit } from '../../support/culprit.ts';
import { newAuthority } from '../../support/encrypted.ts';
import { Encryption } from '../../support/leaving-client.ts';
import { testRedis } from '../../support/redis.ts';
import { sample } from '../../support/sample.ts';
import { startTellingUpstream } from '../../support/telling-upstream.ts';
import { PAIRS, Stage, type Transport, WAYS } from './pairs.ts';

const PLAIN: Transport = { listen: {}, encryption: null, env: {} };

async function encrypted(): Promise<Transport> {
  const authority = await newAuthority();
  const { cert, key } = await authority.issue('localhost');
  const listen = { tls: `{ cert: ${cert}, key: ${key} }` };
  return { ...PLAIN, listen, encryption: new Encryption(authority.pem, 'http/1.1') };
}

async function withWorkers(): Promise<Transport> {
  const { url } = await testRedis();
  return { ...PLAIN, env: { WORKERS: '2', REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use' } };
}

/** Made before the tests, which run at the same time: what a test makes is removed at its end. */
let transports: readonly Transport[];

beforeAll(async () => {
  transports = await Promise.all(TRANSPORTS.map(([, open]) => open()));
});

const TRANSPORTS: readonly [name: string, open: () => Promise<Transport>][] = [
  ['plain', async () => PLAIN],
  ['encrypted', encrypted],
  ['plain, to two workers', withWorkers],
];
const SAMPLE = 100;

// Attack: two requests in one packet, and then nothing more than leaving. Each hand-over of a connection, from the fast path
// to node:http and from there to CONNECT, an upgrade or an error, is a moment in which nothing may listen to it, and what
// the second request waits for, the first one has. A client that left just then ended the process, or its socket stayed.
describe.concurrent.each(TRANSPORTS.map(([name], i) => [name, i] as const))('%s', (_, i) => {
  test(`pairs of requests, each left in ${WAYS.length} ways: a second later nothing of them is there (reliability 146)`, async () => {
    const upstream = await startTellingUpstream();
    const stage = new Stage(transports[i]!, upstream);
    try {
      for (const way of WAYS) {
        const pairs = sample(PAIRS, SAMPLE);
        const problems = await stage.leave(pairs, way);
        if (problems.length === 0) continue;
        const found = await culprit(pairs, async (some) => (await stage.leave(some, way)).length > 0);
        const pair = found === null ? 'one of the pairs, now and then' : `${found[0].name}, then ${found[1].name}`;
        throw new Error(`Left by ${way.name}: ${pair}.\n${problems.join('\n')}`);
      }
    } finally {
      await stage.stop();
      await upstream.close();
    }
  });
});
