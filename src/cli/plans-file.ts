import type { Plans } from '../admit/plan.ts';
import { printFault } from '../config/fault.ts';
import { parsePlans } from '../config/plans.ts';
import { readSettingsFile } from '../config/read-file.ts';
import type { Parsed } from '../config/yaml.ts';
import type { Terminal } from './command.ts';

/** Reads and checks a file of plans; that it cannot be read is a fault like any other. */
export function checkPlansFile(file: string, hint: string): Parsed<Plans> {
  const read = readSettingsFile(file, hint);
  return 'fault' in read ? { faults: [read.fault], warnings: [] } : parsePlans(read.text, file);
}

/** The plans of a file that a command was given; null where it has faults, which have been told. */
export function readPlansFile(file: string, terminal: Terminal): Plans | null {
  const checked = checkPlansFile(file, 'Name another file.');
  if ('value' in checked) return checked.value;
  for (const fault of checked.faults) terminal.error(`${printFault(fault)}\n`);
  return null;
}
