import { useRef, useState } from 'preact/hooks';
import { type CustomerOfKey, isCustomer, nameOf, pathOf } from '../kit/callers.tsx';
import { ChangeDialog, Field, Fold, notify, SecretShown, SelectField, settledText } from '../kit/dialog.tsx';
import { countText, momentText } from '../kit/format.tsx';
import { WINDOWS } from '../kit/limit-windows.tsx';
import { MomentField, momentFieldText, momentIn } from '../kit/moment-field.tsx';
import { ApiError, request, useOnce } from '../requests.ts';
import type { Customer, KeyEdits, KeyOrCustomer, KeyWithSecret, Plan } from '../types.ts';
import {
  attributeChangesOf,
  attributeChangeText,
  attributeValuesOf,
  FurtherFields,
  NameField,
} from './attribute-fields.tsx';

// The fields of a key and of a customer, and the two dialogs with them: to create one and to edit one.

/** The text of each field. */
type Values = Readonly<Record<string, string>>;

function valuesOf(record: KeyOrCustomer): Values {
  const { plan, expiresAt, ownLimits } = record;
  const limits = WINDOWS.map((window) => [window, String(ownLimits[window] ?? '')] as const);
  return {
    plan: plan ?? '',
    ...attributeValuesOf('secrets' in record ? 'key' : 'customer', record),
    expires: expiresAt === null ? '' : momentFieldText(new Date(expiresAt)),
    ...Object.fromEntries(limits),
  };
}

type Changeable<T> = { -readonly [K in keyof T]: T[K] };

/** The members of a request that sets what differs from `before`; what the reader has not touched is left out. */
function changesOf(form: FormData, before: Values): KeyEdits {
  const changed = (name: string) => {
    if (!form.has(name)) return undefined;
    const text = String(form.get(name)).replaceAll('\r\n', '\n');
    return text === (before[name] ?? '') ? undefined : text.trim();
  };
  const changes: Changeable<KeyEdits> = {};
  const plan = changed('plan');
  if (plan !== undefined) changes.plan = plan;
  const expires = changed('expires');
  if (expires !== undefined) changes.expiresAt = momentIn(expires)?.toISOString() ?? null;
  const limits: Changeable<NonNullable<KeyEdits['limits']>> = {};
  for (const window of WINDOWS) {
    const text = changed(window);
    if (text !== undefined) limits[window] = text === '' ? null : text === 'unlimited' ? text : Number(text);
  }
  if (Object.keys(limits).length > 0) changes.limits = limits;
  return { ...changes, ...attributeChangesOf(changed, before) };
}

/** What a request has set, in words: `plan pro, 600 a minute, no owner`. Notes may be long. */
function changedText({ limits = {}, ...rest }: KeyEdits): string {
  const ofPlan = ([window, limit]: [string, number | 'unlimited' | null | undefined]) =>
    limit == null ? `the plan’s limit a ${window}` : `${countText(limit)} a ${window}`;
  return [
    ...Object.entries(rest).map(([name, value]) => {
      if (name === 'expiresAt') return value == null ? 'never expires' : `expires ${momentText(String(value))}`;
      return attributeChangeText(name, value) ?? `${name} ${value}`;
    }),
    ...Object.entries(limits).map(ofPlan),
  ].join(', ');
}

/**
 * The fields of a key or a customer. They are not controlled: a screen that is redrawn must not remove what the user types.
 * @param plans null if they could not be read; the plan is then typed
 */
function RecordFields({
  what,
  customer,
  values,
  plans,
  planNow,
}: {
  what: 'key' | 'customer';
  /** Of the key, which then has the plan of the customer. */
  customer?: CustomerOfKey | undefined;
  values: Values;
  plans: readonly Plan[] | null;
  /** A plan to choose besides, which may no longer be among those in force. */
  planNow?: string | null;
}) {
  const [chosen, setChosen] = useState(values.plan ?? '');
  const plan = plans?.find(({ name }) => name === chosen);
  const isEdit = values.plan !== undefined;
  const choose = (event: Event) => setChosen((event.target as HTMLSelectElement).value);
  const named = [...(plans ?? []).map(({ name }) => name), values.plan, planNow];
  const names = [...new Set(named.flatMap((name) => name || []))];
  return (
    <>
      {customer === undefined ? (
        plans === null ? (
          <Field id="key-plan" label="Plan">
            <input id="key-plan" name="plan" required defaultValue={values.plan} autocomplete="off" />
          </Field>
        ) : (
          <SelectField
            id="key-plan"
            name="plan"
            label="Plan"
            required
            options={[...(values.plan ? [] : [CHOOSE_PLAN]), ...names.map((name) => [name, name] as const)]}
            first={values.plan ?? ''}
            onChange={choose}
          />
        )
      ) : (
        <p>
          It shares the plan and the limits of <bdi>{nameOf(customer)}</bdi>.
        </p>
      )}
      <NameField values={values} />
      <MomentField id="key-expires" name="expires" label="Expires" empty="never" value={values.expires} />
      <Fold title="Limits of its own" isOpen={isEdit}>
        <p class="hint" id="key-limits-hint">
          Requests in each window: a number, or unlimited. {LIMITS_HINTS[customer === undefined ? what : 'share']}
        </p>
        <div class="grid">
          {WINDOWS.map((window) => {
            const id = `key-${window}`;
            const ofPlan = customer === undefined ? plan?.limits[window] : undefined;
            const isCustom = ofPlan === 'custom';
            const hint = isCustom
              ? 'required by the plan'
              : customer === undefined && plan
                ? `plan: ${ofPlan === undefined ? 'none' : countText(ofPlan)}`
                : undefined;
            return (
              <Field key={window} id={id} label={`A ${window}`.replace('A hour', 'An hour')} hint={hint}>
                <input
                  id={id}
                  name={window}
                  defaultValue={values[window]}
                  required={isCustom}
                  pattern={'[0-9]{1,15}|unlimited'}
                  title="A number, or: unlimited"
                  autocomplete="off"
                  aria-describedby={`${hint ? `${id}-hint ` : ''}key-limits-hint`}
                />
              </Field>
            );
          })}
        </div>
      </Fold>
      <FurtherFields kind={what} values={values} isOpen={isEdit} />
    </>
  );
}

const CHOOSE_PLAN = ['', 'Choose a plan…'] as const;

const LIMITS_HINTS = {
  key: 'Empty: what the plan says.',
  customer: 'All its keys share them. Empty: what the plan says.',
  share: 'They bound what this key may take of the limits of the customer. Empty: no bound of its own.',
} as const;

export function CreateDialog({
  plans,
  customer,
  onClose,
}: {
  /** To which the key is to belong. */
  customer?: CustomerOfKey | undefined;
  plans: readonly Plan[] | null;
  /** @param id of the new key; null if none was made */
  onClose: (id: string | null) => void;
}) {
  const [made, setMade] = useState<KeyWithSecret | null>(null);
  const message = useRef('');
  const once = useOnce();
  const act = async (form: FormData) => {
    const fields = changesOf(form, {});
    const body = customer === undefined ? fields : { ...fields, customer: customer.id };
    const { status, data } = await request<KeyWithSecret>('POST', '/admin/keys', { body, headers: once(body) });
    message.current = `The key ${data.name ?? data.id} is created on the plan ${data.plan}.${settledText(status)}`;
    setMade(data);
    return null;
  };
  const close = () => {
    onClose(made?.id ?? null);
    // After onClose, because a notice belongs to the screen on which it appears.
    if (made !== null) notify(message.current);
  };
  return (
    <ChangeDialog
      title={made === null ? 'Create a key' : `The key ${made.name ?? made.id} is created`}
      action="Create key"
      isOneRequest={true}
      act={act}
      onClose={close}
      result={made !== null && <SecretShown secret={made.key} />}
    >
      <RecordFields what="key" customer={customer} values={{}} plans={plans} />
    </ChangeDialog>
  );
}

/** Edits a key or a customer as it was read with `etag`. A change that someone else made meanwhile is shown, and nothing is overwritten. */
export function EditDialog({
  of: record,
  etag,
  plans,
  onClose,
  onChanged,
}: {
  of: KeyOrCustomer;
  etag: string | null;
  plans: readonly Plan[] | null;
  onClose: () => void;
  onChanged: () => void;
}) {
  const what = isCustomer(record.id) ? 'customer' : 'key';
  const [first] = useState(() => valuesOf(record));
  const [planNow, setPlanNow] = useState(record.plan);
  const base = useRef({ values: first, etag });
  const fields = useRef<HTMLDivElement>(null);
  const act = async (form: FormData) => {
    const body = changesOf(form, base.current.values);
    if (Object.keys(body).length === 0) throw new ApiError(0, 'unchanged', 'Nothing is changed yet.');
    const headers = { 'If-Match': base.current.etag ?? '*' };
    try {
      const { status, data } = await request<KeyOrCustomer>('PATCH', pathOf(record.id), { body, headers });
      onChanged();
      return `${nameOf(data)} is changed. Now: ${changedText(body)}.${settledText(status)}`;
    } catch (failure) {
      if (!(failure instanceof ApiError) || failure.status !== 412) throw failure;
      throw await takeOver(failure);
    }
  };
  /** Copies the new state into the fields that were not touched. @returns what has become different, as an error */
  const takeOver = async ({ status, code }: ApiError) => {
    const fresh = await request<KeyOrCustomer>('GET', pathOf(record.id));
    const [before, after] = [base.current.values, valuesOf(fresh.data)];
    base.current = { values: after, etag: fresh.etag };
    onChanged();
    setPlanNow(fresh.data.plan);
    // The plan is drawn as an option before it is chosen.
    await new Promise((drawn) => setTimeout(drawn));
    const different = Object.keys(after).filter((name) => after[name] !== before[name]);
    for (const name of different) {
      const field = fields.current!.querySelector<HTMLInputElement>(`[name="${name}"]`);
      // A key of a customer has no field for its plan.
      if (field === null || field.value !== before[name]) continue;
      field.value = after[name]!;
      field.dispatchEvent(new Event('change', { bubbles: true }));
    }
    const news = different.map((name) => `${name} is now ${after[name] || 'empty'}`).join(', ');
    const differences = news === '' ? 'something beside these fields' : news;
    return new ApiError(
      status,
      code,
      `Someone changed this ${what} meanwhile, and your changes are not saved yet: ${differences}. The fields show it, with your changes on top. Save again to apply yours.`,
    );
  };
  return (
    <ChangeDialog title={`Edit ${nameOf(record)}`} isOneRequest={true} action="Save" act={act} onClose={onClose}>
      <div class="dialog-body" ref={fields}>
        <RecordFields
          what={what}
          customer={'secrets' in record ? record.customer : undefined}
          values={first}
          plans={plans}
          planNow={planNow}
        />
      </div>
    </ChangeDialog>
  );
}

export function CreateCustomerDialog({
  plans,
  onClose,
}: {
  plans: readonly Plan[] | null;
  /** @param id of the new customer; null if none was made */
  onClose: (id: string | null) => void;
}) {
  const once = useOnce();
  const act = async (form: FormData) => {
    const body = changesOf(form, {});
    const { status, data } = await request<Customer>('POST', '/admin/customers', { body, headers: once(body) });
    onClose(data.id);
    // After onClose, because a notice belongs to the screen on which it appears.
    notify(`The customer ${data.name ?? data.id} is created on the plan ${data.plan}.${settledText(status)}`);
    return null;
  };
  return (
    <ChangeDialog
      title="Create a customer"
      isOneRequest={true}
      action="Create customer"
      act={act}
      onClose={() => onClose(null)}
    >
      <p>Its keys share the plan and the limits. Make them on its screen afterwards, or move keys to it.</p>
      <RecordFields what="customer" values={{}} plans={plans} />
    </ChangeDialog>
  );
}
