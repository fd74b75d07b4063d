import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { CallerName } from '../kit/callers.tsx';
import { BarChart, type Series } from '../kit/charts.tsx';
import { Table } from '../kit/data-table.tsx';
import { Field } from '../kit/dialog.tsx';
import { countText, momentText, Prose, plural, Time } from '../kit/format.tsx';
import { useNames } from '../kit/names.ts';
import { Section } from '../kit/page.tsx';
import type { Run } from '../kit/run.tsx';
import { Empty } from '../kit/states.tsx';
import type { Simulated, SimulationInput } from '../types.ts';

// The step Simulate of a draft: which requests it is tried on, and their outcome.

/** The requests to simulate: the recent record or a log. */
export type SimulatedRequests = Omit<SimulationInput, 'text'>;
type Report = NonNullable<Simulated['report']>;
type Counts = Report['totals'];
type KeyCounts = Report['keys'][number];
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
      <form class="panel simulate" onSubmit={submit}>
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
        {error !== null && (
          <p class="problem-line" role="alert">
            {error}
          </p>
        )}
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

export function SimulationReport({ report, moreKeys = 0, timeline, kept, isComplete, baseline }: Simulated) {
  const { totals, differs, notes, byPlan, keys, from, to, isEstimate } = report!;
  const isSame = differs.verdicts + differs.bans + totals.unserved === 0;
  const refused = keys.filter(({ newlyRefused, unserved }) => newlyRefused + unserved > 0);
  const admitted = keys.filter(({ newlyAdmitted }) => newlyAdmitted > 0);
  const span = (
    <>
      {plural(totals.requests, 'request')}
      {isEstimate ? ' (an estimate)' : ''}, <Time at={from} /> to <Time at={to} />
    </>
  );
  return (
    <>
      <Section title="What would have happened" note={span}>
        <Doubt isComplete={isComplete ?? true} verdicts={baseline?.verdicts ?? 0} />
        {kept && (
          <p class="muted simulate-kept">
            <Prose text={kept} />
          </p>
        )}
        {isSame && (
          <Empty title="Every verdict and every ban is as it was.">
            <p>On these requests the draft changes nothing for any caller.</p>
          </Empty>
        )}
        <dl class="figures">
          <Figure title="Newly refused" kind="refused" value={countText(totals.newlyRefused)} unit="were admitted" />
          <Figure title="Newly admitted" kind="admitted" value={countText(totals.newlyAdmitted)} unit="were refused" />
          <Figure title="Refused or banned" kind="" {...pair(totals, ({ refused, banned }) => refused + banned)} />
          <Figure title="Bans" kind="banned" {...pair(totals, ({ bans }) => bans)} />
          {totals.unserved > 0 && (
            <Figure
              title="Not served at all"
              kind="failed"
              value={countText(totals.unserved)}
              unit="no plan or limit"
            />
          )}
        </dl>
        {timeline !== undefined && !isSame && (
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
        )}
        {notes.length > 0 && (
          <ul class="notes panel" aria-label="Notes">
            {notes.map((note) => (
              <li>
                <Prose text={note} />
              </li>
            ))}
          </ul>
        )}
      </Section>
      <Section title="By plan">
        <Table
          caption="What would change, by plan"
          rows={byPlan}
          keyOf={({ plan }: PlanCounts) => plan}
          columns={[
            {
              title: 'Plan',
              isName: true,
              cell: ({ plan, limits }: PlanCounts) => (
                <>
                  <strong class="plan-name">
                    <bdi>{plan}</bdi>
                  </strong>{' '}
                  <span class="muted change-path">
                    <Prose text={limits ?? 'not in the draft'} />
                  </span>
                </>
              ),
            },
            { title: 'Keys', isNumber: true, cell: ({ keys }: PlanCounts) => countText(keys) },
            {
              title: 'Keys newly refused',
              isNumber: true,
              cell: ({ keysNewlyRefused }: PlanCounts) => countText(keysNewlyRefused),
            },
            { title: 'Requests', isNumber: true, cell: ({ counts }: PlanCounts) => countText(counts.requests) },
            {
              title: 'Newly refused',
              isNumber: true,
              cell: ({ counts }: PlanCounts) => countText(counts.newlyRefused),
            },
            {
              title: 'Newly admitted',
              isNumber: true,
              cell: ({ counts }: PlanCounts) => countText(counts.newlyAdmitted),
            },
            {
              title: 'Bans',
              isNumber: true,
              cell: ({ counts }: PlanCounts) => <Change {...pair(counts, ({ bans }) => bans)} />,
            },
          ]}
        />
      </Section>
      <KeysTouched
        title="Would be refused and is not today"
        none="No caller would be refused that is not refused today."
        keys={refused}
        count={({ newlyRefused, unserved }: KeyCounts) => newlyRefused + unserved}
        head="Newly refused"
      />
      <KeysTouched
        title="Is refused today and would not be"
        none="No caller would be admitted that is refused today."
        keys={admitted}
        count={({ newlyAdmitted }: KeyCounts) => newlyAdmitted}
        head="Newly admitted"
      />
      {moreKeys > 0 && (
        <p class="muted">
          {plural(moreKeys, 'further key was', 'further keys were')} or would be refused; those with the most changes
          are listed. <code>tollgate plans simulate --json</code> lists all.
        </p>
      )}
    </>
  );
}

/** Why the figures may be wrong. */
function Doubt({ isComplete, verdicts }: { isComplete: boolean; verdicts: number }) {
  if (isComplete && verdicts === 0) return null;
  const missing = isComplete
    ? 'The record does not contain all counted requests'
    : 'The record lacks requests of some gateways';
  return (
    <div class="banner" role="alert">
      <p class="state-title">{missing}</p>
      <p>
        {verdicts === 0
          ? 'So the figures below are too low, and a key that calls several gateways may be judged too mildly.'
          : `Unchanged plans would already differ in ${countText(verdicts)} of these requests, so a difference of about that size below means nothing for the draft.`}{' '}
        A log of all gateways is exact.
      </p>
    </div>
  );
}

interface Pair {
  readonly value: string;
  readonly unit: string;
}

function pair({ recorded, simulated }: Counts, of: (verdicts: Counts['recorded']) => number): Pair {
  return { value: countText(of(simulated)), unit: `${countText(of(recorded))} in fact` };
}

function Figure({ title, kind, value, unit }: Pair & { title: string; kind: string }) {
  return (
    <div class={kind}>
      <dt>{title}</dt>
      <dd>
        {value}
        <span class="unit"> {unit}</span>
      </dd>
    </div>
  );
}

function Change({ value, unit }: Pair) {
  return (
    <>
      {value} <span class="muted">({unit})</span>
    </>
  );
}

/** How many keys a list shows at first. */
const MAX_KEYS = 25;

function KeysTouched({
  title,
  none,
  keys,
  head,
  count,
}: {
  title: string;
  none: string;
  keys: readonly KeyCounts[];
  head: string;
  count: (key: KeyCounts) => number;
}): ComponentChildren {
  const [isWhole, setWhole] = useState(false);
  const sorted = keys.toSorted((a, b) => count(b) - count(a));
  const shown = isWhole ? sorted : sorted.slice(0, MAX_KEYS);
  const names = useNames(shown.map(({ id }) => id));
  if (keys.length === 0)
    return (
      <Section title={title}>
        <Empty title={none} />
      </Section>
    );
  return (
    <Section title={title} note={plural(keys.length, 'key')}>
      <Table
        caption={title}
        rows={shown}
        keyOf={({ id }: KeyCounts) => id}
        columns={[
          {
            title: 'Key',
            isName: true,
            cell: ({ id, plan, ownLimits }: KeyCounts) => {
              const own = Object.entries(ownLimits ?? {}).map(([window, limit]) => `${countText(limit)} a ${window}`);
              return (
                <>
                  <CallerName id={id} name={names.get(id) ?? null} owner={null} plan={plan} />
                  {own.length > 0 && <span class="hint">own limit: {own.join(', ')}</span>}
                </>
              );
            },
          },
          {
            title: 'Plan',
            cell: ({ plan }: KeyCounts) => (
              <span class="plan-name">
                <bdi>{plan}</bdi>
              </span>
            ),
          },
          { title: 'Requests', isNumber: true, cell: ({ requests }: KeyCounts) => countText(requests) },
          { title: head, isNumber: true, cell: (key: KeyCounts) => <strong>{countText(count(key))}</strong> },
          {
            title: 'Bans',
            isNumber: true,
            cell: (key: KeyCounts) => <Change {...pair(key, ({ bans }) => bans)} />,
          },
          {
            title: 'First ban would begin',
            cell: ({ bannedAt }: KeyCounts) => (bannedAt === null ? '–' : <Time at={bannedAt} />),
          },
        ]}
      />
      {!isWhole && keys.length > MAX_KEYS && (
        <p class="show-more">
          <button type="button" onClick={() => setWhole(true)}>
            Show all {countText(keys.length)}
          </button>
        </p>
      )}
    </Section>
  );
}
