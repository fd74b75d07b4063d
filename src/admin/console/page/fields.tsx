import type { ComponentChildren, InputHTMLAttributes } from 'preact';
import { useState } from 'preact/hooks';
import { ATTRIBUTES } from './attributes.js';
import { Chips } from './kit/chips.tsx';
import { Field, Fold, SelectField } from './kit/dialog.tsx';
import { countText } from './kit/format.tsx';
import { WINDOWS } from './kit/limit-windows.tsx';
import { MomentField, momentIn } from './kit/moment-field.tsx';
import { titleOf } from './operation-words.ts';
import { ifKnown } from './reading.ts';
import { ApiError, usePaused, useResource } from './requests.ts';
import type { CustomerPage, Plan, ScopeList } from './types.ts';
import type { FieldForm, FieldWords } from './words.ts';

// The fields of a dialog are the members of the input of its operation, and its request is what they hold.

/** The text of each field: one element a line. */
export type Values = Readonly<Record<string, string>>;

/** What the input does not say of a field. */
interface Hint {
  readonly label?: string;
  readonly hint?: string;
  /** What an empty moment means. */
  readonly empty?: string;
  /** What is offered, in place of a text that is typed; of `several` all are chosen at first. */
  readonly options?: readonly (readonly [value: string, text: string])[];
  readonly first?: string;
  readonly isRequired?: boolean;
  /** A plan to choose besides, which may no longer be among those in force. */
  readonly also?: string | null;
  readonly onInput?: (text: string) => void;
}

/** By the names of members. Null: the member is not asked for. */
export type Hints = Readonly<Record<string, Hint | null>>;

const COMMON: Hints = { reason: { hint: 'For operators, in the record of changes. Callers never see it.' } };

/** The titles of the folds, which have the fields that few operators need. */
const FOLDS = ['Limits of its own', 'Who may call what', 'Owner, metadata and notes'] as const;

function foldOf({ name, form }: FieldWords): (typeof FOLDS)[number] | null {
  if (form === 'limits') return FOLDS[0];
  if (name === 'name' || !ATTRIBUTES.some((one) => one.name === name)) return null;
  return FOLDS[form === 'list' || form === 'word' ? 1 : 2];
}

interface FieldsProps {
  readonly of: readonly FieldWords[];
  readonly hints?: Hints | undefined;
  /** What the fields hold at first; left out for what is new. */
  readonly values?: Values | undefined;
  /** Null if they could not be read; the plan is then typed. */
  readonly plans?: readonly Plan[] | null | undefined;
}

/** The fields are not controlled: a screen that is redrawn must not remove what the user types. */
export function Fields({ of, hints = {}, values, plans = null }: FieldsProps) {
  const [first] = useState(values);
  const [plan, choosePlan] = useState(values?.plan);
  const draw = (field: FieldWords): ComponentChildren => {
    const hint = { ...COMMON[field.name], ...hints[field.name] };
    if (field.form === 'limits') {
      const ofPlan = hints.plan === null ? undefined : plans?.find(({ name }) => name === plan);
      return <LimitFields key={field.name} hint={hint.hint} values={first} plan={ofPlan} />;
    }
    const isPlan = field.form === 'plan';
    const offered = isPlan && plans !== null ? { options: planOptions(plans, first?.plan, hint.also) } : {};
    const ofPlan = isPlan ? { isRequired: true, ...offered, onInput: choosePlan } : {};
    return <OneField key={field.name} of={field} hint={{ ...ofPlan, ...hint }} value={first?.[field.name]} />;
  };
  const isSet = ({ name, form }: FieldWords) => (form === 'limits' ? WINDOWS : [name]).some((one) => !!first?.[one]);
  const groups = Map.groupBy(
    of.filter(({ name }) => hints[name] !== null),
    foldOf,
  );
  return (
    <>
      {groups.get(null)?.map(draw)}
      {FOLDS.map(
        (title) =>
          groups.has(title) && (
            <Fold key={title} title={title} isOpen={groups.get(title)!.some(isSet)}>
              {groups.get(title)!.map(draw)}
            </Fold>
          ),
      )}
    </>
  );
}

function planOptions(plans: readonly Plan[], now: string | undefined, also: string | null | undefined) {
  const names = new Set([...plans.map(({ name }) => name), ...[now, also].filter((one) => !!one)]);
  const none = now ? [] : [['', 'Choose a plan…'] as const];
  return [...none, ...[...names].map((name) => [name!, name!] as const)];
}

function OneField({ of, hint: own, value }: { of: FieldWords; hint: Hint; value: string | undefined }) {
  const { name, form, max } = of;
  const words = ATTRIBUTES.find((one) => one.name === name);
  const { label = words?.label ?? titleOf(name.replace(/At$/, '')), hint = words?.hint, options, onInput } = own;
  // Without a customer, a key belongs to none.
  const { empty = 'never', isRequired: required = of.isRequired === true && form !== 'customer' } = own;
  const id = `field-${name}`;
  if (form === 'moment') return <MomentField id={id} name={name} label={label} empty={empty} value={value} />;
  const check = (value: string, text: string, isChecked: boolean) => (
    <label class="check" key={value}>
      <input type="checkbox" {...{ name, value, required }} defaultChecked={isChecked} /> {text}
    </label>
  );
  if (form === 'flag') return check(of.value ?? 'true', label, false);
  if (form === 'several')
    return (
      <fieldset>
        <legend>{label}</legend>
        {hint && <p>{hint}</p>}
        {options?.map(([value, text]) => check(value, text, true))}
      </fieldset>
    );
  const given = { id, name, required, maxlength: max, autocomplete: 'off' };
  const described = { 'aria-describedby': hint && `${id}-hint` };
  const input = ({ currentTarget }: { currentTarget: { value: string } }) => onInput?.(currentTarget.value);
  if (options) {
    const first = own.first ?? value ?? '';
    return <SelectField {...{ id, name, label, hint, options, first, required }} onChange={input} />;
  }
  const typed = { ...given, ...described, defaultValue: value, onInput: input };
  return (
    <Field id={id} label={label} hint={hint}>
      {form === 'customer' ? (
        <CustomerInput {...typed} />
      ) : form === 'number' ? (
        <input {...typed} {...WHOLE_NUMBER} />
      ) : form === 'line' || form === 'plan' ? (
        <input {...typed} />
      ) : (
        <textarea {...typed} rows={form === 'text' ? 3 : 2} spellcheck={form === 'text'}></textarea>
      )}
      {name === 'scopes' && <ScopeChips id={id} />}
    </Field>
  );
}

const WHOLE_NUMBER = {
  type: 'number',
  inputmode: 'numeric',
  min: '1',
  max: '999999999999999',
  title: 'A whole number of 1 or more',
} as const;

/** The scopes that routes require, for the field with this id. */
function ScopeChips({ id }: { id: string }) {
  const scopes = ifKnown(useResource<ScopeList>('/admin/scopes').reading)?.scopes ?? [];
  const add = (scope: string) => {
    const field = document.getElementById(id) as HTMLTextAreaElement;
    field.value = [...wordsIn(field.value).filter((one) => one !== scope), scope].join('\n');
  };
  return <Chips label="Required by routes" of={scopes} choose={add} />;
}

interface CustomerInputProps extends Pick<InputHTMLAttributes, 'id' | 'name'> {
  readonly defaultValue: string | undefined;
  readonly onInput: (event: { readonly currentTarget: HTMLInputElement }) => void;
}

/** The id of a customer, chosen by its name. The list offers the first customers that match. */
function CustomerInput({ onInput, ...given }: CustomerInputProps) {
  const [text, setText] = useState(given.defaultValue ?? '');
  const asked = usePaused(text.trim());
  const query = asked === '' ? '' : `&q=${encodeURIComponent(asked)}`;
  const found = ifKnown(useResource<CustomerPage>(`/admin/customers?limit=50${query}`).reading)?.customers ?? [];
  return (
    <>
      <input
        {...given}
        list={`${given.id}-list`}
        maxlength={100}
        spellcheck={false}
        pattern={'\\s*cus_[0-9A-Za-z]{1,16}\\s*'}
        title="Choose a customer from the list, or paste an id: cus_…"
        onInput={(event) => {
          setText(event.currentTarget.value);
          onInput(event);
        }}
      />
      <datalist id={`${given.id}-list`}>
        {found.map(({ id, name, owner }) => (
          <option key={id} value={id}>
            {[name, owner].filter(Boolean).join(', ')}
          </option>
        ))}
      </datalist>
    </>
  );
}

interface LimitFieldsProps {
  readonly hint: string | undefined;
  readonly values: Values | undefined;
  /** Whose limits hold where a field is empty; undefined if that is not known. */
  readonly plan: Plan | undefined;
}

function LimitFields({ hint, values, plan }: LimitFieldsProps) {
  return (
    <>
      <p class="hint" id="field-limits-hint">
        Requests in each window: a number, or unlimited. {hint}
      </p>
      <div class="grid">
        {WINDOWS.map((window) => {
          const id = `field-${window}`;
          const ofPlan = plan?.limits[window];
          const isCustom = ofPlan === 'custom';
          const known = ofPlan === undefined ? 'none' : isCustom ? '' : countText(ofPlan);
          const hint = isCustom ? 'required by the plan' : plan && `plan: ${known}`;
          return (
            <Field key={window} id={id} label={window === 'hour' ? 'An hour' : `A ${window}`} hint={hint}>
              <input
                {...{ id, name: window, required: isCustom, defaultValue: values?.[window] }}
                pattern={'[0-9]{1,15}|unlimited'}
                title="A number, or: unlimited"
                autocomplete="off"
                aria-describedby={`${hint ? `${id}-hint ` : ''}field-limits-hint`}
              />
            </Field>
          );
        })}
      </div>
    </>
  );
}

/**
 * The input that the fields of a form hold.
 * @param before what they held: what is as before is left out. Without it, what is empty is left out, unless it is required
 * @throws ApiError if something must be chosen and nothing is
 */
export function inputIn(form: FormData, fields: readonly FieldWords[], before?: Values): Record<string, unknown> {
  const changed = (name: string, isRequired = false) => {
    if (!form.has(name)) return undefined;
    const text = String(form.get(name)).replaceAll('\r\n', '\n');
    return text === (before?.[name] ?? '') && !(isRequired && before === undefined) ? undefined : text.trim();
  };
  const members = fields.flatMap(({ name, form: kind, isRequired }): (readonly [string, unknown])[] => {
    if (kind === 'limits') {
      const limits = WINDOWS.flatMap((window) => {
        const text = changed(window);
        return text === undefined ? [] : [[window, limitIn(text)] as const];
      });
      return limits.length === 0 ? [] : [[name, Object.fromEntries(limits)]];
    }
    if (kind === 'several') {
      const chosen = form.getAll(name);
      if (chosen.length === 0) throw new ApiError(0, 'none', `${titleOf(name)}: choose at least one.`);
      return [[name, chosen]];
    }
    const text = changed(name, isRequired);
    return text === undefined ? [] : [[name, READ[kind]?.(text, before?.[name] ?? '') ?? (text || null)]];
  });
  return Object.fromEntries(members);
}

/** The values that texts stand for; undefined or null: the text itself, or null if it is empty. */
const READ: Readonly<Partial<Record<FieldForm, (text: string, before: string) => unknown>>> = {
  moment: (text) => momentIn(text)?.toISOString(),
  number: Number,
  flag: (text) => text === 'true' || text,
  list: wordsIn,
  pairs: (text, before) => ({
    // A pair that is no longer in the text is removed.
    ...Object.fromEntries(pairsIn(before).map(([name]) => [name, null])),
    ...Object.fromEntries(pairsIn(text)),
  }),
};

function limitIn(text: string): number | 'unlimited' | null {
  return text === '' ? null : text === 'unlimited' ? text : Number(text);
}

function wordsIn(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}

function pairsIn(text: string): readonly (readonly [name: string, value: string])[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line) => {
    const [name = '', ...value] = line.trim().split('=');
    return [name, value.join('=')];
  });
}
