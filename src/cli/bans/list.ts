import type { ExitCode } from '../../failure.ts';
import { momentText } from '../../io/time-text.ts';
import { byReadability, orUnreadable, UnreadableRecord } from '../../model/record.ts';
import { ownerOf } from '../../operations/account-owners.ts';
import { banReport, bansInForce } from '../../operations/bans-in-force.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { CUSTOMER, customerCell, json, unreadableCells, unreadableEntry } from '../keys/text-form.ts';
import type { Command } from '../terminal/command.ts';
import { type Column, printTable } from '../terminal/table.ts';
import { OF_STORE } from '../terminal/variables.ts';

const COLUMNS: readonly Column[] = [
  { head: 'id', rank: 0, isWhole: true },
  { head: 'ban', rank: 3 },
  { head: 'window', rank: 4 },
  { head: 'ends', rank: 1 },
  { head: 'plan', rank: 5 },
  { head: 'name', rank: 2 },
];

/** `tollgate bans list`: the bans in force. */
export const bansList: Command = {
  name: 'bans list',
  about: 'Lists the bans in force: the key, which ban it is, the window whose refusal made it, and when it ends.',
  positionals: [],
  environment: OF_STORE,
  printsTable: true,
  examples: ['tollgate bans list', 'tollgate bans list --json'],
  options: {
    json: {
      type: 'boolean',
      about:
        'Prints an array of {"id","number","window","until"}, times in Unix seconds; {"id","unreadable"} for a caller whose ban cannot be read.',
    },
  },
  async run({ options }, terminal) {
    const work = async (store: OpenStore): Promise<ExitCode> => {
      const { readable, unreadable } = byReadability(await bansInForce(store));
      const bans = readable.toSorted((a, b) => a.ban.untilMs - b.ban.untilMs);
      if (options.json === true) {
        terminal.out(json([...bans.map(banReport), ...unreadable.map(unreadableEntry)]));
      } else {
        const nowMs = Date.now();
        const rows: string[][] = [];
        let hasCustomers = false;
        for (const one of bans) {
          const { id, number, window } = banReport(one);
          const found = await orUnreadable(ownerOf(one.consumerId, store));
          const owner = found instanceof UnreadableRecord ? { plan: '', name: 'unreadable', customer: {} } : found;
          const { customer }: { customer?: { id: string; name: string | null } } = owner?.customer ?? {};
          hasCustomers ||= customer !== undefined;
          const ends = momentText(one.ban.untilMs, nowMs, terminal);
          rows.push([id, String(number), window, ends, owner?.plan ?? '', owner?.name ?? '', customerCell(customer)]);
        }
        for (const { id } of unreadable) rows.push([...unreadableCells(id, COLUMNS), '']);
        // Without a customer among them the table is that of earlier versions.
        const columns = hasCustomers ? [...COLUMNS, CUSTOMER] : COLUMNS;
        const shown = hasCustomers ? rows : rows.map((row) => row.slice(0, COLUMNS.length));
        printTable(terminal, columns, shown, 'No key is banned.\n');
      }
      return 0;
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};
