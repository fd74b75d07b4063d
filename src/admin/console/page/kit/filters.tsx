import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { changeQuery, hrefOf, navigate, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { Act, Fault } from './act.tsx';
import { CallerField } from './caller-field.tsx';
import { SelectField } from './dialog.tsx';
import { say } from './format.tsx';
import { Menu } from './menu.tsx';
import { usePlansInForce } from './plans-in-force.ts';
import { isSecretIn, TextFilter } from './text-filter.tsx';

/** A filter of a screen, by the name that it has in the address. */
export interface Filter {
  readonly name: string;
  readonly label: string;
  /** As text unless given. `caller` is a key, and `record` a key or a customer. */
  readonly as?: 'plan' | 'choice' | 'check' | 'caller' | 'record';
  /** Of a choice: what is offered, and the text if nothing is chosen. A link may name another value than those offered. */
  readonly options?: readonly (readonly [value: string, text: string])[];
  readonly any?: string;
  /** Of a text: what may be typed, and what it must match, which `title` says. */
  readonly placeholder?: string;
  readonly pattern?: string;
  readonly title?: string;
}

/** What a choice of the last so many days offers. */
export const SPANS = [
  ['1d', '1 day'],
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
] as const;

/** The filters of the address, without a secret that a user has put there by hand. */
export function filtersIn(query: URLSearchParams, filters: readonly Filter[]): URLSearchParams {
  const given = filters.map(({ name }) => [name, query.get(name) ?? ''] as const);
  return new URLSearchParams(
    given.filter(([name, text]) => text !== '' && !isSecretIn(name, text)) as unknown as string[][],
  );
}

interface FilterBarProps {
  readonly label: string;
  readonly filters: readonly Filter[];
  /** Called before a filter is applied. @returns whether the screen shows something else now */
  readonly onFilter?: ((name: string, value: string) => boolean) | undefined;
  /** Is given a secret, which never gets into the address. Left out, the bar says where secrets are searched for. */
  readonly onSecret?: ((secret: string) => void) | undefined;
  readonly children?: ComponentChildren;
}

/** The filters of a screen, which are in its address and can be kept by a name. Each is applied as soon as it changes. */
export function FilterBar({ label, filters, onFilter = () => false, onSecret, children }: FilterBarProps) {
  const { path, query } = usePlace();
  const [fault, setFault] = useState<ComponentChildren>(null);
  const given = filtersIn(query, filters);
  const set = (name: string, value: string) => {
    setFault(null);
    if (!onFilter(name, value)) changeQuery({ [name]: value });
  };
  const takeSecret = onSecret ?? (() => setFault(<SecretFault />));
  const secret = filters
    .map(({ name }) => [name, query.get(name) ?? ''] as const)
    .find(([name, text]) => isSecretIn(name, text))?.[1];
  useEffect(() => {
    if (secret === undefined) return;
    navigate(path, 'replace');
    takeSecret(secret);
  }, [secret]);
  return (
    <search aria-label={label}>
      <form class="filters" noValidate onSubmit={(event: Event) => event.preventDefault()}>
        {filters.map((one) => (
          <FilterField
            key={one.name}
            {...one}
            value={given.get(one.name) ?? ''}
            set={set}
            onSecret={takeSecret}
            onFault={setFault}
          />
        ))}
        {children}
        {given.size > 0 && <Act text="Clear filters" kind="quiet" on={() => clearFilters(filters)} />}
        <SavedFilters path={path} query={given.toString()} />
        <Fault of={fault} />
      </form>
    </search>
  );
}

export function clearFilters(filters: readonly Filter[]): void {
  changeQuery(Object.fromEntries(filters.map(({ name }) => [name, ''])));
}

function SecretFault() {
  return say`This looks like the secret of a key. It was not sent. ${<a href={hrefOf('/keys')}>Search for it on the screen Keys</a>}.`;
}

interface FilterFieldProps extends Filter {
  readonly value: string;
  readonly set: (name: string, value: string) => void;
  readonly onSecret: (secret: string) => void;
  readonly onFault: (fault: string) => void;
}

function FilterField(props: FilterFieldProps) {
  const { name, label, as, value, options = [], any = 'all', set } = props;
  const id = `filter-${name}`;
  const choose = (text: string) => set(name, text);
  if (as === 'plan') return <PlanChoice id={id} onChange={choose} />;
  if (as === 'choice') return <Choice {...{ id, name, label, any, options }} onChange={choose} />;
  if (as === 'caller' || as === 'record') return <CallerField {...props} id={id} withCustomers={as === 'record'} />;
  if (as === undefined) return <TextFilter {...props} id={id} />;
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={value === 'true'}
        onChange={({ currentTarget }) => choose(currentTarget.checked ? 'true' : '')}
      />
      {label}
    </label>
  );
}

interface ChoiceProps extends Required<Pick<Filter, 'name' | 'label' | 'any' | 'options'>> {
  readonly id: string;
  readonly onChange?: ((value: string) => void) | undefined;
}

/** A chip that names what it filters and by what. */
export function Choice({ id, name, label, any, options, onChange }: ChoiceProps) {
  const value = usePlace().query.get(name) ?? '';
  const isOffered = value === '' || options.some(([one]) => one === value);
  return (
    <SelectField
      id={id}
      name={name}
      label={label}
      class={value === '' ? '' : 'is-set'}
      value={value}
      options={[['', any] as const, ...options, ...(isOffered ? [] : [[value, value] as const])].map(([one, text]) => [
        one,
        `${label}: ${text}`,
      ])}
      onChange={({ currentTarget }) => onChange?.(currentTarget.value)}
    />
  );
}

/** A choice among the plans in force. */
function PlanChoice({ id, onChange }: { id: string; onChange: (value: string) => void }) {
  const plans = ifKnown(usePlansInForce().reading)?.plans;
  const options = (plans ?? []).map(({ name }) => [name, name] as const);
  return <Choice id={id} name="plan" label="Plan" any="all" options={options} onChange={onChange} />;
}

/** Where this browser keeps filters: by the paths of screens, and there by their names. */
const STORED = 'tollgate-filters';
type Stored = Readonly<Record<string, Readonly<Record<string, string>>>>;

function storedFilters(): Stored {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? '{}');
  } catch {
    // Another program's, or damaged: it is begun anew.
    return {};
  }
}

/** Filters that the reader keeps by a name, in this browser. @param query the filters of the present */
function SavedFilters({ path, query }: { path: string; query: string }) {
  const [all, setAll] = useState(storedFilters);
  const [name, setName] = useState('');
  const own = all[path] ?? {};
  const keep = (next: Readonly<Record<string, string>>) => {
    const changed = { ...all, [path]: next };
    localStorage.setItem(STORED, JSON.stringify(changed));
    setAll(changed);
    setName('');
  };
  if (query === '' && Object.keys(own).length === 0) return null;
  return (
    <Menu button="Saved filters">
      {(close: () => void) => (
        <>
          {Object.entries(own).map(([title, saved]) => (
            <div key={title} class="row spread">
              <button
                type="button"
                onClick={() => {
                  close();
                  navigate(`${path}?${saved}`);
                }}
              >
                <bdi>{title}</bdi>
              </button>
              <Act
                text="Forget"
                aria-label={`Forget ${title}`}
                on={() => keep(Object.fromEntries(Object.entries(own).filter(([one]) => one !== title)))}
              />
            </div>
          ))}
          {query !== '' && (
            <div class="stack tight">
              <input
                aria-label="Name of these filters"
                placeholder="Name of these filters"
                maxlength={60}
                value={name}
                onInput={({ currentTarget }) => setName(currentTarget.value)}
              />
              <Act
                text="Save these filters"
                disabled={name.trim() === ''}
                on={() => keep({ ...own, [name.trim()]: query })}
              />
            </div>
          )}
        </>
      )}
    </Menu>
  );
}
