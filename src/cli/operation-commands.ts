import { OPERATIONS } from '../operations/catalogue/all.ts';
import { CUSTOMER_LOOKS } from './customers/customer-looks.ts';
import { KEY_LOOKS } from './keys/key-looks.ts';
import { type Look, operationCommand } from './operation-command.ts';
import type { Command } from './terminal/command.ts';
import { USAGE_LOOKS } from './usage-looks.ts';

/** A command with its line in the overview, of at most 52 characters. */
export type Entry = readonly [line: string, command: Command];

const LOOKS: Readonly<Record<string, object>> = { ...KEY_LOOKS, ...CUSTOMER_LOOKS, ...USAGE_LOOKS };

/** The commands that change something: one for each operation that names its command. */
const CHANGES = OPERATIONS.flatMap((operation): Entry[] => {
  const { command, name } = operation;
  return command === undefined
    ? []
    : [[command[1], operationCommand(operation, LOOKS[name] as Look<typeof operation> | undefined)]];
});

/** Those whose name begins with a word, in the order of the paths of their operations. */
export function changesUnder(word: string): readonly Entry[] {
  return CHANGES.filter(([, { name }]) => name.startsWith(`${word} `));
}
