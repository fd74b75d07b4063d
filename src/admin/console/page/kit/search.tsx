import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Known } from '../reading.ts';
import { ApiError, isPassing, request } from '../requests.ts';
import type { ListPage, SearchPage } from '../types.ts';
import { Act } from './act.tsx';
import { countText, plural, shownText } from './format.tsx';
import { Empty, Problem } from './states.tsx';
import { UnreadableRows } from './unreadable-rows.tsx';

/** How many records are shown at first, and more by each "Show more". */
const PAGE = 50;

interface SearchResult<T> {
  readonly query: string;
  readonly rows: readonly T[];
  readonly unreadable: SearchPage['unreadable'];
  readonly cursor: string | null;
  readonly searched: number;
  /** When the last page came, Unix milliseconds. */
  readonly at: number;
  readonly isRunning: boolean;
  readonly error: ApiError | null;
}

/** Searches until a page is full: a single response may have few keys, even none, although others follow. */
function useSearch<T, P extends ListPage>(
  path: string,
  rowsOf: (page: P) => readonly T[],
  query: string,
): { found: SearchResult<T>; more: () => void; stop: () => void } {
  const counts = { cursor: null, searched: 0, at: 0 };
  const none: SearchResult<T> = { query, rows: [], unreadable: [], ...counts, isRunning: true, error: null };
  const [found, setFound] = useState(none);
  const running = useRef<AbortController | null>(null);
  const search = async (from: SearchResult<T>) => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const wanted = (Math.floor(from.rows.length / PAGE) + 1) * PAGE;
    let now: SearchResult<T> = { ...from, isRunning: true, error: null };
    setFound(now);
    try {
      while (now.isRunning) {
        const page = new URLSearchParams(from.query);
        page.set('limit', String(wanted - now.rows.length));
        if (now.cursor !== null) page.set('cursor', now.cursor);
        const { data } = await request<ListPage>('GET', `${path}?${page}`, { signal: controller.signal });
        const { cursor, searched = 0, unreadable: more = [] } = data;
        const rows = [...now.rows, ...rowsOf(data as P)];
        const unreadable = [...now.unreadable, ...more];
        const isRunning = cursor !== null && rows.length < wanted;
        now = { ...now, rows, unreadable, cursor, searched: now.searched + searched, at: Date.now(), isRunning };
        setFound(now);
      }
    } catch (error) {
      if (controller.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      setFound({ ...now, isRunning: false, error });
    }
  };
  useEffect(() => {
    void search(none);
    return () => running.current?.abort();
  }, [query]);
  useEffect(() => {
    if (found.error === null || !isPassing(found.error)) return;
    const timer = setTimeout(() => void search(found), 3_000);
    return () => clearTimeout(timer);
  }, [found]);
  const stop = () => {
    running.current?.abort();
    setFound((before) => ({ ...before, isRunning: false }));
  };
  return { found: found.query === query ? found : none, more: () => void search(found), stop };
}

/** As the interval of what is read once, in milliseconds. */
const ONCE_MS = 20_000;

interface ResultsProps<T, P> {
  /** Of the list in the admin API. */
  readonly path: string;
  readonly query: string;
  /** What one row is: `key`. */
  readonly noun: string;
  readonly rowsOf: (page: P) => readonly T[];
  readonly tableOf: (rows: readonly T[], seen: Known<unknown>) => ComponentChildren;
  /** What is shown if there are no rows at all. */
  readonly none: ComponentChildren;
  /** What a search without matches has left out, as a sentence. */
  readonly leftOut?: string | undefined;
  readonly clear: () => void;
  readonly save: (rows: readonly T[]) => void;
}

/** What a search finds, a page at a time. */
export function SearchResults<T, P extends ListPage>(props: ResultsProps<T, P>) {
  const { path, query, noun, rowsOf, tableOf, none, leftOut, clear, save } = props;
  const { found, more, stop } = useSearch(path, rowsOf, query);
  const { rows, unreadable, cursor, searched, at, isRunning, error } = found;
  const status = useRef<HTMLParagraphElement>(null);
  const isClicked = useRef(false);
  const clicked = (act: () => void) => () => {
    isClicked.current = true;
    act();
  };
  useEffect(() => {
    if (isRunning || !isClicked.current) return;
    isClicked.current = false;
    // The button that had the focus is gone with the end of the list, or with the search that it stopped.
    if (document.activeElement === document.body) status.current?.focus();
  }, [isRunning]);
  const isLong = isRunning && searched > 0;
  if (rows.length + unreadable.length === 0 && !isRunning && error === null && cursor === null) {
    if (query === '') return <Empty title={`There are no ${noun}s yet.`}>{none}</Empty>;
    return (
      <Empty title={`No ${noun} matches.`}>
        {searched > 0 && (
          <p>
            {plural(searched, noun)} {searched === 1 ? 'was' : 'were'} searched.{leftOut && ` ${leftOut}`}
          </p>
        )}
        <p class="row">
          <Act text="Clear the filters" on={clear} />
        </p>
      </Empty>
    );
  }
  return (
    <div class="stack" aria-busy={isRunning}>
      {rows.length > 0 && tableOf(rows, { state: 'known', value: null, at, everyMs: ONCE_MS })}
      <UnreadableRows rows={unreadable} noun={noun} />
      {error !== null && <Problem error={error} retry={more} />}
      <div class="row">
        {rows.length > 0 && cursor !== null && (
          <Act text="Show more" aria-busy={isRunning} on={clicked(() => !isRunning && more())} />
        )}
        {rows.length === 0 && cursor !== null && !isRunning && error === null && (
          <Act text="Search on" on={clicked(more)} />
        )}
        {isLong && <Act text="Stop" on={clicked(stop)} />}
        <p ref={status} tabindex={-1} role="status" class="muted">
          {isRunning && <span class="spinner" aria-hidden="true"></span>}
          {statusText(found, noun)}
        </p>
        {rows.length > 0 && (
          <Act text={`Download ${cursor === null ? 'all' : 'these'} as CSV`} kind="quiet" on={() => save(rows)} />
        )}
      </div>
    </div>
  );
}

function statusText({ rows, cursor, searched, isRunning, error }: SearchResult<unknown>, noun: string): string {
  if (isRunning) return searched === 0 ? `Loading ${noun}s…` : `Searched ${plural(searched, noun)}…`;
  // The error above says why there are no more.
  if (error !== null) return rows.length === 0 ? '' : `${shownText(rows.length, noun, false)}.`;
  const shown = shownText(rows.length, noun, cursor === null);
  return searched > rows.length ? `${shown}, ${countText(searched)} searched.` : `${shown}.`;
}
