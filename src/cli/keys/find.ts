import { type ExitCode, Failure } from '../../failure.ts';
import { isOwnForm, isWellFormed } from '../../identify/api-key.ts';
import { keyOfSecret } from '../../operations/find-key.ts';
import { reportWithUses } from '../../operations/key-uses.ts';
import { withStore } from '../../serve/open-store.ts';
import { contextOn } from '../operations.ts';
import type { Command } from '../terminal/command.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { keyText, shownKey } from './show.ts';
import { json } from './text-form.ts';

/** What stands before the secret where a header field was pasted: `Authorization: Bearer tg_live_…`, or only its value. */
const HEADER_FIELD = /^(?:authorization:\s*)?bearer\s+/i;

/** `tollgate keys find` (contract section 5): the key that a secret belongs to. */
export const keysFind: Command = {
  name: 'keys find',
  about:
    'Finds the API key that a secret belongs to, also one that was rotated away. Reads the secret from standard input; on a ' +
    'terminal it asks, and does not show what is pasted.',
  positionals: [],
  environment: OF_STORE,
  options: {
    json: {
      type: 'boolean',
      about: 'Prints one JSON object: {"key", "isCurrent"}, the key as `keys show --json` prints it.',
    },
  },
  examples: ['tollgate keys find', 'tollgate keys find < secret.txt'],
  async run({ options }, terminal) {
    const pasted = ((await terminal.hiddenInput?.('Paste the secret: ')) ?? '').trim();
    const secret = pasted.replace(HEADER_FIELD, '');
    if (secret === '')
      throw new Failure('bad_usage', 'There is no secret on standard input. See `tollgate keys find --help`.');
    if (isOwnForm(secret) && !isWellFormed(secret)) {
      throw new Failure(
        'not_found',
        'No key has this secret: it is incomplete or mistyped, because its checksum is wrong.',
      );
    }
    return withStore<ExitCode>(terminal.env, async (store) => {
      const context = contextOn(store);
      const { key, isCurrent } = await keyOfSecret(secret, context);
      const report = await reportWithUses(key, context);
      if (options.json === true) terminal.out(json({ key: shownKey(report), isCurrent }));
      else {
        terminal.out(await keyText(key, report, store, terminal));
        if (!isCurrent) terminal.out('This secret was rotated away or has expired: the key has another one.\n');
      }
      return 0;
    });
  },
};
