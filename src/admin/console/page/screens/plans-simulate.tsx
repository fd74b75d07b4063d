import { useState } from 'preact/hooks';
import { Fault } from '../kit/act.tsx';
import { CallerName } from '../kit/callers.tsx';
import { BarChart, type Series } from '../kit/charts.tsx';
import { type Column, Table } from '../kit/data-table.tsx';
import { Field } from '../kit/dialog.tsx';
import { countText, momentText, Prose, plural, say, Time } from '../kit/format.tsx';
import { useNames } from '../kit/names.ts';
import { Section } from '../kit/page.tsx';
import type { Run } from '../kit/run.tsx';
import { Banner, Empty } from '../kit/states.tsx';
import type { Simulated, SimulationInput } from '../types.ts';

// The step Simulate of a draft: which requests it is tried on, and their outcome.

/** The requests to simulate: the recent record or a log. */
export type SimulatedRequests = Omit<SimulationInput, 'text'>;
type Report = NonNullable<Simulated['report']>;
type Counts = Report['totals'];
type CallerCounts = Report['callers'][number];
type PlanCounts = Report['byPlan'][number];

/** The size limit of a log, in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;

const SOURCES = [
  { name: 'recent', title: 'Recent requests, as the gateways remember them' },
  { name: 'file', title: 'A log file of a gateway' },
  { name: 'pasted', title: 'Lines of a log, pasted' },
] as const;

type Source = (typeof SOURCES)[number]['name'];

/** Asks which requests the draft is tried on. `simulate` gets that part of the body. */
export function SimulateForm({ run, simulate }: { run: Run; simulate: (record: SimulatedRequests) => Promise<void> }) {
  const [source, setSource] = useState<Source>('recent');
  const [fault, setFault] = useState<string | null>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (run.since !== null) return;
    const log = await logOf(source, new FormData(event.target as HTMLFormElement));
    setFault(log !== null && 'fault' in log ? log.fault : null);
    if (log === null) await simulate({ record: 'recent' });
    else if ('text' in log) await simulate({ log: log.text });
  };
  const error = fault ?? run.error?.message ?? null;
  return (
    <Section title="On which requests" note="They are decided again under the draft, and compared with what happened.">
      <form class="panel stack" onSubmit={submit}>
        <fieldset>
          <legend class="hidden">Requests to try the draft on</legend>
          {SOURCES.map(({ name, title }) => (
            <label key={name}>
              <input
                type="radio"
                name="source"
                value={name}
                checked={source === name}
                onChange={() => {
                  setSource(name);
                  setFault(null);
                }}
              />{' '}
              {title}
            </label>
          ))}
        </fieldset>
        {source === 'file' && (
          <Field
            id="simulate-file"
            label="Log file"
            hint="What tollgate serve writes to standard output, not compressed, up to 16 MiB."
          >
            <input id="simulate-file" name="file" type="file" required aria-describedby="simulate-file-hint" />
          </Field>
        )}
        {source === 'pasted' && (
          <Field id="simulate-lines" label="Log lines" hint="One JSON object on each line, up to 16 MiB.">
            <textarea
              id="simulate-lines"
              name="lines"
              class="code"
              rows={6}
              required
              wrap="off"
              spellcheck={false}
              autocomplete="off"
              aria-describedby="simulate-lines-hint"
            ></textarea>
          </Field>
        )}
        <Fault of={error} />
        <div>
          <button type="submit" class="primary" aria-busy={run.since !== null}>
            Run the simulation
          </button>
        </div>
      </form>
    </Section>
  );
}

/** @returns null for the recent record */
async function logOf(source: Source, form: FormData): Promise<{ text: string } | { fault: string } | null> {
  if (source === 'recent') return null;
  const given = source === 'file' ? (form.get('file') as File) : new Blob([form.get('lines') as string]);
  if (given.size > MAX_BYTES) {
    return {
      fault:
        'The log is larger than 16 MiB. Choose a part of it, or use the command tollgate plans simulate, which has no such limit.',
    };
  }
  try {
    const [first, second] = new Uint8Array(await given.slice(0, 2).arrayBuffer());
    if (first === 0x1f && second === 0x8b) return { fault: 'The log is compressed. Unpack it first.' };
    return { text: await given.text() };
  } catch {
    return { fault: 'The file cannot be read. It may have been moved or changed since you chose it: choose it again.' };
  }
}

const TIMELINE: readonly Series[] = [
  { name: 'newlyRefused', title: 'Newly refused', color: '--refused', isStriped: true },
  { name: 'newlyAdmitted', title: 'Newly admitted', color: '--admitted' },
];

export function SimulationReport({ report, moreCallers = 0, timeline, kept, isComplete, baseline }: Simulated) {
  const { headline, moved, totals, notes, byPlan, callers, from, to, isEstimate } = report!;
  const verdicts = baseline?.verdicts ?? 0;
  const inexact = `The record is not exact: unchanged plans would already differ in ${verdicts} of these requests, so a difference of about that size means nothing for the draft. A log of all gateways is exact.`;
  const all = [...(kept ? [kept] : []), ...(verdicts > 0 ? [inexact] : []), ...notes];
  const span = say`${plural(totals.requests, 'request')}${isEstimate ? ' (an estimate)' : ''}, ${<Time at={from} />} to ${<Time at={to} />}`;
  return (
    <>
      <Section title="What would have happened" note={span}>
        <p class="headline">
          <Prose text={headline} />
        </p>
        {isComplete === false && (
          <Banner title="The record lacks requests of some gateways">
            <p>
              So the figures below are too low, and a key that calls several gateways may be judged too mildly. A log of
              all gateways is exact.
            </p>
          </Banner>
        )}
        {timeline !== undefined && totals.newlyRefused + totals.newlyAdmitted > 0 && (
          <details class="panel" open={moved === null}>
            <summary>{moved === null ? 'Requests with another verdict, over time' : <Prose text={moved} />}</summary>
            <BarChart
              id="simulated"
              title="Requests with another verdict"
              series={TIMELINE}
              bars={timeline.buckets.map(({ from, newlyRefused, newlyAdmitted }) => ({
                label: momentText(from),
                values: { newlyRefused, newlyAdmitted },
              }))}
              step={plural(timeline.stepSeconds, 'second')}
            />
          </details>
        )}
        {all.length > 0 && (
          <ul class="pre panel muted" aria-label="Notes">
            {all.map((note) => (
              <li key={note}>
                <Prose text={note} />
              </li>
            ))}
          </ul>
        )}
      </Section>
      <Section title="By plan">
        <Table caption="What would change, by plan" rows={byPlan} keyOf={({ plan }) => plan} columns={PLAN_COLUMNS} />
      </Section>
      <CallersTouched callers={callers} />
      {moreCallers > 0 && (
        <p class="muted">
          {plural(moreCallers, 'further caller was', 'further callers were')} or would be refused; those with the most
          changes are listed. <code>tollgate plans simulate --json</code> lists all.
        </p>
      )}
    </>
  );
}

/** How many requests fewer would be admitted. */
function lostBy({ recorded, simulated }: Counts): number {
  return recorded.admitted - simulated.admitted;
}

/** What was, what would be, and the difference. */
function countColumns<Row>(countsOf: (row: Row) => Counts): Column<Row>[] {
  return [
    { title: 'Requests', as: 'count', of: (row) => countsOf(row).requests },
    {
      title: 'Refused',
      isNumber: true,
      cell: (row) => {
        const { requests, recorded, simulated } = countsOf(row);
        return <Change from={requests - recorded.admitted} to={requests - simulated.admitted} />;
      },
    },
    {
      title: 'Bans',
      isNumber: true,
      cell: (row) => <Change from={countsOf(row).recorded.bans} to={countsOf(row).simulated.bans} />,
    },
  ];
}

function Change({ from, to }: { from: number; to: number }) {
  if (from === to) return <span class="muted">{countText(from)}</span>;
  return (
    <>
      <strong class={to > from ? 'worse' : 'better'}>
        {to > from ? '+' : '−'}
        {countText(Math.abs(to - from))}
      </strong>{' '}
      <span class="muted nowrap">
        {countText(from)} → {countText(to)}
      </span>
    </>
  );
}

const PLAN_COLUMNS: readonly Column<PlanCounts>[] = [
  {
    title: 'Plan',
    isName: true,
    cell: ({ plan, limits }) => (
      <>
        <strong class="clamp">
          <bdi>{plan}</bdi>
        </strong>{' '}
        <span class="muted small">
          <Prose text={limits ?? 'not in the draft'} />
        </span>
      </>
    ),
  },
  { title: 'Keys', as: 'count', of: ({ keys }) => keys },
  ...countColumns(({ counts }: PlanCounts) => counts),
];

/** How many callers are listed at first. */
const LEAST = 25;

/** Customers, whose limits their keys share, and keys without one: those for whom it gets worse first. */
function CallersTouched({ callers }: { callers: readonly CallerCounts[] }) {
  const sorted = callers.toSorted((a, b) => lostBy(b) - lostBy(a));
  const names = useNames(sorted.map(({ id }) => id));
  const columns: readonly Column<CallerCounts>[] = [
    {
      title: 'Customer or key',
      isName: true,
      cell: ({ id, plan, keys }) => (
        <>
          <CallerName id={id} name={names.get(id) ?? null} owner={null} plan={plan} />
          {keys !== null && <span class="hint">{plural(keys, 'key')}</span>}
        </>
      ),
    },
    { title: 'Plan', of: ({ plan }) => plan },
    ...countColumns((caller: CallerCounts) => caller),
    { title: 'First ban would begin', as: 'time', of: ({ bannedAt }) => bannedAt },
  ];
  return (
    <Section
      title="Whom it concerns"
      note="Who was refused or would be. A customer is one caller: its keys share its limits."
    >
      <Table
        caption="Whom it concerns"
        rows={sorted}
        keyOf={({ id }) => id}
        columns={columns}
        least={LEAST}
        empty={<Empty title="No caller was refused, and none would be." />}
      />
    </Section>
  );
}
