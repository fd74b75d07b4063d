import type { ExitCode } from '../../failure.ts';
import { wholeKeyReport } from '../../operations/key-report.ts';
import { withStore } from '../../serve/open-store.ts';
import { operationsOn } from '../operations.ts';
import type { Command } from '../terminal/command.ts';
import { json, limitsText, secretLabelOf, stateOf } from './text-form.ts';

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
