import type { KeyReport } from '../../operations/key-report.ts';
import type { Change } from '../../operations/recorded.ts';
import { readMoment } from './text-form.ts';

// Suspending and resuming as commands: of a key, and of a customer.

export const SUSPENSION_SPELLED = {
  until: {
    value: 'WHEN',
    about:
      'When it ends by itself: in 24h, or on 2030-12-31, or at an RFC 3339 time; left out, only when it is resumed.',
    read: (when: string) => {
      readMoment('--until', when, 0);
      return when;
    },
  },
  reason: { value: 'TEXT', about: 'For operators, one line of up to 200 characters. The caller never sees it.' },
};

/** @param moment writes an RFC 3339 time */
export function suspendedText(
  id: string,
  suspended: { readonly until: string | null } | undefined,
  change: Change | undefined,
  moment: (at: string) => string,
): string {
  const end = suspended?.until == null ? 'until it is resumed' : `and works again ${moment(suspended.until)}`;
  return `${id} ${change?.outcome === 'unchanged' ? 'was already' : 'is'} suspended ${end}.\n`;
}

/** @param customer that of a key */
export function resumedText(id: string, change: Change | undefined, customer?: KeyReport['customer']): string {
  const done = `${id} ${change?.outcome === 'unchanged' ? 'was not suspended' : 'is resumed'}.`;
  if (customer?.state !== 'suspended') return `${done}\n`;
  return `${done} Its customer is suspended, and so its requests are refused: \`tollgate customers resume ${customer.id}\`.\n`;
}
