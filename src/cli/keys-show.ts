import { Failure } from '../failure.ts';
import type { Command, ExitCode } from './command.ts';
import { json, keyReport, limitsText, stateOf, timeOf } from './keys-report.ts';
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
    return withStore<ExitCode>(terminal.env, async ({ keys, plans }) => {
      const key = await keys.get(id);
      if (key === null)
        throw new Failure('not_found', `There is no key ${id}. \`tollgate keys list\` tells which there are.`);
      const nowMs = Date.now();
      const report = keyReport(key, plans);
      const secrets = key.secrets
        .filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs)
        .map(({ last4, createdAtMs, expiresAtMs }) => ({
          last4,
          createdAt: timeOf(createdAtMs),
          expiresAt: timeOf(expiresAtMs),
        }));
      if (options.json === true) {
        terminal.out(json({ ...report, revokedAt: timeOf(key.revokedAtMs), secrets }));
        return 0;
      }
      const rows: [string, string][] = [
        ['id', id],
        ['state', stateOf(key, nowMs)],
        ['plan', report.plan],
        ['limits', limitsText(report.limits)],
        ['name', report.name ?? '-'],
        ['owner', report.owner ?? '-'],
        ['created', report.createdAt],
        ['expires', report.expiresAt ?? 'never'],
        ...(key.revokedAtMs === null ? [] : ([['revoked', timeOf(key.revokedAtMs)]] as [string, string][])),
        ...secrets.map(({ last4, createdAt, expiresAt }): [string, string] => [
          'secret',
          `…${last4}, made ${createdAt}${expiresAt === null ? '' : `, until ${expiresAt}`}`,
        ]),
      ];
      terminal.out(rows.map(([left, right]) => `${left.padEnd(8)}  ${right}\n`).join(''));
      return 0;
    });
  },
};
