import type { Durability } from '../admit/ledger.ts';
import type { ExitCode } from '../failure.ts';
import { ownRecording, type RecordedWork, type Recording, recorded } from '../operations/recorded.ts';
import type { OpenStore } from '../serve/open-store.ts';
import type { Terminal } from './terminal/command.ts';

/**
 * Where the changes of a command are recorded. A command ends before it is known whether a failover undoes one.
 * @param warn called with a line for stderr if the record of a change is missing or lacks the outcome
 */
export function recordingOf(
  { audit, settings }: Pick<OpenStore, 'audit' | 'settings'>,
  warn: (line: string) => void,
): Recording {
  return ownRecording({ audit, settings: settings.audit, warn, awaitsFinal: false });
}

/**
 * Makes a change that a command asks for, and records it before the command prints anything.
 * @param warn called with a line for stderr if the record of this change is missing or lacks the outcome
 * @throws as `recorded`
 */
export function recordedByCommand<T>(
  store: Pick<OpenStore, 'audit' | 'settings'>,
  warn: (line: string) => void,
  work: RecordedWork<T>,
): Promise<T> {
  return recorded(recordingOf(store, warn), work);
}

/** The exit code of a change that was made. A change that a failover may undo counts as failed, with a warning on stderr. */
export function exitCodeOf(durability: Durability['kind'], terminal: Terminal): ExitCode {
  if (durability === 'durable') return 0;
  terminal.error(
    'It was done and is in force, but a replica of Redis lacks it or has not confirmed it in time: a failover may undo it. ' +
      'No gateway makes it again, because this command has made it. `tollgate doctor` names the replica and says what to do. ' +
      'Then see whether it is still so (`tollgate keys show KEY_ID`, `tollgate bans list`).\n',
  );
  return 1;
}
