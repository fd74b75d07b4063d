import { useEffect, useState } from 'preact/hooks';
import { ApiError, request } from '../requests.ts';
import type { KeyOrCustomer } from '../types.ts';
import { pathOf } from './callers.tsx';

/** Names that one screen asks for at most: a tail may name thousands of callers. */
const MAX_NAMES = 100;

/** The names of keys and customers, by their ids. They are asked for one after the other; until one is known, its id stands for it. */
export function useNames(ids: readonly (string | null)[]): ReadonlyMap<string, string | null> {
  const [names, setNames] = useState<ReadonlyMap<string, string | null>>(new Map());
  const next = names.size < MAX_NAMES ? ids.find((id) => id != null && /^(key|cus)_/.test(id) && !names.has(id)) : null;
  useEffect(() => {
    if (next == null) return;
    const controller = new AbortController();
    const { signal } = controller;
    const set = (name: string | null) => setNames((known) => new Map(known).set(next, name));
    request<KeyOrCustomer>('GET', pathOf(next), { signal }).then(
      ({ data }) => set(data.name),
      (failure) => {
        // One that was deleted, or whose name is not available now, is shown by its id.
        if (failure instanceof ApiError) set(null);
      },
    );
    return () => controller.abort();
  }, [next]);
  return names;
}
