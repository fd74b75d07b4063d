import { listDeprecations } from '../operations/catalogue/recorded-operations.ts';
import { type EntryOf, listCommand } from './reading-command.ts';

type Route = EntryOf<typeof listDeprecations>;
/** A route with one of its callers; null if it has none. */
type Row = Route & { readonly caller: Route['callers'][number] | null };

/** `tollgate deprecations`: lists the callers of each deprecated route. */
export const deprecations = listCommand({
  name: 'deprecations',
  operation: listDeprecations,
  examples: ['tollgate deprecations', 'tollgate deprecations --json'],
  spelled: { days: { value: 'DAYS' } },
  entries: 'deprecations',
  // A route may have thousands of callers.
  page: 1,
  none: () => 'No route is deprecated.',
  rows: (route): readonly Row[] =>
    (route.callers.length === 0 ? [null] : route.callers).map((caller) => ({ ...route, caller })),
  columns: [
    { head: 'route', rank: 0, cell: ({ route }) => route },
    { head: 'methods', rank: 3, cell: ({ methods }) => methods.join(',') },
    { head: 'sunset', rank: 5, cell: ({ sunset }) => sunset?.slice(0, 10) ?? '' },
    { head: 'caller', rank: 1, isWhole: true, cell: ({ caller }) => caller?.id ?? 'nobody' },
    {
      head: 'name',
      rank: 4,
      cell: ({ caller }) => (caller?.unreadable === undefined ? (caller?.name ?? '') : 'unreadable'),
    },
    { head: 'plan', rank: 7, cell: ({ caller }) => caller?.plan ?? '' },
    { head: 'calls', rank: 2, cell: ({ caller }) => String(caller?.calls ?? 0) },
    { head: 'last day', rank: 6, cell: ({ caller }) => caller?.lastDay ?? '' },
  ],
});
