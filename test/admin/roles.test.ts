import { createHash } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { ENDPOINTS } from '../../src/admin/endpoints.ts';
import { ROLES } from '../../src/config/admin-tokens-file.ts';
import { lineOf } from '../../src/operations/catalogue/input.ts';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { startTollgate, temporaryFolder } from '../support/processes.ts';
import { JSON_TYPE, send, signIn } from './browser.ts';
import { ask, auditLines, openWithAdmin, STORES, startWithAdmin, TOKEN } from './operator.ts';

const TOKENS = {
  viewer: 'the-token-of-a-viewer-1',
  operator: 'the-token-of-an-operator-2',
  admin: 'the-token-of-an-admin-3',
};
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const FILE = `
- { name: vera, role: viewer, token: ${TOKENS.viewer} }
- { name: otto, role: operator, sha256: ${sha256(TOKENS.operator).toUpperCase()} }
- { name: ada, role: admin, token: '${TOKENS.admin}' }
`;
const NAMES = { viewer: 'vera', operator: 'otto', admin: 'ada' };

async function tokensFile(text = FILE): Promise<string> {
  const file = join(await temporaryFolder(), 'tokens.yaml');
  await writeFile(file, text, { mode: 0o600 });
  return file;
}

const embedded = STORES['the embedded store']!;
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

/** The lowest role of each method, written down again: a change in an operation must be meant. */
const NEEDED: Readonly<Record<string, string>> = {
  'POST keys': 'admin',
  'POST keys/{id}/delete': 'admin',
  'POST keys/apply': 'admin',
  'POST keys/import': 'admin',
  'POST keys/restore': 'admin',
  'PATCH keys/{id}': 'operator',
  'DELETE keys/{id}': 'operator',
  'POST keys/{id}/rotate': 'operator',
  'POST keys/{id}/suspend': 'operator',
  'POST keys/{id}/secrets/end': 'operator',
  'POST keys/{id}/resume': 'operator',
  'POST keys/{id}/move': 'operator',
  'POST customers': 'admin',
  'PATCH customers/{id}': 'operator',
  'POST customers/{id}/topups': 'operator',
  'POST customers/{id}/usage/reset': 'operator',
  'POST customers/{id}/delete': 'admin',
  'POST customers/{id}/suspend': 'operator',
  'POST customers/{id}/resume': 'operator',
  'POST keys/{id}/topups': 'operator',
  'DELETE keys/{id}/topups/{topUp}': 'operator',
  'DELETE customers/{id}/topups/{topUp}': 'operator',
  'POST keys/{id}/usage/reset': 'operator',
  'DELETE bans/{id}': 'operator',
  'POST cache/purges': 'operator',
  'PUT plans/file': 'admin',
  'POST plans/history/{version}/restore': 'admin',
};

const EACH = ENDPOINTS.map((endpoint) => {
  const { method, path } = lineOf(endpoint.line);
  const change = 'run' in endpoint ? endpoint.action : undefined;
  return { method, path: path.slice(1), role: endpoint.role, change };
});

describe('roles', () => {
  test('every operation names its role, and none that changes something is open to a viewer', () => {
    for (const { method, path, role, change } of EACH) {
      expect([method, path, ROLES.includes(role)]).toEqual([method, path, true]);
      if (change !== undefined) expect([method, path, role]).not.toEqual([method, path, 'viewer']);
      const needed = NEEDED[`${method} ${path}`];
      if (change !== undefined) expect([method, path, needed]).not.toContain(undefined);
      if (method === 'GET') expect(role).toBe('viewer');
      if (needed !== undefined) expect([method, path, role]).toEqual([method, path, needed]);
    }
  });

  test('each resource is open from its role upwards, and 403 below it, whoever asks by token or session', async () => {
    const env = { ...(await embedded()), ADMIN_TOKENS_FILE: await tokensFile() };
    const gateway = await openWithAdmin(env, { admin: { editPlans: 'true' } });
    const origin = `http://127.0.0.1:${gateway.adminPort}`;
    for (const holder of ROLES) {
      const cookie = await signIn(origin, TOKENS[holder]);
      for (const { method, path, role } of EACH) {
        // A stream has no end.
        if (path.startsWith('events/')) continue;
        const url = `${origin}/admin/${path.replace('{id}', 'none')}`;
        // A body that changes nothing: an allowed request is refused for another reason.
        const rest = method === 'GET' ? {} : { body: [] };
        const session = { Cookie: cookie, 'Sec-Fetch-Site': 'same-origin', ...JSON_TYPE };
        const isAllowed = ROLES.indexOf(holder) >= ROLES.indexOf(role!);
        const each = [{ ...bearer(TOKENS[holder]), ...JSON_TYPE }, session].map((fields) =>
          send(url, method, fields, rest),
        );
        for (const { status, body } of await Promise.all(each)) {
          expect([holder, method, path, status === 403]).toEqual([holder, method, path, !isAllowed]);
          if (!isAllowed) {
            expect(body).toEqual({
              code: 'forbidden',
              message: `This needs the role ${role}, and ${NAMES[holder]} has the role ${holder}.`,
              status: 403,
            });
          }
        }
      }
    }
  });

  test('the record and the log name the token, also of a refused change and of a change by a session', async () => {
    const gateway = await openWithAdmin({ ...(await embedded()), ADMIN_TOKENS_FILE: await tokensFile() });
    const origin = `http://127.0.0.1:${gateway.adminPort}`;
    const { id } = await gateway.createKey('free');
    const patch = (fields: object, owner: string) =>
      send(`${origin}/admin/keys/${id}`, 'PATCH', { ...JSON_TYPE, ...fields }, { body: { owner } });
    expect((await patch(bearer(TOKENS.viewer), 'v')).status).toBe(403);
    expect((await patch(bearer(TOKENS.operator), 'o')).status).toBe(200);
    const cookie = await signIn(origin, TOKENS.admin);
    expect((await patch({ Cookie: cookie, 'Sec-Fetch-Site': 'same-origin' }, 'a')).status).toBe(200);
    expect((await patch(bearer(TOKEN), 't')).status).toBe(200);
    const { body } = await ask(gateway, 'GET', '/admin/audit?limit=4');
    const told = body.changes.map(({ actor, outcome, code }: Record<string, unknown>) => [actor, outcome, code]);
    expect(told).toEqual([
      [{ kind: 'token', name: 'ADMIN_TOKEN' }, 'done', null],
      [{ kind: 'token', name: 'ada' }, 'done', null],
      [{ kind: 'token', name: 'otto' }, 'done', null],
      [{ kind: 'token', name: 'vera' }, 'refused', 'forbidden'],
    ]);
    await eventually(() => {
      const lines = auditLines(gateway)
        .filter(({ action }) => action !== 'key.create')
        .map(({ action, actor, outcome, who }) => [action, actor, outcome, who]);
      expect(lines).toEqual([
        ['key.update', 'vera', 'refused', 'admin'],
        ['key.update', 'otto', 'done', 'admin'],
        ['admin.access', 'ada', 'done', 'admin'],
        ['key.update', 'ada', 'done', 'admin'],
        ['key.update', 'ADMIN_TOKEN', 'done', 'admin'],
      ]);
    });
    const secrets = [...Object.values(TOKENS), TOKEN, cookie.split('=')[1]!, sha256(TOKENS.operator)];
    for (const secret of secrets) expect(gateway.process.stdout + JSON.stringify(body)).not.toContain(secret);
  });
});

describe('ADMIN_TOKENS_FILE while the gateway runs', () => {
  let gateway: TestGateway;
  let file: string;
  let origin: string;
  beforeAll(async () => {
    file = await tokensFile();
    gateway = await startWithAdmin({ ...(await embedded()), ADMIN_TOKENS_FILE: file });
    origin = `http://127.0.0.1:${gateway.adminPort}`;
  });
  const replace = async (text: string) => {
    await writeFile(`${file}.draft`, text);
    await rename(`${file}.draft`, file);
  };
  const statusOf = async (fields: Record<string, string>) =>
    (await send(`${origin}/admin/session`, 'GET', fields)).status;

  test('a file with faults leaves the tokens in force and is an error line, without the token', async () => {
    await replace(`${FILE}- { name: ada, role: boss, token: short }\n`);
    await eventually(() => {
      expect(gateway.process.stdout).toContain('new admin tokens rejected, keeping the old ones');
      expect(gateway.process.stdout).toContain(`${file}:5:`);
    });
    expect(gateway.process.stdout).not.toContain('short');
    expect(await statusOf(bearer(TOKENS.admin))).toBe(200);
  });

  test('a removed token and its sessions end, a kept one and its sessions go on, a new one opens', async () => {
    const [vera, otto] = [await signIn(origin, TOKENS.viewer), await signIn(origin, TOKENS.operator)];
    expect(await statusOf({ Cookie: otto })).toBe(200);
    const added = 'a-token-that-was-added-4';
    await replace(`
- { name: vera, role: viewer, token: ${TOKENS.viewer} }
- { name: neu, role: viewer, token: ${added} }
`);
    await eventually(async () => expect(await statusOf(bearer(added))).toBe(200));
    expect(await statusOf({ Cookie: otto })).toBe(401);
    expect(await statusOf(bearer(TOKENS.operator))).toBe(401);
    expect(await statusOf({ Cookie: vera })).toBe(200);
    expect(await statusOf(bearer(TOKENS.viewer))).toBe(200);
    expect(await statusOf(bearer(TOKEN))).toBe(200);
  });

  test('a token whose role changes loses the sessions that it had with the old role', async () => {
    await replace(FILE);
    await eventually(async () => expect(await statusOf(bearer(TOKENS.admin))).toBe(200));
    const ada = await signIn(origin, TOKENS.admin);
    await replace(FILE.replace('role: admin', 'role: viewer'));
    await eventually(async () => expect(await statusOf({ Cookie: ada })).toBe(401));
    const { body } = await send(`${origin}/admin/session`, 'GET', bearer(TOKENS.admin));
    expect(body).toEqual({ name: 'ada', role: 'viewer', via: 'token', expiresAt: null, idleSeconds: null });
  });
});

test.each(['1', '2'])('a file with faults ends the start with their lines (WORKERS=%s)', async (workers) => {
  const file = await tokensFile('- { name: jo, role: viewer, token: aaaaaaaaaaaaaaaaaaaa }\n');
  const TOLLGATE_DATA = await temporaryFolder();
  const ports = { PORT: '0', ADMIN_PORT: '0' };
  const store = workers === '2' ? await STORES.Redis!() : {};
  const env = { ...ports, ...store, TOLLGATE_DATA, ADMIN_TOKENS_FILE: file, WORKERS: workers };
  const running = await startTollgate(['serve'], { env });
  expect((await running.exit).code).toBe(1);
  expect(running.stderr).toContain(`${file}:1:`);
  expect(running.stderr).toContain('[0].token: is too easy to guess');
  expect(running.stderr).not.toContain('aaaaaaaa');
});
