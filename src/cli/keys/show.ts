import { formText } from '../../admit/form-text.ts';
import type { Plan } from '../../admit/plan.ts';
import { WINDOWS } from '../../admit/windows.ts';
import type { ExitCode } from '../../failure.ts';
import { type KeyReport, keyReport, timeOf, wholeKeyReport } from '../../operations/key-report.ts';
import { withStore } from '../../serve/open-store.ts';
import { operationsOn } from '../operations.ts';
import type { Command } from '../terminal/command.ts';
import { table } from '../terminal/output.ts';
import { json, limitsText, secretLabelOf, stateOf } from './text-form.ts';

// The commands that print keys and change nothing: `keys list` and `keys show`.

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

/** `tollgate keys show`: prints everything that the store holds about one key, except digests. */
export const keysShow: Command = {
  name: 'keys show',
  about: 'Shows one API key: its plan, limits and times, and by their last four characters the secrets that work.',
  positionals: ['KEY_ID'],
  options: {
    json: { type: 'boolean', about: 'Prints one JSON object: that of `keys list`, with revokedAt and secrets.' },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    return withStore<ExitCode>(terminal.env, async (store) => {
      const key = await operationsOn(store).show(id);
      const nowMs = Date.now();
      const { ownLimits: _, ...report } = wholeKeyReport(key, store.plans, nowMs);
      if (options.json === true) {
        terminal.out(json(report));
        return 0;
      }
      const rows: [string, string][] = [
        ['id', id],
        ['state', stateOf(key, nowMs)],
        ['plan', report.plan],
        ['limits', limitsText(report.limits)],
        ...kindsOf(report.limits, store.plans.plans.get(report.plan)),
        ['name', report.name ?? '-'],
        ['owner', report.owner ?? '-'],
        ...(report.notes === null
          ? []
          : ([['notes', report.notes.replaceAll('\n', `\n${' '.repeat(10)}`)]] as [string, string][])),
        ['created', report.createdAt],
        ['expires', report.expiresAt ?? 'never'],
        ...(report.revokedAt === null ? [] : ([['revoked', report.revokedAt]] as [string, string][])),
        ...report.secrets.map(({ last4, createdAt, expiresAt }): [string, string] => [
          'secret',
          `${secretLabelOf({ last4 })}, made ${createdAt}${expiresAt === null ? '' : `, until ${expiresAt}`}`,
        ]),
      ];
      terminal.out(rows.map(([left, right]) => `${left.padEnd(8)}  ${right}\n`).join(''));
      return 0;
    });
  },
};

/** A row for the windows that are not fixed: a key's own limits have the kinds of its plan. Empty if there are none. */
function kindsOf(limits: KeyReport['limits'], plan: Plan | undefined): [string, string][] {
  const kinds = WINDOWS.filter((window) => limits[window] !== undefined && limits[window] !== 'unlimited')
    .map((window) => [window, formText(window, plan?.forms?.[window])] as const)
    .filter(([, text]) => text !== 'fixed');
  return kinds.length === 0 ? [] : [['windows', kinds.map(([window, text]) => `${window}: ${text}`).join('; ')]];
}
