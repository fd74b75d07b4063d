import type { UsageReport } from '../admit/usage-report.ts';
import type { ExitCode } from '../failure.ts';
import { withStore } from '../serve/open-store.ts';
import { operationsOn } from './operations.ts';
import type { Command } from './terminal/command.ts';
import { table } from './terminal/output.ts';

/** `tollgate usage`: prints what a key has used in each window. */
export const usage: Command = {
  name: 'usage',
  about: 'Tells what a key has used in each window of its plan, its strikes and its ban.',
  positionals: ['KEY_ID'],
  options: {
    plan: {
      type: 'string',
      value: 'PLAN',
      about: 'For a caller with JSON Web Tokens (jwt_…), whose plan stands only in them: which it is.',
    },
    json: { type: 'boolean', about: 'Prints the same object as GET /usage, times in Unix seconds.' },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const plan = (options.plan as string | undefined) ?? null;
    return withStore<ExitCode>(terminal.env, async (store) => {
      const report = await operationsOn(store).usage(id, plan);
      if (options.json === true) terminal.out(`${JSON.stringify(report, null, 2)}\n`);
      else terminal.out(asText(report, terminal));
      return 0;
    });
  },
};

function asText(report: UsageReport, terminal: { readonly isTerminal: boolean }): string {
  const shadow = report.shadow === undefined ? '' : `watched only: ${watched(report.shadow)}\n`;
  const rows = Object.entries(report.windows).map(([window, { limit, used, remaining, resetAt }]) => [
    window,
    String(limit),
    String(used),
    String(remaining),
    new Date(resetAt * 1000).toISOString(),
  ]);
  const ban =
    report.ban === null
      ? 'not banned'
      : `ban ${report.ban.number}, until ${new Date(report.ban.until * 1000).toISOString()}`;
  return `${report.id}, plan ${report.plan}\n${table(['window', 'limit', 'used', 'remaining', 'resets'], rows, terminal)}strikes: ${report.strikes}, ${ban}\n${shadow}`;
}

function watched({ windows, ban }: NonNullable<UsageReport['shadow']>): string {
  const used = Object.entries(windows).map(([window, { limit, used }]) => `${window} ${used} of ${limit}`);
  return `${used.join(', ')}${ban === null ? '' : `, would be banned until ${new Date(ban.until * 1000).toISOString()}`}`;
}
