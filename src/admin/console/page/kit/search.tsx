import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, isPassing, request } from '../requests.ts';
import type { SearchPage } from '../types.ts';
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
  readonly isRunning: boolean;
  readonly error: ApiError | null;
}

/** Searches until a page is full: a single response may have few keys, even none, although others follow. */
function useSearch<T, P extends SearchPage>(
  path: string,
  rowsOf: (page: P) => readonly T[],
  query: string,
): { found: SearchResult<T>; more: () => void; stop: () => void } {
  const none: SearchResult<T> = {
    query,
    rows: [],
    unreadable: [],
    cursor: null,
    searched: 0,
    isRunning: true,
    error: null,
  };
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
        const { data } = await request<SearchPage>('GET', `${path}?${page}`, { signal: controller.signal });
        const { cursor } = data;
        const rows = [...now.rows, ...rowsOf(data as P)];
        const unreadable = [...now.unreadable, ...data.unreadable];
        const isRunning = cursor !== null && rows.length < wanted;
        now = { ...now, rows, unreadable, cursor, searched: now.searched + data.searched, isRunning };
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

/**
 * What a search finds, a page at a time.
 * @param path of the search in the admin API
 * @param noun what one record is: `key`
 * @param tableOf shows what was found
 * @param none what is shown if there are no records at all
 * @param leftOut what a search without matches has left out, as a sentence
 */
export function SearchResults<T, P extends SearchPage>({
  path,
  query,
  noun,
  rowsOf,
  tableOf,
  none,
  leftOut = '',
  clear,
}: {
  path: string;
  query: string;
  noun: string;
  rowsOf: (page: P) => readonly T[];
  tableOf: (rows: readonly T[]) => ComponentChildren;
  none: ComponentChildren;
  leftOut?: string;
  clear: () => void;
}) {
  const { found, more, stop } = useSearch(path, rowsOf, query);
  const { rows, unreadable, cursor, searched, isRunning, error } = found;
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
        <p>
          {plural(searched, noun)} {searched === 1 ? 'was' : 'were'} searched.{leftOut && ` ${leftOut}`}
        </p>
        <p class="row">
          <button type="button" onClick={clear}>
            Clear the filters
          </button>
        </p>
      </Empty>
    );
  }
  return (
    <div class="stack" aria-busy={isRunning}>
      {rows.length > 0 && tableOf(rows)}
      <UnreadableRows rows={unreadable} noun={noun} />
      {error !== null && <Problem error={error} retry={more} />}
      <div class="row">
        {rows.length > 0 && cursor !== null && (
          <button type="button" aria-busy={isRunning} onClick={clicked(() => !isRunning && more())}>
            Show more
          </button>
        )}
        {rows.length === 0 && cursor !== null && !isRunning && error === null && (
          <button type="button" onClick={clicked(more)}>
            Search on
          </button>
        )}
        {isLong && (
          <button type="button" onClick={clicked(stop)}>
            Stop
          </button>
        )}
        <p ref={status} tabindex={-1} role="status" class="muted">
          {isRunning && <span class="spinner" aria-hidden="true"></span>}
          {statusText(found, noun)}
        </p>
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
