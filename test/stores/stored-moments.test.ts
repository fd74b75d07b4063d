import { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { type Allowance, plainAllowance } from '../../src/admit/allowance.ts';
import type { Ledger } from '../../src/admit/ledger.ts';
import { usageReport } from '../../src/admit/usage-report.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import type { BanRule } from '../../src/model/plan.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { setClock, T0, twinLedger } from '../admit/twin-ledger.ts';
import { atEnd } from '../support/endings.ts';
import { testRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Decides = Pick<Ledger, 'decide' | 'present'>;

interface Stores {
  /** Those of two gateways, if the store may have several. */
  readonly ledgers: readonly Decides[];
  readonly setNow: (nowMs: number) => Promise<void>;
}

const STORES: Record<string, () => Promise<Stores>> = {
  async embedded() {
    const db = openDatabase(await temporaryFolder());
    let now = T0;
    const ledger = new EmbeddedLedger({ db, wallMs: () => now });
    atEnd(() => {
      ledger.close();
      db.close();
    });
    return {
      ledgers: [ledger],
      setNow: async (nowMs) => {
        now = nowMs;
      },
    };
  },
  async Redis() {
    const redis = new Redis((await testRedis()).url);
    atEnd(() => redis.disconnect());
    return { ledgers: [twinLedger(redis), twinLedger(redis)], setNow: async (nowMs) => setClock(redis, nowMs) };
  },
};

const bans = { after: 1, withinMs: 60_000, firstMs: 600_000, factor: 2, longestMs: 86_400_000, forgetMs: 86_400_000 };
const limits = [
  windowLimit('minute', 5, { slices: 12 }),
  windowLimit('hour', 5),
  windowLimit('day', 9, { calendar: { unit: 'day', zone: 'Europe/Berlin', anchor: 1 } }),
];
const under = (rule: BanRule | null): Allowance => ({ ...plainAllowance('test', limits), bans: rule });

describe.each(Object.keys(STORES))(
  'the moments that %s keeps are the same at each reading (reliability 373)',
  (name) => {
    test.each([
      ['of open windows', under(null), under(null), 3],
      ['of windows that refuse', under(null), under(null), 6],
      ['of a ban', under(bans), under(bans), 6],
      ['of a ban whose rule a reload has made shorter', under(bans), under({ ...bans, firstMs: 60_000 }), 6],
    ])('%s', async (_of, before, after, n) => {
      const { ledgers, setNow } = await STORES[name]!();
      const consumerId = `moments-${name}-${Math.random()}`;
      await setNow(T0 + 311);
      await ledgers[0]!.decide([{ consumerId, allowance: before, cost: 1, n }]);
      const told = new Set<string>();
      for (let nowMs = T0 + 400; nowMs < T0 + 30_000; nowMs += 1_719) {
        await setNow(nowMs);
        for (const ledger of ledgers) {
          const decision = await ledger.present(consumerId, after);
          const { windows, ban } = usageReport(consumerId, after, decision!, null);
          told.add(JSON.stringify([Object.values(windows).map(({ resetAt }) => resetAt), ban]));
        }
      }
      expect([...told]).toHaveLength(1);
    });

    test('of refusals, whichever gateway decides', async () => {
      const { ledgers, setNow } = await STORES[name]!();
      const consumerId = `moments-${name}-${Math.random()}`;
      const told = new Set<string>();
      for (let i = 0; i < 20; i++) {
        await setNow(T0 + 311 + i * 1_719);
        const asked = { consumerId, allowance: under({ ...bans, after: 100 }), cost: 1, n: i === 0 ? 6 : 1 };
        const [decision] = await ledgers[i % ledgers.length]!.decide([asked]);
        const verdict = verdictOf(decision!, asked.allowance, asked.n - 1);
        if (verdict.kind !== 'refused') throw new Error(verdict.kind);
        told.add(JSON.stringify([verdict.binding.resetAtMs, verdict.retryAtMs]));
      }
      expect([...told]).toHaveLength(1);
    });
  },
);
