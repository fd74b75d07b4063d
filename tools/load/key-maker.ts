import { randomBytes } from 'node:crypto';
import { allowanceOf } from '../../src/admit/allowance.ts';
import { Failure } from '../../src/failure.ts';
import type { Plan, Plans } from '../../src/model/plan.ts';
import { WINDOWS, type WindowName } from '../../src/model/values.ts';
import { newKey, revoked } from '../../src/operations/key-changes.ts';
import { type OpenStore, openStore } from '../../src/serve/open-store.ts';
import type { Bound } from './exchange.ts';
import type { Credential, KeyWish } from './stand.ts';

/** What a key gets in a window that its plan leaves open and nobody here wants to fill. */
const PLENTY = 1_000_000;
/** Keys end by themselves, should the test be killed before it has revoked them. */
const LIFETIME_MS = 3_600_000;

/** Makes keys in the gateways' store as `tollgate keys create` does, only without a process for each. */
export class KeyMaker {
  readonly #store: OpenStore;
  readonly #ownPlans: ReadonlyMap<string, Plan>;
  readonly #made: string[] = [];

  private constructor(store: OpenStore, ownPlans: ReadonlyMap<string, Plan>) {
    this.#store = store;
    this.#ownPlans = ownPlans;
  }

  /**
   * @param env with the gateways' settings: REDIS_URL, KEY_PEPPER (or the files that hold them), TOLLGATE_PLANS …
   * @param ownPlans plans.yaml of the load test
   * @throws Failure of the settings or of the store
   */
  static async open(env: NodeJS.ProcessEnv, ownPlans: Plans): Promise<KeyMaker> {
    return new KeyMaker(await openStore(env), ownPlans.plans);
  }

  /** The plans that the gateways have. */
  get plans(): Plans {
    return this.#store.plans;
  }

  /** Where the gateways lack a plan, the keys get the stand-in with the limits that the plan would have had. */
  async keys(wish: KeyWish): Promise<Credential[]> {
    const { plans } = this.#store.plans;
    const known = plans.get(wish.plan);
    const plan = known ?? plans.get(wish.standIn);
    if (plan === undefined) {
      throw new Failure(
        'refused',
        `The gateways have neither a plan '${wish.plan}' nor '${wish.standIn}'. Their plans: ${[...plans.keys()].join(', ')}.`,
      );
    }
    const wished = known === undefined ? this.#ownPlans.get(wish.plan)?.limits : {};
    const limits = ownLimits(plan, { ...wished, ...wish.limits });
    return Promise.all(Array.from({ length: wish.count }, () => this.#key(plan, limits)));
  }

  /** Revokes all that were made. */
  async close(): Promise<void> {
    const nowMs = Date.now();
    try {
      for (const id of this.#made) await this.#store.keys.update(id, (key) => revoked(key, nowMs));
    } finally {
      await this.#store.close();
    }
  }

  async #key(plan: Plan, limits: Readonly<Partial<Record<WindowName, number>>>): Promise<Credential> {
    const nowMs = Date.now();
    const { plans, peppers, keys } = this.#store;
    const { key, secret } = newKey(
      { plan: plan.name, limits, name: 'load test', owner: null, expiresAtMs: nowMs + LIFETIME_MS },
      { plans: plans.plans, pepper: peppers[0]!, random: randomBytes, nowMs },
    );
    await keys.create(key);
    this.#made.push(key.id);
    return {
      authorization: `Bearer ${secret}`,
      plan: plan.name,
      limits: boundsOf(plan, limits),
      bans: plan.bans,
      fresh: true,
    };
  }
}

/**
 * The windows that a key of this plan is held to.
 * @throws Failure `refused` where one of them has no number
 */
export function boundsOf(plan: Plan, own: Readonly<Partial<Record<WindowName, number>>>): Bound[] {
  const allowance = allowanceOf(plan, own);
  if (!('missing' in allowance) && allowance.budgets[0].unlimited.length === 0) return [...allowance.limits];
  throw new Failure('refused', `A key of plan '${plan.name}' needs a number for each window of the plan.`);
}

/** Every window gets a number: what is unlimited is neither counted nor judged. */
function ownLimits(plan: Plan, wished: Readonly<Partial<Record<string, unknown>>>) {
  const limits: Partial<Record<WindowName, number>> = {};
  for (const window of WINDOWS) {
    const planned = plan.limits[window];
    const wish = wished[window];
    if (typeof wish === 'number') limits[window] = wish;
    else if (planned === 'custom' || planned === 'unlimited') limits[window] = PLENTY;
  }
  return limits;
}
