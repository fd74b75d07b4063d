import type { BanRule, Plan, Plans } from '../../admit/plan.ts';
import { WINDOWS } from '../../admit/windows.ts';
import { type Fault, type Path, printFault } from '../../config/fault.ts';
import { DEFAULT_PLANS_FILE, routeWarningsOf } from '../../config/settings.ts';
import { countLiveKeys, type LiveKeysByPlan } from '../../operations/plans-in-use.ts';
import type { Route } from '../../routing/router.ts';
import { withStore } from '../../serve/open-store.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { checkPlansFile } from './file.ts';

/** `tollgate plans check`: makes the checks of a gateway's start (contract sections 1 and 2), and prints more warnings. */
export const plansCheck: Command = {
  name: 'plans check',
  about: 'Checks plans.yaml: tells every fault with its line and column, and what is probably wrong.',
  positionals: ['[FILE]'],
  options: {
    against: {
      type: 'boolean',
      about: 'Looks at the keys of the store and the routes of gateway.yaml too, as the settings name them.',
    },
    strict: { type: 'boolean', about: 'Warnings make the exit code 1 too.' },
    json: { type: 'boolean', about: 'Prints one JSON object: file, valid, faults, warnings.' },
  },
  async run({ options, positionals }, terminal) {
    const file = positionals[0] ?? (terminal.env.TOLLGATE_PLANS || DEFAULT_PLANS_FILE);
    const checked = checkPlansFile(
      file,
      'Give the file as in `tollgate plans check FILE`, or name it in TOLLGATE_PLANS.',
    );
    const faults = 'faults' in checked ? checked.faults : [];
    const against = 'value' in checked && options.against === true;
    const more = 'value' in checked ? await furtherWarnings(checked, file, against, terminal) : [];
    const routeWarnings = against ? routeWarningsOf(terminal.env) : [];
    const warnings = [...inOrder([...checked.warnings, ...more]), ...routeWarnings];
    if (options.json === true) {
      const report = { file, valid: faults.length === 0, faults: faults.map(jsonOf), warnings: warnings.map(jsonOf) };
      terminal.out(`${JSON.stringify(report, null, 2)}\n`);
    } else {
      for (const fault of faults) terminal.error(`${printFault(fault)}\n`);
      for (const warning of warnings) terminal.error(`warning: ${printFault(warning)}\n`);
      if ('value' in checked) terminal.out(`${file}: ${summaryOf(checked.value)}\n`);
    }
    return faults.length > 0 || (options.strict === true && warnings.length > 0) ? 1 : 0;
  },
};

async function furtherWarnings(plans: PlacedPlans, file: string, against: boolean, terminal: Terminal) {
  const warnings = warningsOf(plans);
  if (!against) return warnings;
  const progress = new Progress(terminal, () => performance.now());
  // The store and routes come from the settings, the plans from the file that is checked.
  const env = { ...terminal.env, TOLLGATE_PLANS: file };
  const work = async ({ keys, settings }: Parameters<Parameters<typeof withStore>[1]>[0]) => {
    const live = await countLiveKeys(keys, Date.now(), {
      onPage: (keysRead) => {
        progress.show('keys', keysRead, null, String);
        return true;
      },
    });
    progress.end();
    return warningsAgainst(plans, { live, routes: settings.routes, hasTokens: settings.jwt !== null });
  };
  return [...warnings, ...(await withStore(env, work, { warn: terminal.error }))];
}

function inOrder(faults: readonly Fault[]): readonly Fault[] {
  return faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
}

function jsonOf({ file, line, column, path, message }: Fault) {
  return { file, line, column, path, message };
}

function summaryOf({ plans, failedAuthenticationPerMinute }: Plans): string {
  const names = [...plans.keys()].join(', ');
  const bans = [...plans.values()].flatMap((plan) => (plan.bans === null ? [] : [plan.bans]));
  return (
    `${plans.size} ${plans.size === 1 ? 'plan' : 'plans'} (${names}), ${summaryOfBans(bans, plans.size)}, ` +
    `${failedAuthenticationPerMinute} failed authentications a minute and address.`
  );
}

function summaryOfBans(bans: readonly BanRule[], plans: number): string {
  if (bans.length === 0) return 'no bans';
  if (bans.length < plans) return `bans in ${bans.length} of them`;
  const after = new Set(bans.map((rule) => rule.after));
  return after.size === 1 ? `bans after ${bans[0]!.after} refusals` : 'bans in all of them';
}

/** The plans of a file without faults, and the position of each of their values in it. */
export interface PlacedPlans {
  readonly value: Plans;
  locate(path: Path): Fault;
}

/** The routes and callers that will use the plans. */
export interface PlanUsers {
  readonly routes: readonly Route[];
  readonly live: LiveKeysByPlan;
  /** True if gateway.yaml accepts tokens. They name plans too, and no store records which. */
  readonly hasTokens: boolean;
}

type Warn = (path: Path, message: string) => void;

/** Warnings about the file by itself, beyond those of a gateway's start. */
export function warningsOf(plans: PlacedPlans): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const plan of plans.value.plans.values()) warnOfUselessWindows(plan, warn);
  });
}

/** Warnings about these plans together with the routes and the live keys. */
export function warningsAgainst(plans: PlacedPlans, { routes, live, hasTokens }: PlanUsers): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const [plan, { keys }] of live) {
      if (plans.value.plans.has(plan) || plans.value.removed.includes(plan)) continue;
      warn(
        ['plans'],
        `has no plan \`${plan}\`, which ${countedKeys(keys)}; keep it, or move them to another plan first.`,
      );
    }
    for (const plan of plans.value.plans.values()) {
      const keys = live.get(plan.name)?.keys ?? 0;
      if (keys === 0 && !hasTokens) warn(['plans', plan.name], 'is used by no live key.');
      warnOfMissingLimits(plan, live, warn);
      warnOfCosts(plan, routes, warn);
    }
  });
}

/** Warns of a limit that equals a shorter window's. `parsePlans` warns of one that is lower. */
function warnOfUselessWindows({ name, limits }: Plan, warn: Warn): void {
  const counted = WINDOWS.filter((window) => typeof limits[window] === 'number');
  for (const [i, window] of counted.entries()) {
    const limit = limits[window]!;
    const shorter = counted.slice(0, i).find((other) => limits[other] === limit);
    if (limit === 0 || shorter === undefined) continue;
    warn(['plans', name, 'limits', window], `is no more than the ${shorter} limit, which then makes no difference.`);
  }
}

function warnOfMissingLimits({ name, limits }: Plan, live: LiveKeysByPlan, warn: Warn): void {
  const ofPlan = live.get(name);
  for (const window of WINDOWS) {
    const without = (ofPlan?.keys ?? 0) - (ofPlan?.own[window] ?? 0);
    if (limits[window] !== 'custom' || without === 0) continue;
    const message = `is \`custom\`, and ${without} live ${without === 1 ? 'key brings' : 'keys bring'} no limit of their own: they could not be served.`;
    warn(['plans', name, 'limits', window], message);
  }
}

function warnOfCosts({ name, limits }: Plan, routes: readonly Route[], warn: Warn): void {
  for (const window of WINDOWS) {
    const limit = limits[window];
    if (typeof limit !== 'number' || limit === 0) continue;
    for (const { path, cost } of routes.filter((route) => route.perAddress === null && route.cost > limit)) {
      const message = `is below the cost of ${path}, ${cost}: keys of this plan can never call it.`;
      warn(['plans', name, 'limits', window], message);
    }
  }
}

function placed({ locate }: PlacedPlans, check: (warn: Warn) => void): readonly Fault[] {
  const warnings: Fault[] = [];
  check((path, message) => warnings.push({ ...locate(path), message }));
  return warnings;
}

function countedKeys(keys: number): string {
  return keys === 1 ? '1 live key uses' : `${keys} live keys use`;
}
