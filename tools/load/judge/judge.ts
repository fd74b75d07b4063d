import type { Exchange, Subject } from '../exchange.ts';
import { judgeAdmission } from './admission.ts';
import { judgeBans } from './bans.ts';
import { judgeFields } from './fields.ts';
import type { Notes } from './notes.ts';
import { judgeSliding } from './sliding.ts';
import { clock } from './verdict.ts';
import { judgeWaiting } from './waiting.ts';

/** Everything that one subject sent and was answered. */
export interface Observed {
  readonly subject: Subject;
  readonly exchanges: readonly Exchange[];
}

/**
 * Holds what was observed against what the gateway promises (contract sections 3 and 4). Pure: it knows nothing of how
 * the requests were made, and each subject is judged for itself.
 */
export function judge(observed: readonly Observed[], notes: Notes): void {
  for (const { subject, exchanges } of observed) {
    const inOrder = exchanges.toSorted((a, b) => a.sentAtMs - b.sentAtMs);
    for (const exchange of inOrder) {
      judgeStatus(subject, exchange, notes);
      judgeFields(subject, exchange, notes);
    }
    judgeAdmission(subject, inOrder, notes);
    judgeSliding(subject, inOrder, notes);
    judgeWaiting(subject, inOrder, notes);
    judgeBans(subject, inOrder, notes);
  }
}

function judgeStatus({ name, expected }: Subject, exchange: Exchange, notes: Notes): void {
  notes.looked('statuses');
  const { status, refusal, fault, receivedAtMs } = exchange;
  if (expected.includes(status)) return;
  const what = status === 0 ? `no answer (${fault})` : `${status} ${refusal.code ?? ''}`.trim();
  notes.fault('statuses', name, what, `${what} at ${clock(receivedAtMs)}; expected was ${expected.join(' or ')}.`);
}
