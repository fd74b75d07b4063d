import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Choice, PlanChoice } from '../kit/filters.tsx';
import { Page } from '../kit/page.tsx';
import { usePlansInForce } from '../kit/plans-in-force.ts';
import { SearchResults } from '../kit/search.tsx';
import { isSecretLike, pathWith, TextFilter } from '../kit/text-filter.tsx';
import { navigate, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { useMay } from '../signed-in.tsx';
import type { Plan, SearchPage } from '../types.ts';

/** A filter of a list, by the name that it has in the address and in the operation. */
export interface ListFilter {
  readonly name: string;
  readonly label: string;
  /** As text unless given. */
  readonly as?: 'plan' | 'span' | 'check';
}

/** What `expiring` and `unused` offer. */
const SPANS = [
  ['1d', '1 day'],
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
] as const;

/** The dialog that makes a record. */
type CreateDialog = ComponentType<{
  plans: readonly Plan[] | null;
  /** @param id of the new record; null if none was made */
  onClose: (id: string | null) => void;
}>;

/**
 * The screen of a list of records: the search, the filters, which are in the address, what was found, and the dialog that makes one more.
 * A secret never gets into the address, not even if a user has put it there by hand.
 */
export function ListScreen<T, P extends SearchPage>({
  noun,
  searched,
  filters,
  rowsOf,
  tableOf,
  none,
  leftOut = '',
  Create,
  onFilter,
  onSecret,
  head,
  beside,
  instead,
  children,
}: {
  /** What one record is: `key`. The screen and the list of the API are called after it. */
  noun: string;
  /** What may be typed into the search. */
  searched: string;
  filters: readonly ListFilter[];
  rowsOf: (page: P) => readonly T[];
  tableOf: (rows: readonly T[]) => ComponentChildren;
  /** What is shown if there are no records at all. */
  none: ComponentChildren;
  /** What a search without matches has left out, as a sentence. */
  leftOut?: string;
  Create: CreateDialog;
  /** Called before a filter is applied. @returns whether the screen shows something else now */
  onFilter: (name: string, value: string) => boolean;
  onSecret: (secret: string) => void;
  /** Beside the heading, with the button that creates. */
  head?: ComponentChildren;
  /** Beside the filters. */
  beside?: ComponentChildren;
  /** In place of what was found. */
  instead?: ComponentChildren;
  /** Above what was found. */
  children?: ComponentChildren;
}) {
  const path = `/${noun}s`;
  const title = `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s`;
  const { query } = usePlace();
  const mayCreate = useMay('admin');
  const plans = ifKnown(usePlansInForce().reading)?.plans ?? null;
  const [isCreating, setCreating] = useState(false);
  const isAsked = query.has('create');
  const textOf = (name: string) => query.get(name) ?? '';
  const names = ['q', ...filters.map(({ name }) => name)];
  const isSecret = (name: string) => (name === 'q' ? isSecretLike(textOf(name)) : textOf(name).includes('tg_live_'));
  const secret = names.filter(isSecret).map(textOf)[0];
  const given = names.flatMap((name) =>
    textOf(name) !== '' && !isSecret(name) ? [[name, textOf(name)] as const] : [],
  );
  const set = (name: string, value: string) => {
    if (!onFilter(name, value)) navigate(pathWith(path, given, name, value), 'replace');
  };
  useEffect(() => {
    if (secret === undefined) return;
    navigate(path, 'replace');
    onSecret(secret);
  }, [secret]);
  useEffect(() => {
    // `?create` opens the dialog once.
    if (!isAsked) return;
    navigate(path, 'replace');
    setCreating(mayCreate);
  }, [isAsked]);
  const close = (id: string | null) => {
    setCreating(false);
    if (id !== null) navigate(`${path}/${id}`);
  };
  const create = mayCreate && (
    <button type="button" class="primary" onClick={() => setCreating(true)}>
      Create {noun}…
    </button>
  );
  const text = { set, onSecret };
  return (
    <Page
      title={title}
      beside={
        (head || create) && (
          <>
            {head}
            {create}
          </>
        )
      }
    >
      <search aria-label={title}>
        <form class="filters" onSubmit={(event: Event) => event.preventDefault()}>
          <TextFilter
            name="q"
            label="Search"
            value={isSecret('q') ? '' : textOf('q')}
            {...text}
            isWide={true}
            placeholder={searched}
          />
          {filters.map(({ name, label, as }) => {
            const change = (value: string) => set(name, value);
            const id = `filter-${name}`;
            if (as === 'plan') return <PlanChoice key={name} id={id} onChange={change} />;
            if (as === 'span') {
              return <Choice key={name} {...{ id, name, label }} any="any time" options={SPANS} onChange={change} />;
            }
            if (as === undefined) {
              return <TextFilter key={name} {...{ name, label }} value={textOf(name)} {...text} />;
            }
            const check = (event: Event) => change((event.target as HTMLInputElement).checked ? 'true' : '');
            return (
              <label class="check" key={name}>
                <input type="checkbox" checked={textOf(name) === 'true'} onChange={check} />
                {label}
              </label>
            );
          })}
          {beside}
        </form>
      </search>
      {children}
      {instead ?? (
        <SearchResults
          path={`/admin${path}`}
          noun={noun}
          query={new URLSearchParams(given.map(([name, value]) => [name, value])).toString()}
          rowsOf={rowsOf}
          tableOf={tableOf}
          none={none}
          leftOut={leftOut}
          clear={() => navigate(path, 'replace')}
        />
      )}
      {isCreating && <Create plans={plans} onClose={close} />}
    </Page>
  );
}
