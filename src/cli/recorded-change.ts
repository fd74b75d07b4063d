import { ownRecording, type RecordedWork, recorded } from '../operations/recorded.ts';
import type { OpenStore } from '../serve/open-store.ts';

/**
 * Makes a change that a command asks for, and records it before the command prints anything.
 * @param warn called with a line for stderr if the record of this change is missing or lacks the outcome
 * @throws as `recorded`
 */
export function recordedByCommand<T>(
  { audit, settings }: Pick<OpenStore, 'audit' | 'settings'>,
  warn: (line: string) => void,
  work: RecordedWork<T>,
): Promise<T> {
  return recorded(ownRecording({ audit, settings: settings.audit, warn, settles: false }), work);
}
