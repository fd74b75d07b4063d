import type { ExitCode } from '../../failure.ts';
import { keyReport, timeOf } from '../../operations/key-report.ts';
import { withStore } from '../../serve/open-store.ts';
import { operationsOn } from '../operations.ts';
import type { Command } from '../terminal/command.ts';
import { table } from '../terminal/output.ts';
import { json, limitsText, secretLabelOf, stateOf } from './text-form.ts';

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
    return withStore<ExitCode>(terminal.env, async (store) => {
      const { plans } = store;
      const all = options.all === true;
      const found = await Array.fromAsync(operationsOn(store).everyKey({ all }));
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
          const ends = key.secrets[0] === undefined ? '' : secretLabelOf(key.secrets[0]);
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
