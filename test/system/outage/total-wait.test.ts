import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startStand } from './stand.ts';

const TIMEOUT_MS = 4_000;
/** Two answers one after the other are in time, three are not. */
const DELAY_MS = 1_600;

// What a client measures has the machine in it; what the gateway measures has not.
test('the look-up of a key and the decision together wait no longer than redis.timeout', async () => {
  const stand = await startStand({ size: 1, timeoutMs: TIMEOUT_MS });
  const [gateway] = stand.gateways;
  const keys = await Promise.all(Array.from({ length: 5 }, () => gateway!.createKey('plain')));
  stand.link.delayMs = DELAY_MS;
  const answers = await Promise.all(keys.map(({ key }) => gateway!.get('/v1/pets', key)));
  expect(answers.map(({ status }) => status)).toEqual(keys.map(() => 200));
  const waits = await eventually(() => {
    const lines = gateway!.process.stdout.split('\n').filter((line) => line.includes('"msg":"request"'));
    expect(lines).toHaveLength(keys.length);
    return lines.map((line) => (JSON.parse(line) as { storeMs: number }).storeMs);
  });
  expect(Math.min(...waits)).toBeGreaterThan(2 * DELAY_MS - 10);
  expect(Math.max(...waits)).toBeLessThan(3 * DELAY_MS);
});

test('a key that nobody made is answered within redis.timeout, its look-up and its address together', async () => {
  const stand = await startStand({ size: 1, timeoutMs: TIMEOUT_MS });
  const [gateway] = stand.gateways;
  const { id, key } = await gateway!.createKey('plain');
  await gateway!.command('keys', 'revoke', id);
  stand.link.delayMs = DELAY_MS;
  expect((await gateway!.get('/v1/pets', key)).status).toBe(401);
  const { storeMs } = await eventually(() => {
    const line = gateway!.process.stdout.split('\n').find((each) => each.includes('"msg":"request"'));
    return JSON.parse(line!) as { storeMs: number };
  });
  expect(storeMs).toBeLessThan(3 * DELAY_MS);
});
