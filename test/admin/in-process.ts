import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { pino } from 'pino';
import { loadConfiguration } from '../../src/config/settings.ts';
import type { KeyStore } from '../../src/identify/record-store.ts';
import type { StartLink } from '../../src/operations/start-link.ts';
import { openAdminAccess } from '../../src/serve/admin-access.ts';
import { adminApiOn } from '../../src/serve/admin-api.ts';
import { FakeCustomers } from '../identify/fake-store.ts';
import { FakePlansHistory } from '../operations/fake-plans-history.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { FakeAuditStore } from './fake-audit-store.ts';
import { ask, TOKEN } from './operator.ts';

/**
 * The admin API in this process, on a store of the test's, and the lines that it has written into the log.
 * @param tokens of viewers, besides TOKEN
 */
export async function adminApiWith(
  keys: KeyStore,
  {
    level = 'info',
    audit = new FakeAuditStore(),
    required = false,
    tokens = [] as readonly { readonly name: string; readonly token: string }[],
    startLink = null as StartLink | null,
  } = {},
) {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ level }, { write: (line) => lines.push(JSON.parse(line)) });
  const configuration = await loadConfiguration({ ADMIN_TOKEN: TOKEN });
  if ('faults' in configuration) throw new Error(configuration.faults.join());
  const settings = { ...configuration.settings, audit: { required, keep: 1_000 } };
  let failures = 0;
  const nothing = {
    placeOf: String,
    bans: async () => [],
    lift: async () => null,
    topUp: async () => ({ kind: 'reused' as const }),
    undoTopUp: async () => ({ kind: 'reused' as const }),
    topUpNotes: async () => [],
    resetUsage: async () => ({ kind: 'reused' as const }),
    reportInFlight: async () => {},
    settle: async () => [],
    forget: async () => {},
    carryBan: async () => {},
    present: async () => null,
    decide: async () => [],
    of: async () => new Map(),
    add: async () => {},
    ofConsumer: async () => null,
    lastUsedMs: async (ids: readonly string[]) => ids.map(() => null),
    consumerIds: async function* () {},
    addRefusals: async () => {},
    refusedNow: async () => [],
  };
  const stores = {
    keys,
    ledger: nothing,
    peppers: ['a pepper for the tests'],
    pepperState: () => 'right' as const,
    pepperHistory: async () => ({ peppers: ['a pepper for the tests'], root: 'a root for the tests' }),
    clock: {
      get nowMs() {
        return Date.now();
      },
    },
    customers: new FakeCustomers(),
    deprecatedCalls: nothing,
    explanations: { keep: async () => {}, of: async () => [] },
    keyNetworks: {
      read: async (ids: readonly string[]) => ids.map(() => null),
      swap: async () => [],
      forget: async () => {},
    },
    traffic: { read: async (places: readonly unknown[]) => places.map(() => null), swap: async () => true },
    secretUses: {
      note: async () => {},
      of: async (_: string, secrets: readonly string[]) => secrets.map(() => null),
      forget: async () => {},
    },
    history: { ...nothing, of: async () => null },
    audit,
    plansHistory: new FakePlansHistory(),
    cachePurges: { announce: async () => {} },
  };
  const tokensFile = tokens.length === 0 ? null : join(await temporaryFolder(), 'tokens.yaml');
  // JSON is YAML.
  const viewers = tokens.map((one) => ({ role: 'viewer', ...one }));
  if (tokensFile !== null) await writeFile(tokensFile, JSON.stringify(viewers), { mode: 0o600 });
  const access = await openAdminAccess({ ...settings.admin, tokensFile }, { logger, startLink });
  atEnd(() => access.close());
  const telemetry = { logger, auditFailed: () => failures++, changesLost: () => {} };
  const inForce = { ...configuration, settings, faults: [] };
  const surroundings = { env: {}, live: null };
  const server = createServer(
    adminApiOn(inForce, async () => ({ ...stores, forOperators: stores }), access, telemetry, surroundings),
  );
  atEnd(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port: adminPort } = server.address() as AddressInfo;
  let arrived = 0;
  server.on('request', () => void arrived++);
  const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
  const it = (method: string, path: string, body?: unknown, headers = {}) =>
    ask({ adminPort }, method, path, body, headers);
  /** Sends a request and disconnects once the API has it. */
  const leave = async (path: string) => {
    const socket = connect({ host: '127.0.0.1', port: adminPort });
    const [[request]] = (await Promise.all([
      once(server, 'request'),
      new Promise((resolve) =>
        socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`, resolve),
      ),
    ])) as [[IncomingMessage], unknown];
    socket.destroy();
    await once(request.socket, 'close');
  };
  /** Sends the head of a request, and what is given of its body. @returns the socket and what has come back */
  const begin = (head: string, body = '') => {
    const socket = connect({ host: '127.0.0.1', port: adminPort });
    atEnd(() => socket.destroy());
    let received = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      received += text;
    });
    socket.on('error', () => {});
    socket.write(`${head}\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n${body}`);
    return { socket, received: () => received };
  };
  return { it, bearer, arrived: () => arrived, leave, begin, lines, audit, failures: () => failures };
}
