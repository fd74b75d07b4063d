import { z } from 'zod';
import type { UnreadableRecord } from '../model/record.ts';

// What operators see of the records that a list could not read.

/** The records that a list could not read. */
export const unreadable = z
  .array(z.strictObject({ id: z.string(), reason: z.string().describe('Where its value is, and what to do.') }))
  .describe(
    'The keys and customers whose records the store has and cannot be read, because they are damaged or of another program. They may match.',
  )
  .meta({ id: 'Unreadable' });

export function unreadableReport(records: readonly UnreadableRecord[]): z.output<typeof unreadable> {
  return records.map(({ id, message }) => ({ id, reason: message }));
}

/** At most this many are named in a sentence. */
const MAX_NAMED = 10;

/** `2 records cannot be read: key_1, key_2`. Empty if there are none. */
export function unreadableText(records: readonly Pick<UnreadableRecord, 'id'>[]): string {
  if (records.length === 0) return '';
  const more = records.length - MAX_NAMED;
  const names = records.slice(0, MAX_NAMED).map(({ id }) => id);
  return `${records.length} ${records.length === 1 ? 'record' : 'records'} cannot be read: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
