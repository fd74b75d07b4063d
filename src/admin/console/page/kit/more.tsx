import { useEffect, useRef, useState } from 'preact/hooks';
import { ifKnown } from '../reading.ts';
import { ApiError, type Resource, request, useResource } from '../requests.ts';
import { shownText } from './format.tsx';

export interface More<T> {
  /** The first page, with the state of loading it. */
  readonly first: Resource<T>;
  /** The pages so far. */
  readonly pages: readonly T[];
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly error: string | null;
  readonly load: () => Promise<void>;
}

/** A list that is read page by page. @param path with its query, without `cursor` */
export function useMore<T extends { readonly cursor: string | null }>(path: string): More<T> {
  const first = useResource<T>(path);
  const [rest, setRest] = useState<{ after: T | null; pages: readonly T[] }>({ after: null, pages: [] });
  const [isLoading, setLoading] = useState(false);
  const [error, setError] = useState<string | null>(null);
  // Pages that follow an earlier first page, or that of another path, no longer belong to the list.
  const begin = ifKnown(first.reading);
  const later = rest.after === begin ? rest.pages : [];
  const pages = begin === null ? [] : [begin, ...later];
  const cursor = pages.at(-1)?.cursor ?? null;
  const load = async () => {
    if (isLoading || cursor === null) return;
    setLoading(true);
    setError(null);
    try {
      const { data } = await request<T>(
        'GET',
        `${path}${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`,
      );
      setRest({ after: begin, pages: [...later, data] });
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure.message);
    }
    setLoading(false);
  };
  return { first, pages, hasMore: cursor !== null, isLoading, error, load };
}

/** The foot of a list: how much of it is shown, and the button for more. The focus stays here when the list ends. */
export function ShowMore({
  count,
  noun,
  hasMore,
  isLoading = false,
  error = null,
  load,
}: {
  /** How many are shown. */
  count: number;
  /** What one of them is: `change`. */
  noun: string;
  hasMore: boolean;
  isLoading?: boolean;
  error?: string | null;
  load: () => unknown;
}) {
  const words = useRef<HTMLParagraphElement>(null);
  const wasPressed = useRef(false);
  useEffect(() => {
    if (!hasMore && wasPressed.current) words.current?.focus();
    wasPressed.current = false;
  }, [hasMore]);
  const press = () => {
    wasPressed.current = true;
    load();
  };
  return (
    <div class="stack tight after">
      {error !== null && (
        <p class="problem-line" role="alert">
          {error}
        </p>
      )}
      <p ref={words} class="muted" role="status" tabindex={-1}>
        {shownText(count, noun, !hasMore)}.
      </p>
      {hasMore && (
        <button type="button" aria-busy={isLoading} onClick={press}>
          {isLoading ? 'Loading…' : 'Show more'}
        </button>
      )}
    </div>
  );
}
