import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { createOnce } from '../../src/operations/create-once.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const MIDNIGHT_MS = Date.UTC(2026, 10, 24);
const plan = { name: 'free', limits: { minute: 60 } };

// Attack: one Idempotency-Key, sent at the same moment to gateways whose clocks are on both sides of midnight.
test('one Idempotency-Key makes one key, also on both sides of midnight (reliability 251)', async () => {
  const folder = await temporaryFolder();
  const db = openDatabase(folder);
  atEnd(() => db.close());
  const keys = new EmbeddedKeys({ db });
  const wishes = { plan: 'free', limits: {}, name: null, owner: null, expiresAtMs: null };
  for (let run = 0; run < 20; run++) {
    const made = await Promise.all(
      [-1, 1, -1, 1].map((besideMs) =>
        createOnce({ name: `run ${run}`, body: 'b' }, () => wishes, {
          keys,
          peppers: ['a pepper that only the tests use'],
          plans: new Map([['free', plan as never]]),
          random: randomBytes,
          nowMs: MIDNIGHT_MS + besideMs,
        }),
      ),
    );
    expect(new Set(made.map((one) => ('secret' in one ? one.secret : one.kind))).size).toBe(1);
  }
  expect((await keys.list({ limit: 100, cursor: null })).records).toHaveLength(20);
});
