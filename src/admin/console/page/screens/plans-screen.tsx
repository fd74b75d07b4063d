import { Go } from '../kit/act.tsx';
import { type Column, Table } from '../kit/data-table.tsx';
import { FilterBar } from '../kit/filters.tsx';
import { countText, lengthText, plural, say } from '../kit/format.tsx';
import { WINDOWS } from '../kit/limit-windows.tsx';
import { Badge, Facts, Page, Section } from '../kit/page.tsx';
import { usePlansInForce } from '../kit/plans-in-force.ts';
import { Shown } from '../kit/states.tsx';
import { usePlace } from '../place.ts';
import { hasUnsavedDraft } from '../plans-kept.ts';
import type { InForce, Plan } from '../types.ts';

/** The plans in force. */
export function Plans() {
  const plans = usePlansInForce();
  const isUnsaved = hasUnsavedDraft();
  const edit = (
    <>
      <Go text="History" path={'/plans/history'} />{' '}
      <Go text={isUnsaved ? 'Continue the draft' : 'Edit plans'} path={'/plans/edit'} kind="primary" />
    </>
  );
  return (
    <Page title="Plans" beside={edit}>
      {isUnsaved && (
        <p class="panel">There is an unsaved draft of plans.yaml in this tab. What follows are the plans in force.</p>
      )}
      <Shown of={plans} what="the plans">
        {(data: InForce) => <PlanList {...data} />}
      </Shown>
    </Page>
  );
}

function PlanList({ plans, versions, failedAuthentication }: InForce) {
  const asked = usePlace().query.get('q') ?? '';
  const found = plans.filter(({ name }) => name.toLowerCase().includes(asked.toLowerCase()));
  const names = [...new Set(plans.flatMap(({ windows }) => windows.map(({ window }) => window)))];
  names.sort((a, b) => WINDOWS.indexOf(a) - WINDOWS.indexOf(b));
  // Most plans have the rule of all, which is shown once, below them.
  const byBans = [...Map.groupBy(plans, (plan) => bansText(plan))].sort(([, a], [, b]) => b.length - a.length);
  const usual = byBans.length === 1 || (byBans[0]?.[1].length ?? 0) > 1 ? (byBans[0]?.[0] ?? null) : null;
  const hasFurther = plans.some(({ eachKey, groups, inFlight, units }) => eachKey ?? groups ?? inFlight ?? units);
  const columns: Column<Plan>[] = [
    {
      title: 'Plan',
      isName: true,
      sort: ({ name }) => name,
      cell: ({ name, enforce }) => (
        <>
          <strong class="clamp">
            <bdi>{name}</bdi>
          </strong>
          {!enforce && (
            <>
              <div>
                <Badge kind="warn">Not enforced</Badge>
              </div>
              <span class="hint">counted, refuses no request</span>
            </>
          )}
        </>
      ),
    },
    ...(names.length > MAX_COLUMNS
      ? [
          {
            title: 'Limits',
            isNumber: true,
            cell: ({ windows }: Plan) => windows.map((one) => <WindowCell {...one} isNamed={true} />),
          },
        ]
      : names.map((name) => ({
          title: `Each ${name}`,
          isNumber: true,
          sort: (plan: Plan) => limitOf(plan, name),
          cell: ({ windows }: Plan) => {
            const own = windows.filter(({ window }) => window === name);
            return own.length === 0 ? <span class="muted">–</span> : own.map((one) => <WindowCell {...one} />);
          },
        }))),
    ...(byBans.length > 1
      ? [
          {
            title: 'Bans',
            cell: (plan: Plan) => {
              const text = bansText(plan);
              return text === usual ? <span class="muted">as most plans</span> : <span>{text}</span>;
            },
          },
        ]
      : []),
    ...(hasFurther ? [{ title: 'Further limits', cell: (plan: Plan) => <FurtherLimits {...plan} /> }] : []),
  ];
  const facts = [
    [byBans.length === 1 ? 'Bans of every plan' : 'Bans of most plans', usual],
    [
      'Wrong keys',
      `${plural(failedAuthentication.minute, 'failed authentication')} a minute from one client address, then 429.`,
    ],
    ['Version', say`plans.yaml ${<code>{versions.plans}</code>}`],
  ] as const;
  return (
    <Section title="In force" note={`${plural(plans.length, 'plan')}. Windows are fixed where nothing else is said.`}>
      {plans.length > MAX_UNSEARCHED && <FilterBar label="Plans" filters={[{ name: 'q', label: 'Search' }]} />}
      <Table caption="The plans in force" rows={found} keyOf={({ name }: Plan) => name} columns={columns} />
      <Facts of={facts} />
    </Section>
  );
}

/** More plans have a search. */
const MAX_UNSEARCHED = 10;

/** What the plans are sorted by in the column of a window. */
function limitOf({ windows }: Plan, name: string): number {
  const limit = windows.find(({ window, shadow }) => window === name && !shadow)?.limit;
  return typeof limit === 'number' ? limit : Number.POSITIVE_INFINITY;
}

/** With more windows, each plan lists its own instead. */
const MAX_COLUMNS = 4;

function WindowCell({ window, limit, form, shadow, isNamed = false }: Plan['windows'][number] & { isNamed?: boolean }) {
  const value = limit === 'custom' ? 'each key’s own' : countText(limit);
  return (
    <div class="plan-window">
      <span>
        {isNamed && `Each ${window}: `}
        {value}
      </span>{' '}
      {limit !== 'unlimited' && form !== 'fixed' && <span class="muted">{form}</span>}{' '}
      {shadow && <span class="tag">shadow: refuses no request</span>}
    </div>
  );
}

/** What a plan has besides its own windows: requests in flight, what each key of a customer may take, groups of routes. */
function FurtherLimits({ eachKey, groups = [], inFlight, units }: Plan) {
  const each = [
    ...windowTexts(eachKey?.windows ?? []),
    ...inFlightTexts(eachKey?.inFlight),
    ...unitTexts(eachKey?.units),
  ];
  return (
    <>
      {inFlightTexts(inFlight).map((text) => (
        <div class="plan-window">{text}</div>
      ))}
      {unitTexts(units).map((text) => (
        <div class="plan-window">{text}</div>
      ))}
      {each.length > 0 && <div class="plan-window">Each key of a customer: {each.join(', ')}</div>}
      {groups.map(({ name, windows, units: ofGroup, instead, routes }) => (
        <div class="plan-window">
          <span>
            <bdi>{name}</bdi>: {[...windowTexts(windows), ...unitTexts(ofGroup)].join(', ')}
          </span>{' '}
          {instead && <span class="tag">in place of the limits of the plan</span>}
          <div class="hint">
            <bdi>{routes.join(', ')}</bdi>
          </div>
        </div>
      ))}
    </>
  );
}

function unitTexts(units: Plan['units'] = []): string[] {
  return units.flatMap(({ name, windows }) => windowTexts(windows, ` ${name}`));
}

/** @param unit with a space before it; empty for requests */
function windowTexts(windows: Plan['windows'], unit = ''): string[] {
  return windows.map(({ window, limit, form }) => {
    return `${limit === 'unlimited' ? limit : countText(Number(limit))}${unit} a ${window}${form === 'fixed' ? '' : ` (${form})`}`;
  });
}

function inFlightTexts(inFlight: number | undefined): string[] {
  return inFlight === undefined ? [] : [`${countText(inFlight)} in flight at a time`];
}

function bansText({ bans, bansOfCustomer }: Plan): string {
  if (bans === null) return 'Off';
  const { after, factor } = bans;
  const [within, first, longest, forget] = [bans.withinMs, bans.firstMs, bans.longestMs, bans.forgetMs].map((ms) =>
    lengthText(ms / 1_000),
  );
  const ladder = factor === 1 ? '' : `, each further one ${factor} times as long up to ${longest}`;
  const whom = bansOfCustomer ? ' A ban is of all keys of the customer.' : '';
  return `After ${plural(after, 'refusal')} within ${within}: ${first}${ladder}. Forgotten after ${forget} without a ban.${whom}`;
}
