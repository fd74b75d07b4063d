import type { KeyStore, StoredKey } from '../identify/key-store.ts';
import type { Command, ExitCode } from './command.ts';
import { json, keyReport, limitsText, stateOf, timeOf } from './keys-report.ts';
import { withStore } from './open-store.ts';
import { table } from './table.ts';

const PAGE = 500;

/** `tollgate keys list` (contract section 5). */
export const keysList: Command = {
  name: 'keys list',
  about: 'Lists the API keys, oldest first, without those that are revoked.',
  positionals: [],
  options: {
    all: { type: 'boolean', about: 'Lists the revoked ones too; with --json each key then tells its revokedAt.' },
    json: { type: 'boolean', about: 'Prints a JSON array of id, plan, name, owner, limits, createdAt, expiresAt.' },
  },
  async run({ options }, terminal) {
    return withStore<ExitCode>(terminal.env, async ({ keys, plans }) => {
      const all = options.all === true;
      const found = (await everyKey(keys)).filter(({ revokedAtMs }) => all || revokedAtMs === null);
      if (options.json === true) {
        const reports = found.map((key) => ({
          ...keyReport(key, plans),
          ...(all ? { revokedAt: timeOf(key.revokedAtMs) } : {}),
        }));
        terminal.out(json(reports));
      } else if (found.length === 0) terminal.out('There are no keys. `tollgate keys create --plan PLAN` makes one.\n');
      else {
        const rows = found.map((key) => {
          const { id, plan, name, owner, limits, createdAt, expiresAt } = keyReport(key, plans);
          const ends = key.secrets[0] === undefined ? '' : `…${key.secrets[0].last4}`;
          const state = stateOf(key, Date.now());
          return [
            id,
            ends,
            plan,
            name ?? '-',
            owner ?? '-',
            limitsText(limits),
            createdAt,
            expiresAt ?? 'never',
            state,
          ];
        });
        const heads = ['id', 'secret', 'plan', 'name', 'owner', 'limits', 'created', 'expires', 'state'];
        terminal.out(table(heads, rows, terminal));
      }
      return 0;
    });
  },
};

async function everyKey(store: KeyStore): Promise<readonly StoredKey[]> {
  const found: StoredKey[] = [];
  let cursor: string | null = null;
  do {
    const page = await store.list({ limit: PAGE, cursor });
    found.push(...page.keys);
    cursor = page.cursor;
  } while (cursor !== null);
  return found;
}
