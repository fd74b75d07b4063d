import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { callersText } from '../../../../model/caller-count.ts';
import { Act } from '../kit/act.tsx';
import { type Column, Table } from '../kit/data-table.tsx';
import { ChangeDialog } from '../kit/dialog.tsx';
import { Editor, type EditorHandle } from '../kit/editor.tsx';
import { countText, Prose, plural, say } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Badge, Page, Section } from '../kit/page.tsx';
import { PatchActions, PatchText } from '../kit/patch-view.tsx';
import { Running, useRun } from '../kit/run.tsx';
import { Banner, Empty, Shown } from '../kit/states.tsx';
import { operationAt } from '../operation-words.ts';
import { hrefOf, navigate } from '../place.ts';
import { type Draft, hasUnsavedDraft, keep, kept, linesOf, type Result } from '../plans-kept.ts';
import { ifKnown } from '../reading.ts';
import { ApiError, isPassing, request, useResource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { Checked, Compared, PlanChange, PlansFile, PlansWritten, Simulated, SimulationInput } from '../types.ts';
import { Affected } from './plans-affected.tsx';
import { RETRY_MS, WHY_PLANS, WithComparison } from './plans-comparison.tsx';
import { PlanForm } from './plans-form.tsx';
import { type SimulatedRequests, SimulateForm, SimulationReport } from './plans-simulate.tsx';

const WritingDialog = later(async () => (await import('../operation-dialog.tsx')).OperationDialog<PlansWritten>);

// The steps of a draft of plans.yaml: edit, compare, simulate, apply.

/** The text for the file, with the line ends of the file. */
function fileText({ of, text }: Draft): string {
  if (text === linesOf(of.text)) return of.text;
  return of.text.includes('\r\n') ? text.replaceAll('\n', '\r\n') : text;
}

function draftOf(file: PlansFile, etag: string | null): Draft {
  return { of: file, etag, text: linesOf(file.text), checked: null, compared: null, simulated: null };
}

const STEPS = [
  { path: 'edit', name: 'Edit', title: 'Edit plans' },
  { path: 'compare', name: 'Compare', title: 'Compare the draft' },
  { path: 'simulate', name: 'Simulate', title: 'Simulate the draft' },
  { path: 'apply', name: 'Apply', title: 'Apply the draft' },
] as const;

type Step = (typeof STEPS)[number];

interface StepProps {
  readonly draft: Draft;
  readonly change: (part: Partial<Draft>) => void;
}

/** `/plans/STEP`, the way to change the plans. */
export function Drafting({ rest }: { rest: string }) {
  const step = STEPS.find(({ path }) => path === rest);
  return step === undefined ? (
    <Page title="Not found">
      <Empty title="There is no such step." />
    </Page>
  ) : (
    <Stepped step={step} />
  );
}

function Stepped({ step }: { step: Step }) {
  const file = useResource<PlansFile>('/admin/plans/file');
  const [, redraw] = useState({});
  const set = (draft: Draft | null) => {
    keep(draft);
    redraw({});
  };
  const change = (part: Partial<Draft>) => {
    if (kept.draft !== null) set({ ...kept.draft, ...part });
  };
  const [data, etag] = [ifKnown(file.reading), file.etag];
  useEffect(() => {
    if (data === null) return;
    if (kept.draft === null || (!hasUnsavedDraft() && kept.draft.of.version !== data.version)) set(draftOf(data, etag));
    // What may be written depends on the settings, too.
    else if (kept.draft.of.version === data.version) change({ of: data });
  }, [data, etag]);
  const { draft } = kept;
  const beside = hasUnsavedDraft() && <Discard discard={() => data !== null && set(draftOf(data, etag))} />;
  return (
    <Page title={step.title} back={{ title: 'Plans', path: '/plans' }} beside={beside}>
      {draft !== null && <Steps at={step} draft={draft} />}
      <Shown of={file} what="plans.yaml">
        {(data: PlansFile) =>
          draft !== null && (
            <>
              {data.version !== draft.of.version && (
                <ChangedMeanwhile
                  load={() => set(draftOf(data, etag))}
                  keepDraft={() => change({ of: data, etag, compared: null })}
                />
              )}
              {step.path === 'edit' && <Edit draft={draft} change={change} />}
              {step.path === 'compare' && <Compare draft={draft} change={change} />}
              {step.path === 'simulate' && <Simulate draft={draft} change={change} />}
              {step.path === 'apply' && <Apply draft={draft} change={change} reload={file.reload} />}
            </>
          )
        }
      </Shown>
    </Page>
  );
}

/** The present step of the draft, and the results so far. */
function Steps({ at, draft }: { at: Step; draft: Draft }) {
  const { text, checked, compared, simulated } = draft;
  const current = <T,>(result: Result<T> | null) => (result?.of === text ? result.result : null);
  const [check, diff, simulation] = [current(checked), current(compared), current(simulated)];
  const faults = faultCount(check ?? diff);
  const isAdmin = useMay('admin');
  const notes: Readonly<Record<Step['path'], string>> = {
    edit: faults > 0 ? plural(faults, 'fault') : hasUnsavedDraft() ? 'unsaved draft' : 'no changes',
    compare: diff === null || faults > 0 ? '' : plural(diff.changes.length, 'change'),
    simulate: simulation?.report?.headline.split(/ \(|\./)[0] ?? '',
    apply: !isAdmin
      ? 'by an admin'
      : diff === null || diff.patch === ''
        ? ''
        : diff.refused.length > 0
          ? 'would be refused'
          : 'ready',
  };
  return (
    <ol class="steps" aria-label="Steps">
      {STEPS.map(({ path, name }, i) => (
        <li key={path}>
          <a href={hrefOf(`/plans/${path}`)} aria-current={path === at.path ? 'step' : undefined}>
            <span class="tag" aria-hidden="true">
              {i + 1}
            </span>
            <span>
              {name} {notes[path] !== '' && <span class="muted">{notes[path]}</span>}
            </span>
          </a>
        </li>
      ))}
    </ol>
  );
}

function faultCount(checked: Checked | null): number {
  return checked === null ? 0 : checked.faults.length + checked.moreFaults;
}

function Discard({ discard }: { discard: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const act = async () => {
    discard();
    return 'The draft of plans.yaml is discarded.';
  };
  return (
    <>
      <Act text="Discard…" on={() => setOpen(true)} />
      {isOpen && (
        <ChangeDialog
          title="Discard the draft of plans.yaml"
          action="Discard the draft"
          isDangerous={true}
          act={act}
          onClose={() => setOpen(false)}
        >
          <p>Your changes are in no file yet, and are lost. The editor shows the file again as it is.</p>
        </ChangeDialog>
      )}
    </>
  );
}

function ChangedMeanwhile({ load, keepDraft }: { load: () => void; keepDraft: () => void }) {
  return (
    <Banner title="plans.yaml has changed since you began this draft">
      <p>
        Someone else has changed the file. If you keep your draft, Compare shows what differs from the file as it is
        now; what the other person changed is undone unless you make the same change.
      </p>
      <p class="row">
        <Act text="Keep my draft" on={keepDraft} />
        <Act text="Discard it and load the file" on={load} />
      </p>
    </Banner>
  );
}

/** How long after the last keystroke the page checks the draft, in milliseconds. */
const QUIET_MS = 300;

function Edit({ draft, change }: StepProps) {
  const mayApply = useMay('admin');
  const { text, checked, of } = draft;
  const editor = useRef<EditorHandle>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [round, setRound] = useState(0);
  const isChecked = checked?.of === text;
  useEffect(() => {
    if (isChecked) return;
    const controller = new AbortController();
    let retry: ReturnType<typeof setTimeout>;
    const check = async () => {
      const { signal } = controller;
      try {
        const { data } = await request<Checked>('POST', '/admin/plans/check', {
          body: { text: fileText(draft) },
          signal,
        });
        if (signal.aborted) return;
        setError(null);
        change({ checked: { of: text, result: data } });
      } catch (failure) {
        if (signal.aborted) return;
        if (!(failure instanceof ApiError)) throw failure;
        setError(failure);
        if (isPassing(failure) || failure.code === 'busy') retry = setTimeout(() => setRound(round + 1), RETRY_MS);
      }
    };
    const timer = setTimeout(() => void check(), checked === null ? 0 : QUIET_MS);
    return () => {
      clearTimeout(timer);
      clearTimeout(retry);
      controller.abort();
    };
  }, [text, isChecked, round]);
  const { faults = [], warnings = [] } = checked?.result ?? {};
  const marks = [
    ...warnings.map((one) => ({ ...one, kind: 'warning' as const })),
    ...faults.map((one) => ({ ...one, kind: 'fault' as const })),
  ];
  return (
    <Section title={of.path} note={say`version ${<code>{of.version}</code>}`}>
      <div class="with-aside">
        <div>
          <Editor
            id="plans-text"
            label="Text of plans.yaml"
            value={text}
            marks={marks}
            onText={(text: string) => change({ text })}
            handle={editor}
          />
          <p class="muted after">
            The gateways do not change until {mayApply ? 'you apply' : 'an admin applies'} the draft.
          </p>
          <div class="row spread after">
            <p id="plans-text-state" role="status">
              <CheckState checked={checked?.result ?? null} isChecked={isChecked} error={error} />
            </p>
            <Act text="Compare" kind="primary" on={() => navigate('/plans/compare')} />
          </div>
          {marks.length > 0 && (
            <ul class="faults" aria-label="Faults and warnings">
              {marks
                .toSorted((a, b) => a.line - b.line || a.column - b.column)
                .map((one) => (
                  <li key={`${one.line} ${one.column} ${one.message}`}>
                    <button type="button" class="quiet" onClick={() => editor.current?.jump(one)}>
                      <Badge kind={one.kind === 'fault' ? 'bad' : 'warn'}>Line {one.line}</Badge>
                      <span>
                        <span class="hidden">{one.kind}: </span>
                        {one.path !== '' && (
                          <>
                            <code>
                              <bdi>{one.path}</bdi>
                            </code>{' '}
                          </>
                        )}
                        <bdi>{one.message}</bdi>
                      </span>
                    </button>
                  </li>
                ))}
            </ul>
          )}
        </div>
        <PlanForm text={text} onText={(text: string) => change({ text })} />
      </div>
    </Section>
  );
}

interface CheckStateProps {
  readonly checked: Checked | null;
  readonly isChecked: boolean;
  readonly error: ApiError | null;
}

function CheckState({ checked, isChecked, error }: CheckStateProps) {
  if (error !== null) return say`${<Badge kind="warn">Not checked</Badge>} ${error.message}`;
  if (checked === null) return <span class="muted">Checking…</span>;
  const faults = faultCount(checked);
  const warnings = checked.warnings.length + checked.moreWarnings;
  const first = checked.faults.length < faults ? `, the first ${checked.faults.length} are listed` : '';
  // While the next check runs, what is known of the text before it stays, or each key would be announced.
  return (
    <>
      {faults > 0 ? (
        <Badge kind="bad">
          {plural(faults, 'fault')}
          {first}
        </Badge>
      ) : (
        <Badge kind="done">No faults</Badge>
      )}{' '}
      {warnings > 0 && <Badge kind="warn">{plural(warnings, 'warning')}</Badge>}
      {!isChecked && (
        <span class="muted" aria-hidden="true">
          {' '}
          …
        </span>
      )}
    </>
  );
}

/** Compares the draft with the plans in force, and shows the result unless the draft has faults. */
function ComparedDraft({
  draft,
  change,
  children,
}: StepProps & { children: (compared: Compared) => ComponentChildren }) {
  const { text, of, compared } = draft;
  const keepResult = (result: Compared) => change({ compared: { of: text, result }, checked: { of: text, result } });
  const known = compared?.of === text ? compared.result : null;
  return (
    <WithComparison text={fileText(draft)} against={of.version} known={known} keep={keepResult}>
      {(result: Compared) => (faultCount(result) > 0 ? <HasFaults checked={result} /> : children(result))}
    </WithComparison>
  );
}

function HasFaults({ checked }: { checked: Checked }) {
  return (
    <div class="state problem">
      <p class="state-title">The draft has {plural(faultCount(checked), 'fault')}</p>
      <p>A gateway would refuse it. Correct the faults first.</p>
      <p>
        <Act text="Back to the editor" on={() => navigate('/plans/edit')} />
      </p>
    </div>
  );
}

function Compare({ draft, change }: StepProps) {
  if (!hasUnsavedDraft()) return <Unchanged />;
  return (
    <ComparedDraft draft={draft} change={change}>
      {(compared: Compared) => <Comparison {...compared} />}
    </ComparedDraft>
  );
}

function Unchanged() {
  return (
    <Empty title="Nothing is changed yet.">
      <p>The draft is the file as it is.</p>
      <p>
        <Act text="Back to the editor" on={() => navigate('/plans/edit')} />
      </p>
    </Empty>
  );
}

function Comparison({ changes, affected, refused, live, warnings }: Compared) {
  const plans = new Set(changes.flatMap(({ plan }) => plan ?? []));
  const most = Math.max(0, ...changes.map(({ keys }) => keys ?? 0));
  const isUncounted = live?.isComplete === false;
  return (
    <>
      {refused.length > 0 && (
        <Banner title="A gateway would refuse this draft">
          {refused.map((sentence) => (
            <p>
              <bdi>{sentence}</bdi>
            </p>
          ))}
        </Banner>
      )}
      {isUncounted && (
        <Banner title="The active keys could not be counted">
          <p>
            The store is away, or has more keys than can be read in time (
            {plural(live!.keysRead, 'key was', 'keys were')} read). The changes are complete; whom they affect is
            unknown. <code>tollgate plans diff --against</code> counts without this bound.
          </p>
        </Banner>
      )}
      <Section
        title="What changes"
        note={
          changes.length > 0 && !isUncounted
            ? `${plural(changes.length, 'change')} in ${plural(plans.size, 'plan')}; the widest affects ${plural(most, 'active key')}.`
            : null
        }
      >
        <Table
          caption="Changes of the draft against the plans in force"
          rows={changes}
          keyOf={({ plan, what }) => `${plan} ${what}`}
          columns={CHANGE_COLUMNS}
          empty={
            <Empty title="The draft allows the same as the plans in force.">
              <p>Only comments or the layout of the file differ.</p>
            </Empty>
          }
        />
      </Section>
      {warnings.length > 0 && (
        <Section title="Warnings" note={plural(warnings.length, 'warning')}>
          <ul class="panel stack tight">
            {warnings.slice(0, MAX_WARNINGS).map(({ line, path, message }) => (
              <li>
                <Badge kind="warn">Line {line}</Badge>{' '}
                {path !== '' && (
                  <>
                    <code>
                      <bdi>{path}</bdi>
                    </code>{' '}
                  </>
                )}
                <bdi>{message}</bdi>
              </li>
            ))}
            {warnings.length > MAX_WARNINGS && <li>The editor lists all of them.</li>}
          </ul>
        </Section>
      )}
      {changes.length > 0 && (
        <Section
          title="Who is affected"
          note="A limit of its own spares a key or a customer. A customer stands for its keys."
        >
          <Affected affected={affected} />
        </Section>
      )}
      <div class="row">
        <Act text="Skip to Apply" on={() => navigate('/plans/apply')} />
        <Act text="Simulate" kind="primary" on={() => navigate('/plans/simulate')} />
      </div>
    </>
  );
}

const MAX_WARNINGS = 20;

const CHANGE_COLUMNS: readonly Column<PlanChange>[] = [
  {
    title: 'Plan',
    isName: true,
    cell: ({ plan }) =>
      plan === null ? (
        <span class="muted">every caller</span>
      ) : (
        <strong class="clamp">
          <bdi>{plan}</bdi>
        </strong>
      ),
  },
  {
    title: 'What',
    cell: ({ what }) => say`${wordsOf(what)} ${<code class="muted small">{what}</code>}`,
  },
  { title: 'Change', cell: (change) => <ChangeSign {...change} /> },
  {
    title: 'In force',
    cell: ({ what, from, change }) => (what === 'plan' && change === 'removed' ? 'present' : valueText(what, from)),
  },
  {
    title: 'Draft',
    cell: ({ what, to, change }) => (
      <strong>{what === 'plan' && change === 'added' ? 'present' : valueText(what, to)}</strong>
    ),
  },
  { title: 'Whom it affects', cell: (change) => (change.plan === null ? '–' : <Prose text={usersOf(change)} />) },
];

/** How many customers and active keys a change affects. */
function usersOf({ keys, keysOfCustomers, customers }: PlanChange): string {
  if (keys === null || keysOfCustomers === null || customers === null) return 'unknown';
  return callersText({ customers, keysOfCustomers, ownKeys: keys - keysOfCustomers });
}

function ChangeSign(of: PlanChange) {
  const { change, breaks, keys, customers, to } = of;
  if (breaks && (keys !== 0 || customers !== 0)) {
    return (
      <Badge kind="bad">
        {to === null ? 'Removed' : 'Changed'}: {keys === null ? 'active keys of it' : <Prose text={usersOf(of)} />}{' '}
        could not be served any more
      </Badge>
    );
  }
  const [sign, word] = SIGNS[change];
  return (
    <span class="change">
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}

const SIGNS: Readonly<Record<PlanChange['change'], readonly [string, string]>> = {
  added: ['+', 'Added'],
  removed: ['−', 'Removed'],
  raised: ['↑', 'Raised'],
  lowered: ['↓', 'Lowered'],
  changed: ['≠', 'Changed'],
};

const WORDS: Readonly<Record<string, string>> = {
  plan: 'The whole plan',
  enforce: 'Whether its limits refuse',
  bans: 'Bans',
  'bans.after': 'Refusals that lead to a ban',
  'bans.within': 'Time in which refusals add up',
  'bans.first': 'Length of the first ban',
  'bans.factor': 'How much longer each further ban is',
  'bans.longest': 'Length of the longest ban',
  'bans.forget': 'When bans are forgotten',
  'failed-authentication.minute': 'Failed authentications a minute from one address',
};
const SETTINGS: Readonly<Record<string, string>> = {
  window: 'kind of window',
  slices: 'slices',
  align: 'alignment',
  zone: 'time zone',
  anchor: 'day on which it begins',
};

/** `limits.minute.slices` in words. */
function wordsOf(what: string): string {
  const [part, window, setting] = what.split('.');
  if (part !== 'limits' && part !== 'shadow') return WORDS[what] ?? what;
  const limit = `${part === 'shadow' ? 'Shadow limit' : 'Limit'} each ${window}`;
  return setting === undefined ? limit : `${limit}: ${SETTINGS[setting] ?? setting}`;
}

function valueText(what: string, value: PlanChange['from']): string {
  if (value === null) return '–';
  if (typeof value === 'number') return countText(value);
  if (what === 'enforce') return value === 'true' ? 'enforced' : 'counted only';
  return value === 'custom' ? 'own limit of each key' : value;
}

function Simulate({ draft, change }: StepProps) {
  const { text, simulated } = draft;
  const run = useRun();
  const result = simulated?.of === text ? simulated.result : null;
  const simulate = (record: SimulatedRequests) =>
    run.start(async (signal) => {
      change({ simulated: null });
      const body: SimulationInput = { text: fileText(draft), ...record };
      const { data } = await request<Simulated>('POST', '/admin/plans/simulate', { body, signal });
      if (!signal.aborted) change({ simulated: { of: text, result: data } });
    });
  return (
    <>
      <SimulateForm run={run} simulate={simulate} />
      {run.since !== null && <Running what="Simulating" since={run.since} cancel={run.cancel} />}
      {result !== null && (result.report === null ? <HasFaults checked={result} /> : <SimulationReport {...result} />)}
      {!hasUnsavedDraft() && result === null && (
        <p class="muted">
          Nothing is changed yet: a simulation of the plans in force shows what they do to this traffic.
        </p>
      )}
      <div class="row">
        <Act text="Apply" kind={result === null ? '' : 'primary'} on={() => navigate('/plans/apply')} />
      </div>
    </>
  );
}

function Apply({ draft, change, reload }: StepProps & { reload: () => Promise<void> }) {
  if (!hasUnsavedDraft()) return <Unchanged />;
  return (
    <ComparedDraft draft={draft} change={change}>
      {({ patch, refused }: Compared) => (
        <>
          <Write draft={draft} refused={refused} change={change} reload={reload} />
          <Section
            title="Take the change along"
            note="A patch against the file as it is. Commit it where your settings live."
          >
            <PatchText patch={patch} label={`Patch of ${draft.of.path}`} />
            <PatchActions patch={patch} path={draft.of.path} />
          </Section>
        </>
      )}
    </ComparedDraft>
  );
}

function Write({
  draft,
  refused,
  change,
  reload,
}: StepProps & { refused: readonly string[]; reload: () => Promise<void> }) {
  const isAdmin = useMay('admin');
  const [isOpen, setOpen] = useState(false);
  const { path, version, writable, whyNotWritable } = draft.of;
  const keepWritten = (written: PlansWritten, etag: string | null) => {
    change({ of: { ...draft.of, text: fileText(draft), version: written.version }, etag, compared: null });
    void reload();
    navigate('/plans');
  };
  const writtenText = ({ version, inForce, whyNotInForce }: PlansWritten) =>
    `${path} is written, version ${version}. ${
      inForce
        ? 'It is in force in the gateway that wrote it.'
        : `The gateway that wrote it does not have it in force yet: ${whyNotInForce}`
    }`;
  if (!writable || !isAdmin || refused.length > 0) {
    const why =
      refused.length > 0
        ? 'A gateway would refuse this draft (see Compare), so it cannot be written.'
        : !isAdmin
          ? 'Only the role admin may write the file from here.'
          : (whyNotWritable ?? 'This gateway may not write the file: see admin.editPlans in gateway.yaml.');
    return (
      <Section title="Write the file">
        <p class="panel muted">{why}</p>
      </Section>
    );
  }
  return (
    <Section title="Write the file">
      <div class="panel row">
        <p>Replaces {path} of this gateway. It reloads the file at once; your copy in Git does not change.</p>
        <Act text={`Write ${path}…`} kind="primary" on={() => setOpen(true)} />
      </div>
      {isOpen && (
        <WritingDialog
          operation={operationAt('PUT /plans/file')}
          of={{ id: path, name: path }}
          etag={draft.etag ?? `"${version}"`}
          action={`Write ${path}`}
          hints={{ text: null, ...WHY_PLANS }}
          given={() => ({ text: fileText(draft) })}
          reload={() => void reload()}
          stale={`${path} has changed since you began this draft, so nothing was written. Cancel, then choose what becomes of your draft.`}
          done={writtenText}
          onDone={keepWritten}
          onClose={() => setOpen(false)}
          intro={
            <p>
              The file of the gateway is replaced, and the new plans come into force for all callers. Nothing is written
              if someone has changed it since version <code>{version}</code>.
            </p>
          }
        />
      )}
    </Section>
  );
}
