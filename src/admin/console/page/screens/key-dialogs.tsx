import { useRef, useState } from 'preact/hooks';
import { nameOf } from '../kit/callers.tsx';
import { ChangeDialog, Field, notify, SecretShown, SelectField, settledText } from '../kit/dialog.tsx';
import { momentText } from '../kit/format.tsx';
import { type Changing, changeIfSame, OperationDialog } from '../operation-dialog.tsx';
import { effectOf } from '../operation-words.ts';
import { ifKnown } from '../reading.ts';
import { ApiError, usePaused, useResource } from '../requests.ts';
import type { CustomerPage, Key, KeyMove, KeyWithSecret, MovedKey, Plan } from '../types.ts';
import { LastFour } from './caller-facts.tsx';
import { RecentUse } from './recent-use.tsx';

// The dialogs that change with which secrets a key works, and to which customer it belongs.

export type Secret = Key['secrets'][number];

export function RotateDialog(changing: Changing<Key>) {
  const { of: key, onClose, onChanged } = changing;
  const [made, setMade] = useState<string | null>(null);
  const [leaked, setLeaked] = useState<boolean | null>(null);
  const end = useRef('');
  const act = async (form: FormData) => {
    if (!form.has('leaked')) throw new ApiError(0, 'none', 'Say whether a secret was leaked.');
    const overlap = String(form.get('overlap'));
    const isLeaked = form.get('leaked') === 'yes';
    const body = isLeaked ? { leaked: true } : { overlap };
    const { status, data } = await changeIfSame<KeyWithSecret>(changing, 'rotate', body);
    end.current =
      isLeaked || overlap === '0s'
        ? 'The earlier secrets have ended.'
        : `The earlier secrets work for ${OVERLAPS[overlap]} more.`;
    setMade(data.key);
    notify(`${nameOf(key)} has a new secret. ${end.current}${settledText(status)}`);
    onChanged();
    return null;
  };
  return (
    <ChangeDialog
      title={made === null ? `Rotate the secret of ${nameOf(key)}` : `${nameOf(key)} has a new secret`}
      action="Rotate"
      isOneRequest={true}
      act={act}
      onClose={onClose}
      result={
        made !== null && (
          <SecretShown secret={made}>
            <p>{end.current}</p>
          </SecretShown>
        )
      }
    >
      <p>
        {effectOf(key.id, 'rotate')} It works now with {key.secrets.length === 1 ? 'the secret ' : 'the secrets '}
        <LastFour of={key} />.
      </p>
      <RecentUse id={key.id} />
      <fieldset onChange={(event: Event) => setLeaked((event.target as HTMLInputElement).value === 'yes')}>
        <legend>Was a secret leaked?</legend>
        <label class="check">
          <input type="radio" name="leaked" value="no" /> No: the earlier secrets keep working for a while
        </label>
        <label class="check">
          <input type="radio" name="leaked" value="yes" /> Yes: they end at once
        </label>
      </fieldset>
      {leaked === false && (
        <SelectField
          id="rotate-overlap"
          name="overlap"
          label="The earlier secrets work for"
          options={Object.entries(OVERLAPS)}
          first="24h"
        />
      )}
      {leaked === true && <p class="effect">The holder needs the new secret before it can call again.</p>}
    </ChangeDialog>
  );
}

const OVERLAPS: Readonly<Record<string, string>> = {
  '0s': 'no time: they end at once',
  '1h': '1 hour',
  '24h': '24 hours',
  '7d': '7 days',
  '30d': '30 days',
};

export function EndSecretDialog({ secret, ...changing }: Changing<Key> & { secret: Secret }) {
  const what = secret.last4 === null ? 'the secret that is known by its hash' : `the secret …${secret.last4}`;
  const title = `End ${what} of ${nameOf(changing.of)}`;
  const done = () => `${what[0]!.toUpperCase()}${what.slice(1)} of ${nameOf(changing.of)} has ended.`;
  const bodyOf = () => ({ last4: secret.last4 ?? '' });
  return <OperationDialog verb="end" changing={changing} title={title} bodyOf={bodyOf} done={done} />;
}

export function MoveDialog({ plans, ...changing }: Changing<Key> & { plans: readonly Plan[] | null }) {
  const { of: key, onClose, onChanged } = changing;
  const [to, setTo] = useState(key.customer?.id ?? '');
  const isLeaving = to === '' && key.customer !== undefined;
  const act = async (form: FormData) => {
    const plan = String(form.get('plan') ?? '');
    const body: KeyMove = { customer: to === '' ? null : to, ...(plan === '' ? {} : { plan }) };
    if ((key.customer?.id ?? '') === to) throw new ApiError(0, 'unchanged', 'The key belongs there already.');
    const { status, data } = await changeIfSame<MovedKey>(changing, 'move', body);
    onChanged();
    const where =
      data.customer === undefined ? 'belongs to no customer now' : `belongs to ${nameOf(data.customer)} now`;
    const ban = data.ban === null ? '' : ` Its ban until ${momentText(data.ban.until)} moved with it.`;
    return `${nameOf(key)} ${where}, on the plan ${data.plan}. Its counts start anew.${ban}${settledText(status)}`;
  };
  return (
    <ChangeDialog title={`Move ${nameOf(key)}`} isOneRequest={true} action="Move" act={act} onClose={onClose}>
      <p>{effectOf(key.id, 'move')}</p>
      <CustomerField value={to} onInput={setTo} />
      {isLeaving && (
        <SelectField
          id="move-plan"
          name="plan"
          label="Plan"
          hint="From now on for this key alone."
          required={key.plan === null}
          options={[
            ['', key.plan === null ? 'Choose a plan…' : `${key.plan}, as now`],
            ...(plans ?? []).filter(({ name }) => name !== key.plan).map(({ name }) => [name, name] as const),
          ]}
        />
      )}
    </ChangeDialog>
  );
}

/** The id of a customer, chosen by its name. The list offers the first customers that match. */
export function CustomerField({ value, onInput }: { value: string; onInput: (id: string) => void }) {
  const asked = usePaused(value);
  const query = asked === '' ? '' : `&q=${encodeURIComponent(asked)}`;
  const found = ifKnown(useResource<CustomerPage>(`/admin/customers?limit=50${query}`).reading)?.customers ?? [];
  return (
    <Field
      id="move-customer"
      label="Customer"
      hint="Type a part of its name and choose it, or paste its id. Empty: the key belongs to no customer."
    >
      <input
        id="move-customer"
        name="customer"
        list="move-customers"
        value={value}
        maxlength={100}
        autocomplete="off"
        spellcheck={false}
        pattern={'cus_[0-9A-Za-z]{1,16}'}
        title="Choose a customer from the list, or paste an id: cus_…"
        aria-describedby="move-customer-hint"
        onInput={(event: Event) => onInput((event.target as HTMLInputElement).value.trim())}
      />
      <datalist id="move-customers">
        {found.map(({ id, name, owner }) => (
          <option key={id} value={id}>
            {[name, owner].filter(Boolean).join(', ')}
          </option>
        ))}
      </datalist>
    </Field>
  );
}
