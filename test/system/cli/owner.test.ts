import { hash } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, createServer } from 'node:net';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { main } from '../../../src/main.ts';
import { openStore } from '../../../src/serve/open-store.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { type GatewaySetup, settingsOf, startGateway, type TestGateway } from '../../support/gateway.ts';
import { ROOT, runTollgate, startProcess, TOLLGATE } from '../../support/processes.ts';
import { runCommand } from '../../support/run-command.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

// A gateway owns its embedded store, and does what commands ask for. None of these gateways has an admin token.

const UPSTREAM = 'http://127.0.0.1:9';
const SOCKET = join('run', 'gateway.sock');
const SHELL = { kind: 'shell', user: userInfo().username, host: hostname() };

const start = (setup: Partial<GatewaySetup> = {}) => startGateway({ upstream: UPSTREAM, ...setup });
const json = async (env: NodeJS.ProcessEnv, ...args: string[]) => {
  const { code, stdout, stderr } = await runCommand(env, ...args, '--json');
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
};
const changesLogged = ({ process }: TestGateway) =>
  process.stdout.split('\n').filter((line) => line.includes('"audit"'));

test('a running gateway makes the changes of commands, in the name of the user of the shell', async () => {
  const gateway = await start();
  const { id } = await json(gateway.env, 'customers', 'create', '--plan', 'small', '--name', 'Acme');
  await eventually(() => expect(changesLogged(gateway)).toHaveLength(1));
  expect(JSON.parse(changesLogged(gateway)[0]!)).toMatchObject({
    action: 'customer.create',
    actor: SHELL.user,
    clientAddress: null,
    id,
  });
  const [change] = Object.values(await json(gateway.env, 'audit')).flat();
  expect(change).toMatchObject({ action: 'customer.create', actor: SHELL, outcome: 'done' });
  const folder = gateway.env.TOLLGATE_DATA!;
  expect(lstatSync(join(folder, 'run')).mode & 0o777).toBe(0o700);
  expect(lstatSync(join(folder, SOCKET)).mode & 0o777).toBe(0o600);
  await expect(start({ env: gateway.env })).rejects.toThrow('Another gateway owns the embedded store');
  await json(gateway.env, 'customers', 'suspend', id);
  await eventually(() => expect(changesLogged(gateway)).toHaveLength(2));
  await gateway.process.stop();
  expect(existsSync(join(folder, SOCKET))).toBe(false);
  expect((await runCommand(gateway.env, 'customers', 'suspend', 'Acme')).stdout).toMatch(`${id} was already suspended`);
});

test('its socket has no sessions, which only a browser needs', async () => {
  const gateway = await start();
  const socketPath = join(gateway.env.TOLLGATE_DATA!, SOCKET);
  const statusOf = (method: string, path: string) =>
    new Promise((resolve) => {
      request({ socketPath, method, path }, (response) => resolve(response.resume().statusCode)).end();
    });
  expect(await statusOf('GET', '/admin/keys')).toBe(200);
  for (const method of ['GET', 'POST', 'DELETE']) expect(await statusOf(method, '/admin/session')).toBe(404);
});

test('a gateway that was killed leaves a socket, which neither commands nor the next gateway mind (reliability 455)', async () => {
  const gateway = await start();
  const { id } = await json(gateway.env, 'customers', 'create', '--plan', 'small');
  gateway.process.signal('SIGKILL');
  await gateway.process.exit;
  expect(existsSync(join(gateway.env.TOLLGATE_DATA!, SOCKET))).toBe(true);
  expect(await runCommand(gateway.env, 'customers', 'suspend', id)).toMatchObject({ code: 0, stderr: '' });
  const next = await start({ env: gateway.env });
  expect(await runCommand(next.env, 'customers', 'resume', id)).toMatchObject({ code: 0, stderr: '' });
  await eventually(() => expect(changesLogged(next)).toHaveLength(1));
});

test('a data folder with a long path has a socket all the same', async () => {
  const folder = join(await temporaryFolder(), 'x'.repeat(120));
  const gateway = await start({ env: { TOLLGATE_DATA: folder } });
  await json(gateway.env, 'customers', 'create', '--plan', 'small');
  await eventually(() => expect(changesLogged(gateway)).toHaveLength(1));
  await gateway.process.stop();
  expect(existsSync(join(folder, SOCKET))).toBe(false);
});

test.each([
  ['a link in the place of its folder', (folder: string, other: string) => symlinkSync(other, join(folder, 'run'))],
  [
    'a link in the place of the socket',
    (folder: string, other: string) => {
      mkdirSync(join(folder, 'run'));
      symlinkSync(join(other, 'gateway.sock'), join(folder, SOCKET));
    },
  ],
  [
    'a file in the place of the socket',
    (folder: string) => {
      mkdirSync(join(folder, 'run'));
      writeFileSync(join(folder, SOCKET), 'precious');
    },
  ],
])('%s is neither followed nor removed (reliability 456)', async (_, put) => {
  const [folder, other] = [await temporaryFolder(), await temporaryFolder()];
  await json({ TOLLGATE_DATA: folder }, 'keys', 'create', '--plan', 'free');
  put(folder, other);
  const there = lstatSync(join(folder, SOCKET), { throwIfNoEntry: false })?.ino;
  const command = await runCommand({ TOLLGATE_DATA: folder }, 'customers', 'create', '--plan', 'free');
  expect(command.stderr).toMatch(/is no (?:socket|folder), so Tollgate does not use it/);
  const gateway = await start({ env: { TOLLGATE_DATA: folder } });
  expect(gateway.process.stdout).toContain('commands cannot reach this gateway');
  expect(existsSync(join(other, 'gateway.sock'))).toBe(false);
  expect(lstatSync(join(folder, SOCKET), { throwIfNoEntry: false })?.ino).toBe(there);
});

test('a gateway that hangs makes the command say that the change may be made (reliability 457)', async () => {
  const gateway = await start();
  gateway.process.signal('SIGSTOP');
  let stderr = '';
  const terminal = {
    env: gateway.env,
    out: () => {},
    error: (text: string) => {
      stderr += text;
    },
    isTerminal: false,
  };
  const code = await main(['customers', 'create', '--plan', 'small'], { ...terminal, answerWithinMs: 500 });
  gateway.process.signal('SIGCONT');
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/has not answered within .*It is unknown whether the change/),
  ]);
});

test('a gateway that closes connections unread, because it has too many, is asked again (reliability 485)', async () => {
  const gateway = await start();
  const { id } = await json(gateway.env, 'customers', 'create', '--plan', 'small');
  const path = join(gateway.env.TOLLGATE_DATA!, SOCKET);
  renameSync(path, `${path}.gateway`);
  let closed = 0;
  const between = createServer({ pauseOnConnect: true }, (socket) => {
    if (closed++ < 3) return void socket.destroy();
    const onward = connect(`${path}.gateway`);
    socket.pipe(onward).pipe(socket);
  }).listen(path);
  atEnd(() => void between.close());
  expect(await runCommand(gateway.env, ...topUpOf(id))).toMatchObject({ code: 0, stderr: '' });
  expect(closed).toBeGreaterThan(3);
  expect(await limitOf(gateway.env, id)).toBe(1_001);
});

const topUpOf = (id: string) => ['customers', 'topup', id, '--window', 'day', '--amount', '1'] as const;
const limitOf = async (env: NodeJS.ProcessEnv, id: string) => (await json(env, 'usage', id)).windows.day.limit;

async function withCustomer() {
  const env = await settingsOf({ upstream: UPSTREAM });
  await (await openStore(env, { missingStore: 'make' })).close();
  return { env, id: (await json(env, 'customers', 'create', '--plan', 'small')).id as string };
}

/** A process that owns the store and answers nobody, such as a gateway of an earlier version. */
async function ownerOf({ TOLLGATE_DATA }: NodeJS.ProcessEnv) {
  const owner = startProcess(process.execPath, [
    '--input-type=module-typescript',
    '--eval',
    `import { ownStore } from ${JSON.stringify(join(ROOT, 'src/stores/embedded/owner.ts'))};
     await ownStore(${JSON.stringify(TOLLGATE_DATA)});
     setInterval(() => {}, 1_000);
     console.log('owned');`,
  ]);
  await owner.until(/owned/);
  return owner;
}

/** The version of the database. An earlier version of Tollgate, whose commands ask no gateway, uses one of 0 to 2. */
function versionOf({ TOLLGATE_DATA }: NodeJS.ProcessEnv): number {
  const db = new DatabaseSync(join(TOLLGATE_DATA!, 'tollgate.db'), { readOnly: true });
  try {
    return Number(db.prepare('PRAGMA user_version').get()!.user_version);
  } finally {
    db.close();
  }
}

test('earlier versions refuse a store while a gateway owns it, and use it again once the gateway has stopped (reliability 483)', async () => {
  const { env, id } = await withCustomer();
  expect(versionOf(env)).toBe(2);
  const gateway = await start({ env });
  expect(versionOf(env)).toBeGreaterThan(2);
  expect(await runCommand(env, ...topUpOf(id))).toMatchObject({ code: 0, stderr: '' });
  gateway.process.signal('SIGKILL');
  await gateway.process.exit;
  expect(await runCommand(env, ...topUpOf(id))).toMatchObject({ code: 0, stderr: '' });
  const next = await start({ env });
  await next.process.stop();
  expect(versionOf(env)).toBe(2);
  expect(await limitOf(env, id)).toBe(1_002);
});

test('commands that change one store at once wait for each other (reliability 459)', async () => {
  const { env, id } = await withCustomer();
  const own = Array.from({ length: 3 }, () => runTollgate(topUpOf(id), { env }));
  const inOne = Array.from({ length: 3 }, () => runCommand(env, ...topUpOf(id)));
  expect((await Promise.all([...own, ...inOne])).map(({ code, stderr }) => [code, stderr])).toEqual(
    Array(6).fill([0, '']),
  );
  expect(await limitOf(env, id)).toBe(1_006);
});

test('a gateway and a command wait for a command that is killed while it owns the store (reliability 460)', async () => {
  const { env, id } = await withCustomer();
  const owner = await ownerOf(env);
  const [command, starting] = [runCommand(env, ...topUpOf(id)), start({ env })];
  owner.signal('SIGKILL');
  expect(await command).toMatchObject({ code: 0, stderr: '' });
  const gateway = await starting;
  expect(await runCommand(env, ...topUpOf(id))).toMatchObject({ code: 0, stderr: '' });
  await eventually(() => expect(changesLogged(gateway).length).toBeGreaterThan(0));
  expect(await limitOf(env, id)).toBe(1_002);
});

test('a store whose owner answers nobody can be read, and is not changed (reliability 461)', async () => {
  const { env, id } = await withCustomer();
  await ownerOf(env);
  let stderr = '';
  const error = (text: string) => {
    stderr += text;
  };
  const code = await main([...topUpOf(id)], { env, out: () => {}, error, isTerminal: false, answerWithinMs: 200 });
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/^Another process owns the embedded store in .* so nothing was changed\. .*TOLLGATE_GATEWAY/),
  ]);
  expect(await limitOf(env, id)).toBe(1_000);
});

test('a command on a full disk changes nothing and says what to do, and the next one changes the store (reliability 462)', async () => {
  const { env, id } = await withCustomer();
  const words = [...TOLLGATE, ...topUpOf(id)];
  const command = startProcess('sh', ['-c', 'ulimit -S -f 0; exec "$@"', 'sh', ...words], { env });
  expect((await command.exit).code).toBe(1);
  expect([command.stdout, command.stderr]).toEqual([
    '',
    expect.stringMatching(/tollgate\.db cannot be opened: disk I\/O error\. Make room on its disk/),
  ]);
  expect(await runCommand(env, ...topUpOf(id))).toMatchObject({ code: 0, stderr: '' });
  expect(await limitOf(env, id)).toBe(1_001);
});

test('an import on a disk that becomes full says that it may have written more, and is repeated (reliability 476)', async () => {
  const { env } = await withCustomer();
  const folder = await temporaryFolder();
  const file = join(folder, 'keys.csv');
  const digests = Array.from({ length: 1_000 }, (_, i) => hash('sha256', `secret ${i}`));
  writeFileSync(file, `sha256,plan\n${digests.map((digest) => `${digest},small\n`).join('')}`);
  const words = [...TOLLGATE, 'keys', 'import', file];
  const command = startProcess('sh', ['-c', 'ulimit -S -f 1200; exec "$@"', 'sh', ...words], { env });
  expect((await command.exit).code).toBe(1);
  expect(command.stdout).toBe('0 imported, 0 there already, 0 refused.\n');
  expect(command.stderr).toMatch(
    /warning: Some records that are not counted may have been written\. Repeat the command/,
  );
  const again = await runCommand(env, 'keys', 'import', file);
  const [, moved, already] = /^(\d+) imported, ([1-9]\d*) there already, 0 refused\.\n$/.exec(again.stdout) ?? [];
  expect(Number(moved) + Number(already)).toBe(1_000);
});

test('a command whose disk is full makes no key without its secret, and the next one makes it (reliability 478)', async () => {
  const gateway = await start();
  const folder = await temporaryFolder();
  const file = join(folder, 'keys.yaml');
  writeFileSync(file, 'set: partners\nkeys: { shop: { plan: small } }\n');
  const secrets = join(folder, 'secrets');
  const args = ['keys', 'apply', file, '--secrets', secrets];
  const words = [...TOLLGATE, ...args];
  const command = startProcess('sh', ['-c', 'ulimit -S -f 0; exec "$@"', 'sh', ...words], { env: gateway.env });
  expect((await command.exit).code).toBe(1);
  expect(command.stdout).toBe('0 created, 0 changed, 0 revoked, 0 unchanged.\n');
  expect(command.stderr).toMatch(/^.*partners\.shop\.pending cannot be used \(EFBIG\)\. --secrets must be a folder/);
  expect([readdirSync(secrets), (await json(gateway.env, 'keys', 'list')).keys]).toEqual([[], []]);
  expect(await runCommand(gateway.env, ...args)).toMatchObject({ code: 0, stderr: '' });
  expect(readdirSync(secrets)).toEqual(['partners.shop']);
});

test('no change is lost or made twice while gateways start, stop and are killed (reliability 458)', async () => {
  let gateway = await start();
  const { id } = await json(gateway.env, 'customers', 'create', '--plan', 'small');
  const { env } = gateway;
  let isOver = false;
  const counts = { done: 0, unknown: 0 };
  const topUp = topUpOf(id);
  const commands = [1, 2].map(async () => {
    while (!isOver) {
      const { code, stderr } = await runCommand(env, ...topUp);
      if (code === 0) counts.done++;
      else {
        expect(stderr).toMatch(/It is unknown whether the change was made/);
        counts.unknown++;
      }
    }
  });
  for (const signal of ['SIGTERM', 'SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
    const before = counts.done;
    await eventually(() => expect(counts.done).toBeGreaterThan(before + 2));
    gateway.process.signal(signal);
    await gateway.process.exit;
    await eventually(() => expect(counts.done).toBeGreaterThan(before + 5));
    gateway = await start({ env });
  }
  isOver = true;
  await Promise.all(commands);
  const limit = await limitOf(env, id);
  expect(limit).toBeGreaterThanOrEqual(1_000 + counts.done);
  expect(limit).toBeLessThanOrEqual(1_000 + counts.done + counts.unknown);
});
