import type { ExitCode } from '../failure.ts';
import type { UnreadableRecord } from '../model/record.ts';
import { unreadableReport } from '../operations/unreadable.ts';
import type { Terminal } from './terminal/command.ts';

/** At most this many are described on standard error. */
const MAX_DESCRIBED = 20;

/**
 * The records that a command could not read, although what it prints or does should cover every record. So none is left out without a
 * word: they are described on standard error, are in its JSON, and make the exit code 1.
 */
export class UnreadableRecords {
  readonly #records: Map<string, UnreadableRecord>;

  constructor(records: readonly UnreadableRecord[] = []) {
    this.#records = new Map(records.map((record) => [record.id, record]));
  }

  readonly add = (record: UnreadableRecord): void => {
    this.#records.set(record.id, record);
  };

  /** The member `unreadable` of the JSON of a command. */
  get report() {
    return unreadableReport([...this.#records.values()]);
  }

  get exitCode(): ExitCode {
    return this.#records.size === 0 ? 0 : 1;
  }

  /** @param effect what follows, after the number: `are not in FILE` */
  describe(terminal: Terminal, effect: (isOne: boolean) => string): void {
    const { size } = this.#records;
    if (size === 0) return;
    const more = size > MAX_DESCRIBED ? `and ${size - MAX_DESCRIBED} more\n` : '';
    const lines = [...this.#records.values()].slice(0, MAX_DESCRIBED).map(({ message }) => `  ${message}\n`);
    const what = size === 1 ? '1 record cannot be read and' : `${size} records cannot be read and`;
    terminal.error(`warning: ${what} ${effect(size === 1)}:\n${lines.join('')}${more}`);
  }
}
