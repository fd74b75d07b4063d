import { keyReportWithSecret, timeOf } from '../admin/key-report.ts';
import type { StoredKey } from '../identify/key-store.ts';
import type { Command, ExitCode } from './command.ts';
import { readDuration } from './duration.ts';
import { exitCodeOf, operationsOn } from './keys-operations.ts';
import { json } from './keys-report.ts';
import { withStore } from './open-store.ts';
import { recorded, resultOfKey } from './recorded.ts';

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
          terminal.out(`${id} has a new secret; the old one ${fateOf(key)}.\n\n  ${secret}\n\n`);
          terminal.out('This is the only time that it is shown. Keep it where you keep secrets.\n');
        }
        return exitCodeOf(durability, terminal);
      },
      { makesSecrets: true },
    );
  },
};

/** What becomes of the secret that a rotation has retired: no secret lives longer than its key. */
function fateOf({ secrets, expiresAtMs }: StoredKey): string {
  const [, old] = secrets;
  if (old === undefined) return 'no longer works';
  return `works until ${timeOf(Math.min(old.expiresAtMs ?? Infinity, expiresAtMs ?? Infinity))}`;
}
