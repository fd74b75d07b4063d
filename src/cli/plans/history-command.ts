import { actorText } from '../../operations/audit-report.ts';
import { listPlansHistory } from '../../operations/catalogue/plan-operations.ts';
import { KEPT_VERSIONS } from '../../operations/plans/plans-history-store.ts';
import { listCommand } from '../reading-command.ts';

/** `tollgate plans history`: the versions of plans.yaml that came into force. */
export const plansHistory = listCommand({
  name: 'plans history',
  operation: listPlansHistory,
  about: `Lists the last ${KEPT_VERSIONS} versions of plans.yaml that came into force, newest first: since when, from what, by whom and why as far as known, and what each changed.`,
  examples: ['tollgate plans history', 'tollgate plans history --json'],
  entries: 'versions',
  none: () => 'No version of plans.yaml is recorded yet. A gateway records it at its start.',
  unread: (isOne) => `${isOne ? 'is' : 'are'} without what ${isOne ? 'it says' : 'they say'}`,
  columns: [
    { head: 'version', rank: 0, isWhole: true, cell: ({ version }) => version },
    { head: 'in force since', rank: 1, cell: ({ since }, { moment }) => moment(since) },
    { head: 'from', rank: 3, cell: ({ from }) => from },
    { head: 'by', rank: 2, cell: ({ by }) => (by === null ? 'unreadable' : actorText(by)) },
    {
      head: 'what changed',
      rank: 4,
      cell: ({ changes }) => (changes === null ? 'unknown' : changes.join(', ') || 'comments or layout'),
    },
    { head: 'reason', rank: 5, cell: ({ reason }) => reason ?? '-' },
  ],
});
