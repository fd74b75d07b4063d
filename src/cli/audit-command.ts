import { actorText, differenceOf } from '../operations/audit-report.ts';
import { listChanges } from '../operations/catalogue/recorded-operations.ts';
import { listCommand } from './reading-command.ts';

/** `tollgate audit`: lists the record of changes. */
export const audit = listCommand({
  name: 'audit',
  operation: listChanges,
  about:
    'Lists the changes to keys, bans, plans and settings that were made or attempted: who, when, and with what outcome; newest first. The list includes files that gateways accepted or refused. Refused attempts of one minute are counted.',
  examples: ['tollgate audit', 'tollgate audit --json'],
  spelled: {
    key: {
      value: 'ID',
      about: 'Only changes to this key or customer, by id or name, or to this token caller (jwt_…).',
      idOf: 'ID',
    },
    since: { value: 'WHEN' },
    until: { value: 'WHEN' },
    actor: { value: 'NAME' },
  },
  entries: 'changes',
  limit: 50,
  none: (isFiltered) => (isFiltered ? 'No change matches.' : 'No changes are recorded.'),
  unread: (isOne) => `may be ${isOne ? 'a change' : 'changes'} of this list`,
  // In a narrow terminal the actor, the action and its outcome stay longest, and then what changed.
  columns: [
    { head: 'time', rank: 3, cell: ({ time }, { moment }) => moment(time) },
    { head: 'by', rank: 2, cell: ({ actor }) => actorText(actor) },
    { head: 'action', rank: 0, isWhole: true, cell: ({ action }) => action },
    {
      head: 'outcome',
      rank: 1,
      isStatus: true,
      cell: ({ actor, outcome, code, count }) => {
        // What is wrong with a file says more than the code, which is the same for all of them.
        const why = code === null || actor.kind === 'file' ? '' : ` (${code})`;
        return `${outcome}${why}${count === 1 ? '' : ` ×${count}`}`;
      },
    },
    { head: 'id', rank: 6, isWhole: true, cell: ({ target }) => target ?? '-' },
    { head: 'change', rank: 4, cell: (change) => differenceOf(change) || '-' },
    { head: 'name', rank: 5, cell: ({ name }) => name ?? '-' },
  ],
});
