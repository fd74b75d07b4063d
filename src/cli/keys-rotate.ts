import { keyReportWithSecret, timeOf } from '../admin/key-report.ts';
import type { Command, ExitCode } from './command.ts';
import { readDuration } from './duration.ts';
import { operationsOn } from './keys-operations.ts';
import { json } from './keys-report.ts';
import { withStore } from './open-store.ts';

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
    return withStore<ExitCode>(terminal.env, async (store) => {
      const { key, secret } = await operationsOn(store).rotate(id, overlapMs);
      if (options.json === true) terminal.out(json(keyReportWithSecret(key, secret, store.plans)));
      else {
        const old =
          overlapMs === 0 ? 'no longer works' : `works until ${timeOf(key.secrets[0]!.createdAtMs + overlapMs)}`;
        terminal.out(`${id} has a new secret; the old one ${old}.\n\n  ${secret}\n\n`);
        terminal.out('This is the only time that it is shown. Keep it where you keep secrets.\n');
      }
      return 0;
    });
  },
};
