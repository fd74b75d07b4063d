import type { ExitCode } from '../../failure.ts';
import type { StoredKey } from '../../identify/key-store.ts';
import { keyReportWithSecret, timeOf } from '../../operations/key-report.ts';
import { withStore } from '../../serve/open-store.ts';
import { exitCodeOf, operationsOn } from '../operations.ts';
import { recorded, resultOfKey } from '../recorded-change.ts';
import type { Command } from '../terminal/command.ts';
import { json, readDuration } from './text-form.ts';

/** `tollgate keys rotate` (contract section 5). */
export const keysRotate: Command = {
  name: 'keys rotate',
  about: 'Makes a new secret for an API key and shows it, this once. The old one goes on working for a while.',
  positionals: ['KEY_ID'],
  options: {
    overlap: {
      type: 'string',
      value: 'DURATION',
      about: 'How long the old secret goes on working, 24h unless given; 0s ends it at once.',
    },
    json: { type: 'boolean', about: 'Prints the same JSON object as `keys create`, with the new secret.' },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const overlapMs = readDuration('--overlap', (options.overlap as string | undefined) ?? '24h');
    return withStore<ExitCode>(
      terminal.env,
      async (store) => {
        const { key, secret, durability } = await recorded(store, {
          action: 'key.rotate',
          target: id,
          warn: terminal.error,
          work: () => operationsOn(store).rotate(id, overlapMs),
          resultOf: resultOfKey,
        });
        if (options.json === true) terminal.out(json(keyReportWithSecret(key, secret, store.plans)));
        else {
          terminal.out(`${id} has a new secret; the old one ${oldSecretText(key)}.\n\n  ${secret}\n\n`);
          terminal.out('This is the only time that it is shown. Keep it where you keep secrets.\n');
        }
        return exitCodeOf(durability, terminal);
      },
      { makesSecrets: true },
    );
  },
};

/** Until when the previous secret works. No secret works longer than its key. */
function oldSecretText({ secrets, expiresAtMs }: StoredKey): string {
  const [, old] = secrets;
  if (old === undefined) return 'no longer works';
  return `works until ${timeOf(Math.min(old.expiresAtMs ?? Infinity, expiresAtMs ?? Infinity))}`;
}
