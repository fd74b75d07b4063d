import { useEffect, useState } from 'preact/hooks';
import { changeQuery, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { usePaused, useResource } from '../requests.ts';
import type { CustomerPage, Key, KeyOrCustomer, KeyPage } from '../types.ts';
import { isCustomer, isRecordId, nameOf } from './callers.tsx';
import { Field } from './dialog.tsx';
import { mayBeSecret } from './request-id.ts';
import { Empty, Loading } from './states.tsx';

// The filter of a screen by one caller, whom the reader names as people do: by its name, its owner or its id.

/** How many callers are offered. */
const OFFERED = 8;

/** The keys, and the customers if they count, that match a text. @param text null: nothing is looked for */
function useMatching(text: string | null, withCustomers: boolean): readonly KeyOrCustomer[] | null {
  const query = text === null ? '' : `?limit=${OFFERED}&q=${encodeURIComponent(text)}`;
  const keys = useResource<KeyPage>(text === null ? null : `/admin/keys${query}`);
  const customers = useResource<CustomerPage>(text === null || !withCustomers ? null : `/admin/customers${query}`);
  const [foundKeys, foundCustomers] = [ifKnown(keys.reading)?.keys, ifKnown(customers.reading)?.customers];
  if (foundKeys === undefined || (withCustomers && foundCustomers === undefined)) return null;
  return [...(foundCustomers ?? []), ...foundKeys];
}

interface CallerFieldProps {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  /** What is in the address. */
  readonly value: string;
  /** Whether a customer may be named too. */
  readonly withCustomers: boolean;
  readonly set: (name: string, value: string) => void;
  readonly onFault: (fault: string) => void;
}

/** A filter by one caller. */
export function CallerField({ id, name, label, value, withCustomers, set, onFault }: CallerFieldProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const isSecret = mayBeSecret(text.trim());
  const asked = usePaused(isSecret ? '' : text.trim());
  const found = useMatching(asked === '' || asked === value ? null : asked, withCustomers) ?? [];
  const apply = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => {
    const wanted = currentTarget.value.trim();
    // A secret must not reach the address.
    if (mayBeSecret(wanted)) onFault(`${label}: This is a secret. Search for it on the screen Keys.`);
    else set(name, wanted);
  };
  return (
    <Field id={id} label={label}>
      <input
        id={id}
        list={`${id}-list`}
        placeholder={`${label}: name or id`}
        maxlength={100}
        size={24}
        autocomplete="off"
        spellcheck={false}
        class={value === '' ? '' : 'is-set'}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onChange={apply}
      />
      <datalist id={`${id}-list`}>
        {found.map((one) => (
          <option key={one.id} value={one.id}>
            {[one.name, one.owner, customerOf(one)].filter(Boolean).join(', ')}
          </option>
        ))}
      </datalist>
    </Field>
  );
}

function customerOf(one: KeyOrCustomer): string | null {
  return (one as Key).customer?.name ?? null;
}

interface NamedCaller {
  /** The caller that is named; null if none is, or not one yet. */
  readonly id: string | null;
  /** Whom the text may mean, if that is not one caller; null while that is not known. */
  readonly several: readonly KeyOrCustomer[] | null;
  /** Whether the filter can be applied: one caller is named, or none is asked for. */
  readonly isSettled: boolean;
}

/** Whom the text of a CallerField names. A text that only one caller matches names that one. */
export function useNamedCaller(withCustomers = false): NamedCaller {
  const text = usePlace().query.get('key') ?? '';
  const isName = text !== '' && !isRecordId(text) && !mayBeSecret(text);
  const found = useMatching(isName ? text : null, withCustomers);
  const isId = isRecordId(text) && (withCustomers || !isCustomer(text));
  const named = isId ? text : isName && found?.length === 1 ? found[0]!.id : null;
  return { id: named, several: isName ? found : [], isSettled: named !== null || text === '' };
}

/** In place of what a filter by caller would show: whom it may mean, if that is not one caller. */
export function CallerChoice({ of: { several } }: { of: NamedCaller }) {
  const text = usePlace().query.get('key') ?? '';
  if (several === null) return <Loading what="the callers" />;
  if (several.length === 0) return <Empty title={`Nothing matches “${text}”.`} />;
  return (
    <Empty title={`Several match “${text}”. Choose one:`}>
      <p class="row">
        {several.map((one) => (
          <button key={one.id} type="button" onClick={() => changeQuery({ key: one.id })}>
            <bdi>{nameOf(one)}</bdi>
          </button>
        ))}
      </p>
    </Empty>
  );
}
