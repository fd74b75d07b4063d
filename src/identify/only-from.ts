import type { StoredAccess } from './access.ts';

/** Where the requests of a caller must come from. Each member is absent where any place will do. */
export type OnlyFrom = Pick<StoredAccess, 'addresses' | 'origins' | 'boundTo'>;

/** @returns null if requests may come from anywhere */
export function onlyFromOf(
  members: {
    readonly [Member in keyof OnlyFrom]: OnlyFrom[Member] | undefined;
  },
): OnlyFrom | null {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return present.length === 0 ? null : Object.fromEntries(present);
}
