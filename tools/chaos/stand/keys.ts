import { randomBytes } from 'node:crypto';
import type { Limits } from '../../../src/model/plan.ts';
import type { StoredKey } from '../../../src/model/record.ts';
import { newKey, revoked } from '../../../src/operations/key-changes.ts';
import { type OpenStore, openStore } from '../../../src/serve/open-store.ts';

/** A key to call with. */
export interface ChaosKey {
  readonly id: string;
  readonly secret: string;
  /** Of its day. */
  readonly limit: number;
}

/**
 * `counted`: a quota alone. `strict`: five requests, and a ban of ten minutes for those that do not stop.
 * `once`: for keys that are used once, whose counters end soon.
 */
export const PLANS = `
plans:
  counted: { limits: { day: custom }, bans: off }
  strict: { limits: { day: custom }, bans: { after: 10, within: 1m, first: 10m, factor: 2 } }
  once: { limits: { second: 5 } }
bans: { after: 10, within: 1m, first: 1m, factor: 2, longest: 24h, forget: 24h }
failed-authentication: { minute: 1000000000 }
`;

/** Makes keys in the gateways' store as `tollgate keys create` does, only without a process for each. */
export class Keys {
  /** The settings of the gateways, with the address of the store itself and not of the link to it. */
  readonly env: Readonly<Record<string, string>>;
  readonly #made = new Map<string, StoredKey>();

  constructor(env: Readonly<Record<string, string>>) {
    this.env = env;
  }

  /** Of the keys that were made and neither revoked nor forgotten. */
  get ids(): string[] {
    return [...this.#made.keys()];
  }

  async make(plan: 'counted' | 'strict', limits: readonly number[]): Promise<ChaosKey[]> {
    return this.#with(async ({ plans, peppers, keys }) => {
      const made: ChaosKey[] = [];
      for (const limit of limits) {
        const wishes = { plan, limits: { day: limit } as Limits, name: 'chaos', owner: null, expiresAtMs: null };
        const means = { plans: plans.plans, pepper: peppers[0]!, random: randomBytes, nowMs: Date.now() };
        const { key, secret } = newKey(wishes, means);
        await keys.create(key);
        this.#made.set(key.id, key);
        made.push({ id: key.id, secret, limit });
      }
      return made;
    });
  }

  async revoke({ id }: ChaosKey): Promise<void> {
    await this.#with(({ keys }) => keys.update(id, (key) => revoked(key, Date.now())));
    this.#made.delete(id);
  }

  /** Puts back what an emptied store has lost, as an operator does from a backup: keys, and no counters. */
  async restore(): Promise<void> {
    await this.#with(async ({ keys }) => {
      for (const key of this.#made.values()) await keys.create(key);
    });
  }

  /** The run that they were for is over: they are not restored any more. */
  forget(): void {
    this.#made.clear();
  }

  async #with<T>(work: (store: OpenStore) => Promise<T>): Promise<T> {
    const store = await openStore(this.env);
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  }
}
