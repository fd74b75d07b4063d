import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { adminApiOn } from '../../src/cli/admin-api.ts';
import { loadConfiguration } from '../../src/config/settings.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { atEnd } from '../support/endings.ts';
import { ask, TOKEN } from './operator.ts';

/** The lines that a log of this level has when a key is made. */
async function linesAt(level: string): Promise<string[]> {
  const lines: string[] = [];
  const logger = pino({ level }, { write: (line) => lines.push(line) });
  const configuration = loadConfiguration({ ADMIN_TOKEN: TOKEN });
  if ('faults' in configuration) throw new Error(configuration.faults.join());
  const nothing = {
    bans: async () => [],
    lift: async () => false,
    present: async () => null,
    decide: async () => [],
    of: async () => new Map(),
    add: async () => {},
  };
  const stores = {
    keys: new FakeStore(),
    ledger: nothing,
    peppers: ['a pepper for the tests'],
    deprecatedCalls: nothing,
  };
  const api = adminApiOn(configuration, async () => stores, logger);
  const server = createServer(api);
  atEnd(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  expect((await ask({ adminPort: port }, 'POST', '/admin/keys', { plan: 'free' })).status).toBe(201);
  return lines;
}

test('an audit line is written whatever level the log has, unless there is no log', async () => {
  for (const level of ['info', 'warn', 'fatal']) {
    expect(await linesAt(level)).toEqual([expect.stringContaining('"action":"key.create"')]);
  }
  expect(await linesAt('silent')).toEqual([]);
});
