import { printFault } from '../../config/fault.ts';
import { parsePlans } from '../../config/plans.ts';
import { readSettingsFile } from '../../config/read-file.ts';
import type { Parsed } from '../../config/yaml.ts';
import type { Plans } from '../../model/plan.ts';
import type { Terminal } from '../terminal/command.ts';

/** Reads and checks a file of plans. A file that cannot be read is one fault. */
export function checkPlansFile(file: string, hint: string): Parsed<Plans> {
  const read = readSettingsFile(file, hint);
  return 'fault' in read ? { faults: [read.fault], warnings: [] } : parsePlans(read.text, file);
}

/** Reads the plans of a file. Prints its faults to stderr and returns null if there are any. */
export function readPlansFile(file: string, terminal: Terminal): Plans | null {
  const checked = checkPlansFile(file, 'Name another file.');
  if ('value' in checked) return checked.value;
  for (const fault of checked.faults) terminal.error(`${printFault(fault)}\n`);
  return null;
}
