import { listBans } from '../../operations/catalogue/ban-operations.ts';
import { CUSTOMER } from '../keys/text-form.ts';
import { listCommand } from '../reading-command.ts';

/** `tollgate bans list`: the bans in force. */
export const bansList = listCommand({
  name: 'bans list',
  operation: listBans,
  about: 'Lists the bans in force: the key, which ban it is, the window whose refusal made it, and when it ends.',
  examples: ['tollgate bans list', 'tollgate bans list --json'],
  entries: 'bans',
  order: (a, b) => a.until - b.until,
  none: () => 'No key is banned.',
  columns: [
    { head: 'id', rank: 0, isWhole: true, cell: ({ id }) => id },
    { head: 'ban', rank: 3, cell: ({ number }) => String(number) },
    { head: 'window', rank: 4, cell: ({ window }) => window },
    { head: 'ends', rank: 1, cell: ({ until }, { seconds }) => seconds(until) },
    { head: 'plan', rank: 5, cell: ({ plan }) => plan },
    { head: 'name', rank: 2, cell: ({ name, unreadable }) => (unreadable === undefined ? name : 'unreadable') },
    CUSTOMER,
  ],
});
