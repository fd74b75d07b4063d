import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Act } from '../kit/act.tsx';
import { type CsvRows, saveCsv } from '../kit/csv.ts';
import type { Selection } from '../kit/data-table.tsx';
import { clearFilters, type Filter, FilterBar, filtersIn } from '../kit/filters.tsx';
import { plural } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Page } from '../kit/page.tsx';
import { usePlansInForce } from '../kit/plans-in-force.ts';
import { SearchResults } from '../kit/search.tsx';
import { titleOf } from '../operation-words.ts';
import { navigate, usePlace } from '../place.ts';
import { ifKnown, type Known } from '../reading.ts';
import { useMay } from '../signed-in.tsx';
import type { KeyOrCustomer, ListPage, Plan } from '../types.ts';

const BulkDialog = later(async () => (await import('./bulk-dialog.tsx')).BulkDialog);

/** The dialog that makes a record. */
type CreateDialog = ComponentType<{
  plans: readonly Plan[] | null;
  /** @param id of the new record; null if none was made */
  onClose: (id: string | null) => void;
}>;

interface ListProps<T, P> {
  /** What one row is: `key`. The screen and its list in the API are called after it unless they have another name. */
  readonly noun: string;
  readonly title?: string;
  readonly path?: string;
  /** The list in the API, below `/admin`, where it has another path than the screen. */
  readonly list?: string;
  /** What may be typed into the search; left out, there is none. */
  readonly searched?: string;
  readonly filters: readonly Filter[];
  /** What is asked for, where that is not what the address has. */
  readonly ask?: (given: URLSearchParams) => URLSearchParams;
  readonly rowsOf: (page: P) => readonly T[];
  /** @param seen when they came */
  readonly tableOf: (
    rows: readonly T[],
    selection: Selection<T> | undefined,
    seen: Known<unknown>,
  ) => ComponentChildren;
  /** What is shown if there are no rows at all. */
  readonly none: ComponentChildren;
  /** What a search without matches has left out, as a sentence. */
  readonly leftOut?: string;
  readonly csv: (rows: readonly T[]) => CsvRows;
  /** The verbs of what can be done to several rows together. */
  readonly bulk?: readonly string[];
  readonly Create?: CreateDialog;
  readonly onFilter?: (name: string, value: string) => boolean;
  readonly onSecret?: (secret: string) => void;
  /** Beside the heading, with the button that creates. */
  readonly head?: ComponentChildren;
  /** Beside the filters. */
  readonly beside?: ComponentChildren;
  /** In place of what was found. */
  readonly instead?: ComponentChildren;
  /** Above what was found. */
  readonly children?: ComponentChildren;
}

/**
 * The screen of a list: the search and the filters, which are in the address, what was found, as a file too, what can be done to the rows
 * that are selected, and the dialog that makes one more.
 */
export function ListScreen<T, P extends ListPage>({
  noun,
  path = `/${noun}s`,
  list = path,
  title = `${titleOf(noun)}s`,
  searched,
  filters: further,
  ask = (given) => given,
  csv,
  bulk = [],
  Create,
  ...props
}: ListProps<T, P>) {
  const { query } = usePlace();
  const [mayCreate, mayChange] = [useMay('admin'), useMay('operator')];
  const plans = ifKnown(usePlansInForce().reading)?.plans ?? null;
  const [isCreating, setCreating] = useState(false);
  const [selected, setSelected] = useState<ReadonlyMap<string, T>>(new Map());
  const [doing, setDoing] = useState<string | null>(null);
  const [round, setRound] = useState(0);
  const filters: readonly Filter[] = [
    ...(searched === undefined ? [] : [{ name: 'q', label: 'Search', placeholder: searched }]),
    ...further,
  ];
  const asked = ask(filtersIn(query, filters)).toString();
  const isAsked = query.has('create');
  // What is not in sight is not changed.
  useEffect(() => setSelected(new Map()), [asked]);
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
  const create = Create !== undefined && mayCreate && (
    <Act text={`Create ${noun}…`} kind="primary" on={() => setCreating(true)} />
  );
  const save = (rows: readonly T[]) => saveCsv(`${noun}s-${new Date().toISOString().slice(0, 10)}.csv`, csv(rows));
  const rows = [...selected.values()];
  return (
    <Page
      title={title}
      beside={
        (props.head || create) && (
          <>
            {props.head}
            {create}
          </>
        )
      }
    >
      <FilterBar label={title} filters={filters} onFilter={props.onFilter} onSecret={props.onSecret}>
        {props.beside}
      </FilterBar>
      {props.children}
      {props.instead ?? (
        <SearchResults
          key={round}
          path={`/admin${list}`}
          noun={noun}
          query={asked}
          rowsOf={props.rowsOf}
          tableOf={(rows: readonly T[], seen: Known<unknown>) =>
            props.tableOf(rows, bulk.length === 0 ? undefined : { selected, select: setSelected }, seen)
          }
          none={props.none}
          leftOut={props.leftOut}
          clear={() => clearFilters(filters)}
          save={save}
        />
      )}
      {rows.length > 0 && (
        <section class="panel row selected" aria-label="Selected">
          <strong role="status">{plural(rows.length, noun)} selected</strong>
          {mayChange && bulk.map((verb) => <Act text={`${titleOf(verb)}…`} key={verb} on={() => setDoing(verb)} />)}
          <Act text="Download as CSV" on={() => save(rows)} />
          <Act text="Clear the selection" kind="quiet" on={() => setSelected(new Map())} />
        </section>
      )}
      {isCreating && Create !== undefined && <Create plans={plans} onClose={close} />}
      {doing !== null && (
        <BulkDialog
          verb={doing}
          noun={noun}
          of={rows as readonly unknown[] as readonly KeyOrCustomer[]}
          onClose={() => setDoing(null)}
          onChanged={() => {
            setSelected(new Map());
            setRound(round + 1);
          }}
        />
      )}
    </Page>
  );
}
