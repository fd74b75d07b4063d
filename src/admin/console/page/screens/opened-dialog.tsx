import { useState } from 'preact/hooks';
import { ATTRIBUTES } from '../attributes.js';
import type { Values } from '../fields.tsx';
import { LiftDialog, ResetDialog, TopUpDialog } from '../help.tsx';
import { type CustomerOfKey, isCustomer, nameOf, pathOf } from '../kit/callers.tsx';
import { SecretShown } from '../kit/dialog.tsx';
import { countText, momentText, plural, say } from '../kit/format.tsx';
import { spentIn, WINDOWS } from '../kit/limit-windows.tsx';
import { momentFieldText } from '../kit/moment-field.tsx';
import { type Changing, OperationDialog } from '../operation-dialog.tsx';
import { operationAt, operationOn, titleOf } from '../operation-words.ts';
import { navigate } from '../place.ts';
import { ApiError, request } from '../requests.ts';
import type {
  Customer,
  DeletedCustomer,
  Key,
  KeyEdits,
  KeyOrCustomer,
  KeyWithSecret,
  MovedKey,
  Plan,
  ShownCustomer,
  ShownKey,
  Usage,
} from '../types.ts';
import { linesOf } from './attribute-fields.tsx';
import { LastFour } from './caller-facts.tsx';
import { RecentUse } from './recent-use.tsx';

// The dialogs of the screen of a key or a customer, which the browser loads when the first one is opened.

type Secret = Key['secrets'][number];
type Plans = readonly Plan[] | null;

interface DialogProps extends Changing<ShownKey | ShownCustomer | null> {
  /** The verb of the operation, or `create-key`. */
  readonly dialog: string;
  readonly id: string;
  readonly usage: Usage | null;
  readonly plans: Plans;
  /** How many keys of the customer are banned. */
  readonly banned: number;
  readonly secret: Secret | null;
}

export function OpenedDialog({ secret, banned, ...opened }: DialogProps) {
  const { dialog, of, id, usage, plans, onClose, onChanged } = opened;
  const name = of?.name ?? null;
  // The one that refuses for longest.
  const window = spentIn(usage?.windows ?? {}).at(-1)?.[0];
  if (dialog === 'lift') {
    const plan = isCustomer(id) ? undefined : usage?.plan;
    return <LiftDialog of={{ how: 'lift', id, name, plan, window, banned }} onClose={onClose} onChanged={onChanged} />;
  }
  if (dialog === 'topup') {
    const customer = of !== null && 'customer' in of ? of.customer : undefined;
    return <TopUpDialog of={{ how: 'topup', id, name, window, customer }} onClose={onClose} onChanged={onChanged} />;
  }
  if (of === null) return null;
  if (dialog === 'create-key') {
    const close = (key: string | null) => {
      onClose();
      if (key !== null) onChanged();
    };
    return <CreateDialog customer={{ id, name }} plans={plans} onClose={close} />;
  }
  if ('secrets' in of) {
    const ofKey = { ...opened, of };
    if (dialog === 'move') return <MoveDialog {...ofKey} />;
    if (dialog === 'rotate') return <RotateDialog {...ofKey} />;
    if (dialog === 'end' && secret !== null) return <EndSecretDialog {...ofKey} secret={secret} />;
  } else if (dialog === 'delete') return <DeleteCustomerDialog {...opened} of={of} />;
  const changing = { ...opened, of };
  if (dialog === 'reset') return <ResetDialog {...changing} />;
  if (dialog === 'update') return <EditDialog {...changing} />;
  const done = DONE[dialog];
  return (
    <OperationDialog<KeyOrCustomer>
      {...changeOf(changing, dialog)}
      {...(done && { done: (output) => `${nameOf(of)} ${done(output)}` })}
      {...(dialog === 'delete' && { onDone: () => navigate('/keys') })}
      intro={(dialog === 'revoke' || dialog === 'suspend') && <RecentUse id={id} />}
      hints={{ until: { empty: 'until it is resumed' } }}
    />
  );
}

/** What happened, in words, by the verb. */
const DONE: Readonly<Record<string, (output: KeyOrCustomer) => string>> = {
  suspend: ({ suspended }) =>
    `is suspended until ${suspended?.until == null ? 'it is resumed' : momentText(suspended.until)}.`,
  resume: () => 'is resumed.',
  revoke: () => 'is revoked. Every gateway refuses it within a second.',
  delete: () => 'is deleted.',
};

/** What all dialogs that change a record as it was read have in common. */
function changeOf({ of, etag, onClose, onChanged }: Changing, verb: string) {
  return { operation: operationOn(of.id, verb), of, etag, onClose, onDone: onChanged, reload: onChanged };
}

function DeleteCustomerDialog(changing: Changing<ShownCustomer>) {
  const { of: customer } = changing;
  const { id, keys, keysCursor } = customer;
  const some = keysCursor === null ? plural(keys.length, 'key') : `more than ${plural(keys.length, 'key')}`;
  const revoke = { label: 'Revoke its keys for good: each of their requests gets a 401', isRequired: true };
  return (
    <OperationDialog<DeletedCustomer>
      {...changeOf(changing, 'delete')}
      hints={{ keys: keys.length > 0 ? revoke : null }}
      intro={keys.length > 0 && <p>It has {some}. To keep one, move it first.</p>}
      done={({ keysRevoked }) =>
        `${nameOf(customer)} (${id}) is deleted.${keysRevoked === 0 ? '' : ` ${plural(keysRevoked, 'key')} revoked with it.`}`
      }
      onDone={() => navigate('/customers')}
    />
  );
}

const OVERLAPS: Readonly<Record<string, string>> = {
  '0s': 'no time: they end at once',
  '1h': '1 hour',
  '24h': '24 hours',
  '7d': '7 days',
  '30d': '30 days',
};

/** Of the input of a rotation. */
interface Asked {
  readonly overlap?: string;
}

function RotateDialog(changing: Changing<Key>) {
  const { of: key } = changing;
  const [leaked, setLeaked] = useState<boolean | null>(null);
  const given = () => {
    if (leaked === null) throw new ApiError(0, 'none', 'Say whether a secret was leaked.');
    return leaked ? { leaked } : {};
  };
  const endText = ({ overlap = '0s' }: Asked) =>
    overlap === '0s' ? 'The earlier secrets have ended.' : `The earlier secrets work for ${OVERLAPS[overlap]} more.`;
  const overlap = { label: 'The earlier secrets work for', options: Object.entries(OVERLAPS), first: '24h' };
  return (
    <OperationDialog<KeyWithSecret, Asked>
      {...changeOf(changing, 'rotate')}
      title={`Rotate the secret of ${nameOf(key)}`}
      hints={{ leaked: null, overlap: leaked === false ? overlap : null }}
      given={given}
      done={(_, input) => `${nameOf(key)} has a new secret. ${endText(input)}`}
      result={({ key: secret }, input) => [
        `${nameOf(key)} has a new secret`,
        <SecretShown secret={secret}>
          <p>{endText(input)}</p>
        </SecretShown>,
      ]}
      intro={
        <>
          <p>
            It works now with {key.secrets.length === 1 ? 'the secret ' : 'the secrets '}
            <LastFour of={key} />.
          </p>
          <RecentUse id={key.id} />
          <fieldset>
            <legend>Was a secret leaked?</legend>
            {([false, true] as const).map((isLeaked) => (
              <label class="check" key={String(isLeaked)}>
                <input type="radio" name="leaked" onChange={() => setLeaked(isLeaked)} />
                {isLeaked ? 'Yes: they end at once' : 'No: the earlier secrets keep working for a while'}
              </label>
            ))}
          </fieldset>
          {leaked === true && <p class="effect">The holder needs the new secret before it can call again.</p>}
        </>
      }
    />
  );
}

function EndSecretDialog({ secret, ...changing }: Changing<Key> & { secret: Secret }) {
  const what = secret.last4 === null ? 'the secret that is known by its hash' : `the secret …${secret.last4}`;
  return (
    <OperationDialog
      {...changeOf(changing, 'end')}
      title={`End ${what} of ${nameOf(changing.of)}`}
      hints={{ last4: null }}
      given={() => ({ last4: secret.last4 ?? '' })}
      done={() => `${titleOf(what)} of ${nameOf(changing.of)} has ended.`}
    />
  );
}

function MoveDialog({ plans, ...changing }: Changing<Key> & { plans: Plans }) {
  const { of: key } = changing;
  const before = key.customer?.id ?? '';
  const [to, setTo] = useState(before);
  const others = (plans ?? []).filter(({ name }) => name !== key.plan).map(({ name }) => [name, name] as const);
  const plan = {
    hint: 'From now on for this key alone.',
    isRequired: key.plan === null,
    options: [['', key.plan === null ? 'Choose a plan…' : `${key.plan}, as now`] as const, ...others],
  };
  return (
    <OperationDialog<MovedKey>
      {...changeOf(changing, 'move')}
      values={{ customer: before }}
      hints={{
        customer: { hint: FIND_CUSTOMER, onInput: (text) => setTo(text.trim()) },
        plan: to === '' && before !== '' ? plan : null,
      }}
      done={({ customer, plan, ban }) => {
        const where = customer === undefined ? 'belongs to no customer now' : `belongs to ${nameOf(customer)} now`;
        const moved = ban === null ? '' : ` Its ban until ${momentText(ban.until)} moved with it.`;
        return `${nameOf(key)} ${where}, on the plan ${plan}. Its counts start anew.${moved}`;
      }}
    />
  );
}

export const FIND_CUSTOMER =
  'Type a part of its name and choose it, or paste its id. Empty: the key belongs to no customer.';

interface CreateProps {
  readonly plans: Plans;
  /** @param id of what was made; null if nothing was */
  readonly onClose: (id: string | null) => void;
}

const SHARE = 'They bound what this key may take of the limits of the customer. Empty: no bound of its own.';

/** The fields of a key of a customer, which has the plan. */
const hintsOf = (customer: CustomerOfKey | undefined) => ({
  customer: null,
  ...(customer === undefined
    ? { limits: { hint: 'Empty: what the plan says.' } }
    : { plan: null, limits: { hint: SHARE } }),
});
const OF_CUSTOMER = { limits: { hint: 'All its keys share them. Empty: what the plan says.' } };

function Shares({ of: customer }: { of: CustomerOfKey }) {
  return <p>{say`It shares the plan and the limits of ${<bdi>{nameOf(customer)}</bdi>}.`}</p>;
}

/** @param customer to which the key is to belong */
export function CreateDialog({ plans, customer, onClose }: CreateProps & { customer?: CustomerOfKey }) {
  return (
    <OperationDialog<KeyWithSecret>
      operation={operationAt('POST /keys')}
      title="Create a key"
      action="Create key"
      plans={plans}
      hints={hintsOf(customer)}
      given={() => (customer === undefined ? {} : { customer: customer.id })}
      intro={customer && <Shares of={customer} />}
      done={({ id, name, plan }) => `The key ${name ?? id} is created on the plan ${plan}.`}
      result={({ id, name, key }) => [`The key ${name ?? id} is created`, <SecretShown secret={key} />]}
      onClose={(made) => onClose(made?.id ?? null)}
    />
  );
}

export function CreateCustomerDialog({ plans, onClose }: CreateProps) {
  return (
    <OperationDialog<Customer>
      operation={operationAt('POST /customers')}
      title="Create a customer"
      action="Create customer"
      plans={plans}
      hints={OF_CUSTOMER}
      intro={<p>Its keys share the plan and the limits. Make them on its screen afterwards, or move keys to it.</p>}
      done={({ id, name, plan }) => `The customer ${name ?? id} is created on the plan ${plan}.`}
      onDone={({ id }) => onClose(id)}
      onClose={() => onClose(null)}
    />
  );
}

/** Removes stored responses of routes with a cache. */
export function PurgeDialog({ onClose }: { onClose: () => void }) {
  return (
    <OperationDialog
      operation={operationAt('POST /cache/purges')}
      title="Purge the response cache"
      action="Purge"
      hints={{
        route: { hint: 'Its pattern in gateway.yaml, such as /v1/pets/**. Empty: all routes.' },
        path: { hint: 'The path that the service gets, without its query. Empty: all paths.' },
      }}
      intro={<p>Every gateway removes what it has stored within a second. The service answers the next requests.</p>}
      done={() => 'The stored responses are removed.'}
      onClose={onClose}
    />
  );
}

function valuesOf(record: KeyOrCustomer): Values {
  const { plan, expiresAt, ownLimits } = record;
  return {
    plan: plan ?? '',
    ...Object.fromEntries(ATTRIBUTES.map(({ name }) => [name, linesOf((record as Key)[name]).join('\n')])),
    expiresAt: expiresAt === null ? '' : momentFieldText(new Date(expiresAt)),
    ...Object.fromEntries(WINDOWS.map((window) => [window, String(ownLimits[window] ?? '')])),
  };
}

/** Edits a key or a customer as it was read with `etag`. A change that someone else made meanwhile is shown, and nothing is overwritten. */
function EditDialog({ plans, ...changing }: Changing & { plans: Plans }) {
  const { of: record, onChanged } = changing;
  const customer = 'secrets' in record ? record.customer : undefined;
  const [base, setBase] = useState(() => ({ values: valuesOf(record), etag: changing.etag, plan: record.plan }));
  /** Copies the new state into the fields that were not touched. @returns what has become different, as an error */
  const failed = async (failure: ApiError) => {
    if (failure.status !== 412) return failure;
    const fresh = await request<KeyOrCustomer>('GET', pathOf(record.id));
    const [before, after] = [base.values, valuesOf(fresh.data)];
    setBase({ values: after, etag: fresh.etag, plan: fresh.data.plan });
    onChanged();
    // The plan is drawn as an option before it is chosen.
    await new Promise((drawn) => setTimeout(drawn));
    const form = document.querySelector<HTMLFormElement>('dialog[open] form')!;
    const different = Object.keys(after).filter((name) => after[name] !== before[name]);
    for (const name of different) {
      const field = form.elements.namedItem(name) as HTMLInputElement | null;
      // A key of a customer has no field for its plan.
      if (field === null || field.value !== before[name]) continue;
      field.value = after[name]!;
      for (const event of ['input', 'change']) field.dispatchEvent(new Event(event, { bubbles: true }));
    }
    const news = different.map((name) => `${name} is now ${after[name] || 'empty'}`).join(', ');
    const message = `Someone changed this ${isCustomer(record.id) ? 'customer' : 'key'} meanwhile, and your changes are not saved yet: ${news || 'something beside these fields'}. The fields show it, with your changes on top. Save again to apply yours.`;
    return new ApiError(failure.status, failure.code, message);
  };
  const hints = isCustomer(record.id) ? OF_CUSTOMER : hintsOf(customer);
  return (
    <OperationDialog<KeyOrCustomer, KeyEdits>
      {...changeOf(changing, 'update')}
      title={`Edit ${nameOf(record)}`}
      action="Save"
      etag={base.etag}
      values={base.values}
      plans={plans}
      hints={{ ...(customer === undefined && { plan: { also: base.plan } }), ...hints }}
      failed={failed}
      done={(output, input) => `${nameOf(output)} is changed. Now: ${changedText(input)}.`}
      intro={customer && <Shares of={customer} />}
    />
  );
}

/** What a request has set, in words: `plan pro, 600 a minute, no owner, new notes`. */
function changedText({ limits = {}, ...rest }: KeyEdits): string {
  const limitText = ([window, limit]: [string, number | 'unlimited' | null | undefined]) =>
    limit == null ? `the plan’s limit a ${window}` : `${countText(limit)} a ${window}`;
  const memberText = ([name, value]: [string, unknown]) => {
    if (name === 'expiresAt') return value == null ? 'never expires' : `expires ${momentText(String(value))}`;
    const words = ATTRIBUTES.find((one) => one.name === name);
    if (words === undefined) return `${name} ${value}`;
    const [what, lines] = [words.label.toLowerCase(), linesOf(value as Key[typeof words.name])];
    if (words.form !== 'pairs' && lines.length === 0) return `no ${what}`;
    return words.form === 'pairs' || words.form === 'text' ? `new ${what}` : `${what} ${lines.join(' ')}`;
  };
  return [...Object.entries(rest).map(memberText), ...Object.entries(limits).map(limitText)].join(', ');
}
