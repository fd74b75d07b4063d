import { listRefused } from '../operations/catalogue/ban-operations.ts';
import { CUSTOMER } from './keys/text-form.ts';
import { listCommand } from './reading-command.ts';

/** `tollgate now`: who is refused or banned at present. */
export const now = listCommand({
  name: 'now',
  operation: listRefused,
  about:
    'Lists the keys whose requests are refused or banned right now, the first to end first. A refusal appears within two seconds, ' +
    'because gateways report them once a second; an entry whose limit was raised or ban lifted is left out at once.',
  examples: ['tollgate now', 'tollgate now --scan --json'],
  entries: 'consumers',
  order: (a, b) => a.until - b.until,
  none: () => 'No key is refused for a quota or a ban. A new refusal appears here within two seconds.',
  columns: [
    { head: 'id', rank: 0, isWhole: true, cell: ({ id }) => id },
    { head: 'name', rank: 3, cell: ({ name, unreadable }) => (unreadable === undefined ? name : 'unreadable') },
    { head: 'plan', rank: 4, cell: ({ plan }) => plan },
    { head: 'state', rank: 1, isStatus: true, cell: ({ state, ban }) => (ban === null ? state : `ban ${ban}`) },
    { head: 'window', rank: 5, cell: ({ window }) => window },
    { head: 'ends', rank: 2, cell: ({ until }, { seconds }) => seconds(until) },
    CUSTOMER,
  ],
});
