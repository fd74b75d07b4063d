import { printFault } from '../../config/fault.ts';
import { parsePlans } from '../../config/plans-schema.ts';
import { readSettingsFile } from '../../config/read-file.ts';
import type { ParseResult } from '../../config/yaml.ts';
import { Failure } from '../../failure.ts';
import type { Plans } from '../../model/plan.ts';
import type { InputOf } from '../../operations/catalogue/operation.ts';
import { diffPlans } from '../../operations/catalogue/plan-operations.ts';
import { unreadableText } from '../../operations/unreadable.ts';
import { withOperations } from '../operations-at.ts';
import type { Terminal } from '../terminal/command.ts';

/** Reads and checks a file of plans. A file that cannot be read is one fault. */
export function checkPlansFile(file: string, hint: string): ParseResult<Plans> & { readonly text: string } {
  const read = readSettingsFile(file, hint);
  if ('fault' in read) return { text: '', faults: [read.fault], warnings: [] };
  return { text: read.text, ...parsePlans(read.text, file) };
}

/** Reads the plans of a file. Prints its faults to stderr and returns null if there are any. */
export function readPlansFile(file: string, terminal: Terminal) {
  const checked = checkPlansFile(file, 'Name another file.');
  if ('value' in checked) return checked;
  for (const fault of checked.faults) terminal.error(`${printFault(fault)}\n`);
  return null;
}

/**
 * Compares plans with the keys and customers that use them. Warns of those whose plans are not known.
 * @param file that of `text`, which takes the place of the plans.yaml of the settings
 * @throws Failure `store_unavailable` if the keys cannot be counted
 */
export function compareWithUsers(input: InputOf<typeof diffPlans>, file: string, terminal: Terminal) {
  const env = { ...terminal.env, TOLLGATE_PLANS: file };
  return withOperations({ ...terminal, env }, async (at) => {
    const { live, ...found } = (await at.perform(diffPlans, input)).output;
    if (live?.isComplete !== true) {
      const why = 'its store does not answer, or has more than it counts in 10 s';
      throw new Failure('store_unavailable', `The live keys and customers could not be counted by ${at.name}: ${why}.`);
    }
    const { unreadable } = live;
    if (unreadable.length > 0) {
      const records = unreadableText(unreadable.map((id) => ({ id })));
      terminal.error(`warning: ${records}. They are not counted, and may use any plan.\n`);
    }
    return { ...found, unreadable };
  });
}
