import { randomBytes } from 'node:crypto';
import { type ExitCode, Failure } from '../../failure.ts';
import { momentText } from '../../io/time-text.ts';
import { LISTED } from '../../model/attributes.ts';
import type { Limits } from '../../model/plan.ts';
import { isReadable } from '../../model/record.ts';
import { createKey } from '../../operations/create-once.ts';
import { customerOfNewKey } from '../../operations/customers.ts';
import { keyReport, withSecret } from '../../operations/key-report.ts';
import { goneElsewhere, insistOnPlan } from '../../operations/plans/history.ts';
import { changeOfRecord } from '../../operations/recorded.ts';
import { type OpenKeys, type OpenStore, withKeys, withStore } from '../../serve/open-store.ts';
import { meantId } from '../meant-id.ts';
import { operationsHere } from '../operations-at.ts';
import { exitCodeOf, recordedByCommand } from '../recorded-change.ts';
import type { Command, Terminal, Words } from '../terminal/command.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { ATTRIBUTE_OPTIONS, readAttributes } from './attribute-options.ts';
import { heldText, json, readLimits, readMoment } from './text-form.ts';

/** `tollgate keys create` (contract section 5). */
export const keysCreate: Command = {
  name: 'keys create',
  about: 'Makes an API key, shows its secret once, and names the store that has the key.',
  positionals: [],
  environment: OF_STORE,
  examples: [
    'tollgate keys create --plan pro --name "Jo\'s shop" --limit minute=500 --expires 90d',
    'tollgate keys create --customer CUSTOMER_ID --limit minute=300',
    'tollgate keys create --plan free --data ./data --json',
  ],
  options: {
    plan: {
      type: 'string',
      value: 'PLAN',
      about: 'The plan that it belongs to, one of plans.yaml. Required without --customer.',
    },
    customer: {
      type: 'string',
      value: 'CUSTOMER_ID',
      about: 'The customer that it belongs to, by id or name, with the plan and the limits that its keys share.',
    },
    limit: {
      type: 'string',
      multiple: true,
      value: 'WINDOW=NUMBER',
      about: "A limit of its own in place of its plan's, such as minute=500. May be given once per window.",
    },
    expires: {
      type: 'string',
      value: 'WHEN',
      about: 'When it ends: in 90d, or on 2030-12-31, or at an RFC 3339 time. By default never.',
    },
    ...ATTRIBUTE_OPTIONS,
    data: {
      type: 'string',
      value: 'FOLDER',
      about:
        'The folder of the embedded store, in place of TOLLGATE_DATA; created if it is missing. Required without ' +
        'REDIS_URL and TOLLGATE_DATA where there is no ./data.',
    },
    json: {
      type: 'boolean',
      about: `Prints one JSON object: id, key, plan, ${LISTED.join(', ')}, limits, heldTo, createdAt, expiresAt.`,
    },
  },
  async run(words, terminal) {
    // This throws for a wrong option before the store is opened.
    attributesOf(words, Date.now());
    const customer = words.options.customer as string | undefined;
    const options = { makesSecrets: true, missingStore: 'make', insistsOnFolder: true } as const;
    // Most keys have no customer, and a command starts anew each time: what it needs for one is loaded for it alone.
    return customer === undefined
      ? withKeys(terminal.env, (store) => create(null, store, words, terminal), options)
      : withStore(
          terminal.env,
          async (store) => create(await customerMeant(customer, store, terminal), store, words, terminal),
          options,
        );
  },
};

/** @param customerId null: it belongs to none */
async function create(customerId: string | null, store: OpenKeys, words: Words, terminal: Terminal): Promise<ExitCode> {
  const {
    record: key,
    secret,
    durability,
    owner,
  } = await recordedByCommand(store, terminal.error, {
    action: 'key.create',
    target: null,
    work: async () => {
      const owner = customerId === null ? null : await customerNamed(customerId, store);
      const of = owner === null ? {} : { plan: owner.plan, customer: owner.id };
      await refuseIfGone(owner?.plan ?? (words.options.plan as string), store);
      const made = await createKey((nowMs) => ({ ...attributesOf(words, nowMs), ...of }), {
        keys: store.keys,
        peppers: store.peppers,
        plans: store.plans.plans,
        random: randomBytes,
        nowMs: Date.now(),
      });
      return { ...made, owner };
    },
    changeOf: changeOfRecord,
  });
  const owners = new Map(owner === null ? [] : [[owner.id, owner]]);
  const report = withSecret(keyReport(key, store.plans, { customers: owners, nowMs: key.createdAtMs }), secret);
  if (words.options.json === true) terminal.out(json(report));
  else {
    const ends =
      report.expiresAt === null ? '' : `, expires ${momentText(Date.parse(report.expiresAt), Date.now(), terminal)}`;
    const whose = owner === null ? '' : ` of ${owner.id}`;
    const held = heldText(report);
    terminal.out(`${key.id}${whose} on plan ${key.plan}${held === '' ? '' : ` (${held})`}${ends}\n\n  ${secret}\n\n`);
    terminal.out('This is the only time that the key is shown. Keep it where you keep secrets.\n');
    terminal.out(`It is in ${store.name}; gateways on another store do not know it.\n`);
  }
  return exitCodeOf(durability.kind, terminal);
}

/**
 * @throws Failure `conflict` if gateways have removed the plan since this plans.yaml was in force
 */
async function refuseIfGone(plan: string, { plans, plansHistory, plansVersion }: OpenKeys): Promise<void> {
  const [latest] = await plansHistory.list().catch(() => []);
  if (latest === undefined || (isReadable(latest) && latest.version === plansVersion)) return;
  insistOnPlan(plan, await goneElsewhere(plans, plansHistory, plansVersion));
}

async function customerMeant(word: string, store: OpenStore, { error }: Terminal): Promise<string> {
  return meantId(operationsHere(store, error), word, { of: 'CUSTOMER_ID', isRead: false, note: error });
}

async function customerNamed(id: string, store: OpenKeys) {
  return customerOfNewKey(id, store);
}

function attributesOf(words: Words, nowMs: number) {
  const { plan, customer, expires } = words.options as Readonly<Record<string, string | undefined>>;
  if (plan === undefined && customer === undefined) {
    throw new Failure('bad_usage', '--plan is missing. See `tollgate keys create --help`.');
  }
  if (plan !== undefined && customer !== undefined) {
    throw new Failure('bad_usage', 'The plan of a key of a customer is that of the customer: leave --plan out.');
  }
  return {
    plan: plan ?? '',
    ...readAttributes(words),
    limits: readLimits(words, false) as Limits,
    expiresAtMs: expires === undefined ? null : readMoment('--expires', expires, nowMs),
  };
}
