import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, request } from '../requests.ts';
import type { Names } from '../types.ts';

/** Names that one screen asks for at most, and at once: a tail may name thousands of callers. */
const MAX_NAMES = 1_000;
const MAX_AT_ONCE = 100;

/** The names of keys and customers, by their ids. Those that are new are asked for in one request; until one is known, its id stands for it. */
export function useNames(ids: readonly (string | null)[]): ReadonlyMap<string, string | null> {
  const [names, setNames] = useState<ReadonlyMap<string, string | null>>(new Map());
  const asked = useRef(new Set<string>());
  const isNew = (id: string | null): id is string => id !== null && /^(key|cus)_/.test(id) && !asked.current.has(id);
  const next = asked.current.size >= MAX_NAMES ? [] : [...new Set(ids.filter(isNew))].slice(0, MAX_AT_ONCE);
  useEffect(() => {
    if (next.length === 0) return;
    for (const id of next) asked.current.add(id);
    request<Names>('GET', `/admin/names?ids=${next.join(',')}`).then(
      ({ data }) => setNames((known) => new Map([...known, ...Object.entries(data.names)])),
      (failure) => {
        // Those whose names are not available now are shown by their ids.
        if (!(failure instanceof ApiError)) throw failure;
      },
    );
  }, [next.join()]);
  return names;
}
