import { wholeKeyReport } from '../admin/key-report.ts';
import type { Command, ExitCode } from './command.ts';
import { operationsOn } from './keys-operations.ts';
import { endOf, json, limitsText, stateOf } from './keys-report.ts';
import { withStore } from './open-store.ts';

/** `tollgate keys show`: all that is known of one key. */
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
          `${endOf({ last4 })}, made ${createdAt}${expiresAt === null ? '' : `, until ${expiresAt}`}`,
        ]),
      ];
      terminal.out(rows.map(([left, right]) => `${left.padEnd(8)}  ${right}\n`).join(''));
      return 0;
    });
  },
};
