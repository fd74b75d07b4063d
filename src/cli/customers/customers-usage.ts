import { listCustomersByUse } from '../../operations/catalogue/usage-operations.ts';
import { firstColumns } from '../keys/text-form.ts';
import { listCommand } from '../reading-command.ts';

/** `tollgate customers usage`: which customers have used most of a limit that their keys share. */
export const customersUsage = listCommand({
  name: 'customers usage',
  operation: listCustomersByUse,
  spelled: {
    window: { value: 'WINDOW' },
    above: { value: 'PERCENT' },
    top: { value: 'N' },
  },
  examples: [
    'tollgate customers usage',
    'tollgate customers usage --window month --above 80',
    'tollgate customers usage --json',
  ],
  entries: 'customers',
  none: (isFiltered) => (isFiltered ? 'No customer has used so much.' : 'There are no customers.'),
  columns: [
    { head: 'id', rank: 0, isWhole: true, cell: ({ id }) => id },
    ...firstColumns('customer'),
    { head: 'plan', rank: 5, cell: ({ plan }) => plan },
    { head: 'window', rank: 3, cell: ({ use }) => use?.window ?? '' },
    { head: 'used', rank: 1.5, cell: ({ use }) => (use === null ? 'unknown' : String(use.used)) },
    { head: 'limit', rank: 2.5, cell: ({ use }) => (use === null ? '' : String(use.limit)) },
    { head: 'share', rank: 1, cell: ({ use }) => (use?.share == null ? '-' : `${Math.floor(use.share * 100)} %`) },
    { head: '7 days', rank: 4, cell: ({ trend }) => (trend === null ? '-' : String(trend.last7Days)) },
    { head: 'before', rank: 4.5, cell: ({ trend }) => (trend === null ? '-' : String(trend.before)) },
    {
      head: 'runs out',
      rank: 2,
      cell: ({ use }, { moment }) => (use?.runsOutAt == null ? '-' : moment(use.runsOutAt)),
    },
    { head: 'keys', rank: 6, cell: ({ keys }) => String(keys) },
  ],
});
