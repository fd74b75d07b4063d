import { useEffect, useRef, useState } from 'preact/hooks';
import { Act, Fault } from '../kit/act.tsx';
import { Field } from '../kit/dialog.tsx';
import { WINDOWS } from '../kit/limit-windows.tsx';
import { ApiError, request, usePaused } from '../requests.ts';
import type { DraftEdit, EditedDraft } from '../types.ts';

// The common settings of one plan as fields. The gateway makes each change in the text, which keeps its comments.

type Raw = Readonly<Record<string, unknown>>;
type Edit = (...edits: DraftEdit[]) => void;

/** What is below a name of a plan as it is written, which may have faults. */
function within(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Raw)[name] : undefined;
}

function entriesIn(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
}

/** @param onText sets the text of the draft */
export function PlanForm({ text, onText }: { text: string; onText: (text: string) => void }) {
  const [name, setName] = useState<string | null>(null);
  const [shown, setShown] = useState<EditedDraft | null>(null);
  const [error, setError] = useState<string | null>(null);
  const present = useRef(text);
  present.current = text;
  const last = useRef<Promise<void>>(Promise.resolve());
  /** Asks the gateway, one change after the other. What was typed into the text meanwhile stays: the change is made in that. */
  const ask = (edits: readonly DraftEdit[], plan: string | null) => {
    last.current = last.current.then(async () => {
      try {
        for (;;) {
          const sent = present.current;
          const body = { text: sent, edits, plan };
          const { data } = await request<EditedDraft>('POST', '/admin/plans/edit', { body });
          if (present.current !== sent) continue;
          present.current = data.text;
          if (data.text !== sent) onText(data.text);
          setShown(data);
          setError(null);
          return;
        }
      } catch (failure) {
        if (!(failure instanceof ApiError)) throw failure;
        setError(failure.message);
      }
    });
  };
  const plan = name ?? shown?.plans[0] ?? null;
  const paused = usePaused(text);
  useEffect(() => {
    if (shown?.text !== paused || (plan !== null && shown.plan === null)) ask([], plan);
  }, [paused, plan]);
  const choose = (next: string) => {
    setName(next);
    ask([], next);
  };
  const edit: Edit = (...edits) =>
    ask(
      edits.map(({ path, value }) => ({ path: ['plans', plan!, ...path], value })),
      plan,
    );
  const add = (next: string) => {
    setName(next);
    ask([{ path: ['plans', next, 'limits', 'minute'], value: 60 }], next);
  };
  return (
    <aside class="panel plan-form" aria-label="Form">
      <Fault of={error} />
      {shown?.isReadable === false ? (
        <p class="muted">The text has a fault in its YAML. Correct it, and the form shows the plans again.</p>
      ) : (
        <>
          <Field id="form-plan" label="Plan">
            <input
              id="form-plan"
              key={plan}
              list="form-plans"
              defaultValue={plan ?? ''}
              onChange={({ currentTarget: { value } }) => shown?.plans.includes(value) && choose(value)}
            />
            <datalist id="form-plans">
              {shown?.plans.map((one) => (
                <option key={one} value={one} />
              ))}
            </datalist>
          </Field>
          {plan !== null && shown?.plan != null && <PlanFields key={plan} of={shown.plan} edit={edit} />}
          <Adding noun="plan" taken={shown?.plans ?? []} add={add} />
        </>
      )}
    </aside>
  );
}

function PlanFields({ of, edit }: { of: Raw; edit: Edit }) {
  const routesOf = (group: unknown) =>
    ([within(group, 'routes')].flat() as unknown[]).filter((one) => one !== undefined);
  return (
    <>
      <Limits title="Requests" of={of.limits} path={['limits']} edit={edit} />
      <Bans of={of.bans} edit={edit} />
      {entriesIn(of.units).map(([unit, limits]) => (
        <Limits key={unit} title={unit} of={limits} path={['units', unit]} edit={edit} isRemovable={true} />
      ))}
      <Adding
        noun="unit"
        taken={entriesIn(of.units).map(([unit]) => unit)}
        add={(unit) => edit({ path: ['units', unit, 'day'], value: 'unlimited' })}
      />
      {entriesIn(of.groups).map(([group, value]) => (
        <div key={group} class="stack">
          <Limits
            title={`Group ${group}`}
            of={within(value, 'limits')}
            path={['groups', group, 'limits']}
            removes={['groups', group]}
            edit={edit}
            isRemovable={true}
          />
          <Field id={`form-routes-${group}`} label="Routes of the group, one a line">
            <textarea
              id={`form-routes-${group}`}
              class="code"
              rows={2}
              defaultValue={routesOf(value).join('\n')}
              onChange={({ currentTarget }) => {
                const routes = currentTarget.value.split('\n').map((line) => line.trim());
                edit({ path: ['groups', group, 'routes'], value: routes.filter((route) => route !== '') });
              }}
            ></textarea>
          </Field>
        </div>
      ))}
      <Adding
        noun="group"
        taken={entriesIn(of.groups).map(([group]) => group)}
        add={(group) =>
          edit(
            { path: ['groups', group, 'routes'], value: ['/v1/**'] },
            { path: ['groups', group, 'limits', 'minute'], value: 60 },
          )
        }
      />
    </>
  );
}

interface LimitsProps {
  readonly title: string;
  readonly of: unknown;
  readonly path: readonly string[];
  readonly removes?: readonly string[];
  readonly edit: Edit;
  readonly isRemovable?: boolean;
}

/** The limits of one part of a plan, by window. A window with a form, such as `sliding`, keeps it. */
function Limits({ title, of, path, removes = path, edit, isRemovable = false }: LimitsProps) {
  return (
    <fieldset>
      <legend class="row spread">
        <bdi>{title}</bdi>
        {isRemovable && <Act text="Remove" kind="quiet" on={() => edit({ path: [...removes], value: null })} />}
      </legend>
      <div class="grid">
        {WINDOWS.map((window) => {
          const written = within(of, window);
          const limit = within(written, 'limit');
          const change = (value: DraftEdit['value']) =>
            edit({ path: [...path, window, ...(limit === undefined || value === null ? [] : ['limit'])], value });
          return <Cell key={window} label={`a ${window}`} of={limit ?? written} change={change} />;
        })}
      </div>
    </fieldset>
  );
}

const BANS = [
  ['after', 'After refusals'],
  ['within', 'Within'],
  ['first', 'First ban'],
  ['factor', 'Each longer by'],
  ['longest', 'Longest'],
  ['forget', 'Forgotten after'],
] as const;

function Bans({ of, edit }: { of: unknown; edit: Edit }) {
  const kind = of === undefined ? 'all' : of === 'off' || of === false ? 'off' : 'own';
  const rule = { all: null, off: 'off', own: 10 } as const;
  return (
    <fieldset>
      <legend>Bans</legend>
      <select
        aria-label="Bans"
        value={kind}
        onChange={({ currentTarget }) => {
          const next = currentTarget.value as keyof typeof rule;
          edit({ path: next === 'own' ? ['bans', 'after'] : ['bans'], value: rule[next] });
        }}
      >
        <option value="all">As all plans</option>
        <option value="own">Its own rule</option>
        <option value="off">Off</option>
      </select>
      {kind === 'own' && (
        <div class="grid">
          {BANS.map(([name, label]) => (
            <Cell
              key={name}
              label={label}
              of={within(of, name)}
              change={(value) => edit({ path: ['bans', name], value })}
            />
          ))}
        </div>
      )}
    </fieldset>
  );
}

/** A value as it is written; empty if it is not. */
function Cell({ label, of, change }: { label: string; of: unknown; change: (value: DraftEdit['value']) => void }) {
  const text = of === undefined || of === null || typeof of === 'object' ? '' : String(of);
  return (
    <label class="lines small">
      <span>{label}</span>
      <input
        key={text}
        defaultValue={text}
        autocomplete="off"
        spellcheck={false}
        onChange={({ currentTarget }) => {
          const value = currentTarget.value.replaceAll(/[\s,]/g, '');
          change(value === '' ? null : /^\d+(\.\d+)?$/.test(value) ? Number(value) : value);
        }}
      />
    </label>
  );
}

/** Adds a plan, a unit or a group by its name. */
function Adding({ noun, taken, add }: { noun: string; taken: readonly string[]; add: (name: string) => void }) {
  const [name, setName] = useState('');
  const isNew = name !== '' && !taken.includes(name);
  const submit = (event: Event) => {
    event.preventDefault();
    if (!isNew) return;
    add(name);
    setName('');
  };
  return (
    <form class="row" onSubmit={submit}>
      <input
        aria-label={`Name of the new ${noun}`}
        placeholder={`New ${noun}`}
        value={name}
        autocomplete="off"
        onInput={({ currentTarget }) => setName(currentTarget.value.trim())}
      />
      <button type="submit" disabled={!isNew}>
        Add
      </button>
    </form>
  );
}
