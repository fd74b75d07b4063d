import { chmod, readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { globalAgent } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Socket, type Server as TcpServer } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ALL_COMMANDS } from '../../src/main.ts';
import { NO_OPERATION } from '../../src/operations/catalogue/input.ts';
import { ask, openWithAdmin, STORES, TOKEN } from '../admin/operator.ts';
import { createAuthority } from '../support/certificates.ts';
import { eventually } from '../support/conditions.ts';
import { PLANS, type TestGateway } from '../support/gateway.ts';
import { runCommand } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** The second words of commands that change something. */
const CHANGES =
  / (?:create|update|edit|move|rotate|end-secret|suspend|resume|revoke|delete|topup|undo-topup|reset|lift|rollback)$/;
const UNKNOWN_KEY = 'key_0000000000000000';

/** Runs a command that asks a gateway, on a machine that has no store and no settings. */
function runAt(url: string, env: NodeJS.ProcessEnv, ...args: string[]) {
  return runCommand({ TOLLGATE_GATEWAY: url, TOLLGATE_TOKEN: TOKEN, ...env }, ...args);
}

describe.each(Object.keys(STORES))('a command asks a gateway on %s', (store) => {
  let gateway: TestGateway;
  let url: string;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[store]!());
    url = `http://127.0.0.1:${gateway.adminPort}`;
  });
  const at = (...args: string[]) => runAt(url, {}, ...args);
  const here = (...args: string[]) => runCommand({ ...gateway.env, ADMIN_TOKEN: undefined }, ...args);
  const json = async (...args: string[]) => JSON.parse((await at(...args, '--json')).stdout);

  test('and its changes are made, in the name of the token', async () => {
    const { id } = await json('customers', 'create', '--plan', 'small', '--name', 'Acme', '--meta', 'team=blue');
    expect(await json('customers', 'edit', id, '--notes', 'two\nlines')).toMatchObject({ notes: 'two\nlines' });
    expect((await at('customers', 'suspend', 'ACME')).stderr).toBe(`note: ACME is ${id}.\n`);
    expect((await at('customers', 'suspend', id)).stdout).toMatch(/was already suspended until/);
    const { body } = await ask(gateway, 'GET', `/admin/audit?key=${id}&limit=1`);
    expect(body.changes[0]).toMatchObject({ actor: { kind: 'token', name: 'ADMIN_TOKEN' } });
    expect((await at('customers', 'delete', id, '--yes')).stdout).toBe(`${id} is deleted.\n`);
    expect((await at('customers', 'delete', id, '--yes')).stdout).toBe(`${id} was deleted before.\n`);
  });

  test('and a new key is said to be in its store', async () => {
    expect((await at('keys', 'create', '--plan', 'small')).stdout).toContain(
      `It is in the store of the gateway at ${url}; gateways on another store do not know it.\n`,
    );
  });

  test('and a search that is too long for an address is refused with that, and not by the server', async () => {
    expect(await at('keys', 'list', '--search', 'ä'.repeat(10_000))).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /^q has 10000 characters, which are too many\. A gateway is asked with at most 8000 /,
      ),
    });
    expect((await at('keys', 'list', '--search', 'a'.repeat(7_000))).code).toBe(0);
  });

  test('and a change that is named is made once', async () => {
    const { id } = await gateway.createKey('small');
    const topUp = (amount: string) => at('keys', 'topup', id, '--window', 'day', '--amount', amount, '--id', 'one "x"');
    expect((await topUp('5')).stderr).toMatch(/^A gateway takes an --id of visible ASCII/);
    const once = (amount: string) => at('keys', 'topup', id, '--window', 'day', '--amount', amount, '--id', 'one');
    expect((await once('5')).stderr).toBe('');
    expect((await once('5')).stderr).toBe('Nothing was changed: this change was made under this --id before.\n');
    expect(await once('6')).toMatchObject({
      code: 1,
      stderr: 'Another change was made under this --id. Use a new one.\n',
    });
  });

  test.each([
    ['keys', 'revoke', UNKNOWN_KEY],
    ['keys', 'update', 'KEY', '--plan', 'none'],
    ['keys', 'update', 'cus_0000000000000000', '--plan', 'small'],
    ['keys', 'move', 'KEY', '--customer', 'nobody'],
    ['keys', 'end-secret', 'KEY', '--last4', 'abcd'],
    ['keys', 'topup', 'KEY', '--window', 'month', '--amount', '5'],
    ['keys', 'undo-topup', 'KEY', 'day'],
    ['keys', 'suspend', 'KEY', '--until', '2020-01-01'],
    ['keys', 'rotate', 'KEY', '--overlap', '0s', '--leaked'],
    ['keys', 'delete', 'KEY', '--yes'],
    ['bans', 'lift', 'KEY'],
    ['bans', 'lift', '..'],
    ['customers', 'create', '--plan', 'none'],
    ['customers', 'edit', 'cus_0000000000000000'],
  ])('and a refusal is the same sentence as on its own store: %s %s %s', async (...words) => {
    const { id } = await gateway.createKey('small');
    const args = words.map((word) => (word === 'KEY' ? id : word));
    const [there, own] = [await at(...args), await here(...args)];
    expect(there).toEqual(own);
    expect(there.stderr).not.toBe('');
  });

  test('and what it reads is the same as on its own store', async () => {
    const { id } = await gateway.createKey('small', '--name', 'read');
    const readers = ALL_COMMANDS.flatMap(({ name, positionals, options, environment }) => {
      const [first = '[]'] = positionals;
      const isReader = environment.includes('TOLLGATE_GATEWAY') && options.json !== undefined && !CHANGES.test(name);
      // That reads a file.
      if (name === 'plans check') return [];
      if (!isReader || !/^\[|^KEY_ID$|^ID$/.test(first)) return [];
      return [[...name.split(' '), ...(first.startsWith('[') ? [] : [id])]];
    });
    expect(readers.length).toBeGreaterThan(3);
    // A window without use would end its length from now, and the two commands run one after the other.
    const steady = ({ stdout, ...rest }: Awaited<ReturnType<typeof at>>) => ({
      ...rest,
      stdout: stdout.replace(/"resetAt": \d+/g, '"resetAt": 0'),
    });
    for (const words of readers)
      expect([words, steady(await at(...words, '--json'))]).toEqual([words, steady(await here(...words, '--json'))]);
  });

  test('and looks at files of plans with the keys of the gateway', async () => {
    const folder = await temporaryFolder();
    const [old, now] = [join(folder, 'old.yaml'), join(folder, 'new.yaml')];
    await gateway.createKey('gentle');
    await writeFile(old, PLANS);
    await writeFile(
      now,
      PLANS.replace(/^ {2}gentle.*\n/m, '').replace('small: { limits: { minute: 3', 'small: { limits: { minute: 4'),
    );
    for (const words of [
      ['check', now],
      ['diff', old, now],
    ]) {
      const args = ['plans', ...words, '--against', '--json'];
      const [there, own] = [await at(...args), await here(...args)];
      expect([words, there.code, there.stderr, JSON.parse(there.stdout)]).toEqual([
        words,
        1,
        '',
        JSON.parse(own.stdout),
      ]);
      expect(there.stdout).toContain(words[0] === 'check' ? 'has no plan `gentle`, which ' : '"breaks": true');
    }
  });

  test('and exports what its keys used', async () => {
    const { id, key } = await gateway.createKey('small', '--name', 'used');
    await gateway.get('/v1/pets', key);
    const words = ['usage', 'export', '--from', '1d', '--to', '2100-01-01', '--key', 'used'];
    const exported = await eventually(async () => {
      const done = await at(...words);
      expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining(`"consumer":"${id}"`) });
      return done;
    });
    expect(exported).toEqual(await here(...words));
  });

  test('and a wrong token is refused, and shown nowhere', async () => {
    const wrong = await runAt(url, { TOLLGATE_TOKEN: 'another-token-than-this' }, 'keys', 'revoke', UNKNOWN_KEY);
    expect(wrong).toEqual({
      code: 1,
      stdout: '',
      stderr: `The gateway at ${url} does not accept the token of TOLLGATE_TOKEN.\n`,
    });
  });

  test('and the token may be in a file, which only its owner should read (reliability 482)', async () => {
    const file = join(await temporaryFolder(), 'token');
    await writeFile(file, `${TOKEN}\n`, { mode: 0o640 });
    const { id } = await gateway.createKey('small');
    const env = { TOLLGATE_TOKEN: undefined, TOLLGATE_TOKEN_FILE: file };
    const suspend = () => runAt(url, env, 'keys', 'suspend', id);
    expect(await suspend()).toMatchObject({ stdout: `${id} is suspended until it is resumed.\n`, stderr: '' });
    await chmod(file, 0o644);
    expect((await suspend()).stderr).toMatch(
      /^warning: TOLLGATE_TOKEN_FILE: .*\/token can be read by every user of this machine, .* `chmod o-r`, and replace the token\.\n$/,
    );
  });
});

test.each([
  [{ TOLLGATE_GATEWAY: 'ftp://127.0.0.1' }, 'TOLLGATE_GATEWAY or --gateway: must be the address'],
  [{ TOLLGATE_GATEWAY: '127.0.0.1:9090' }, 'of an admin port with http:// or https://'],
  [{ TOLLGATE_GATEWAY: 'http://me:secret@127.0.0.1:9090' }, '--gateway: must be the address'],
  [{ TOLLGATE_GATEWAY: 'http://gateway.example.com:9090' }, 'without TLS'],
  [{ TOLLGATE_GATEWAY: 'http://127.0.0.1.example.com:9090' }, 'without TLS'],
  [{ TOLLGATE_TOKEN: '' }, 'TOLLGATE_TOKEN: is missing'],
  [{ TOLLGATE_TOKEN: 'two words' }, 'TOLLGATE_TOKEN: must be visible ASCII'],
  [{ TOLLGATE_TOKEN_FILE: '/nonexistent' }, 'set together'],
])('a gateway that cannot be meant is wrong usage: %j (reliability 451)', async (env, sentence) => {
  const { code, stderr } = await runAt('http://127.0.0.1:1', env, 'keys', 'revoke', UNKNOWN_KEY);
  expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
  expect(stderr).not.toContain('secret');
});

test('a command that works on the store itself is refused where a gateway is named', async () => {
  const { code, stderr } = await runAt('http://127.0.0.1:1', {}, 'keys', 'backup', 'file');
  expect([code, stderr]).toEqual([2, expect.stringContaining('works on the store itself')]);
  const both = await runAt('http://127.0.0.1:1', {}, 'keys', 'revoke', UNKNOWN_KEY, '--data', 'x');
  expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('leave --data or the gateway out')]);
});

test('a gateway that is away is named, and nothing is changed', async () => {
  const { code, stderr } = await runAt('http://127.0.0.1:1', {}, 'keys', 'revoke', UNKNOWN_KEY);
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/^The gateway at http:\/\/127\.0\.0\.1:1 cannot be reached: /),
  ]);
});

describe('a server that is no gateway', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES['the embedded store']!());
  });
  const servers: { close(): unknown }[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  async function answering(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
    const server = createServer(answer);
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    servers.push({
      close: () => {
        server.closeAllConnections();
        server.close();
      },
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  const revoke = (url: string) => runAt(url, {}, 'keys', 'revoke', UNKNOWN_KEY);

  test('and redirects does not get the token sent elsewhere (reliability 452)', async () => {
    const seen: unknown[] = [];
    const other = await answering(({ headers }, response) => {
      seen.push(headers.authorization);
      response.end('{}');
    });
    const url = await answering((_, response) => response.writeHead(307, { Location: other }).end('{}'));
    expect((await revoke(url)).stderr).toMatch(/cannot be asked\. It redirects to another address \(307\)/);
    expect(seen).toEqual([]);
  });

  test('and sends control characters, the token or a text without end reaches no terminal (reliability 453)', async () => {
    const message = `\u001b]0;x\u0007 ${TOKEN} ${'x'.repeat(1_000_000)}`;
    const url = await answering((_, response) =>
      response.writeHead(409).end(JSON.stringify({ code: 'conflict', message, status: 409 })),
    );
    const { code, stderr } = await revoke(url);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^\\u\{1b\}\]0;x\\u\{7\} … x+\n$/);
    expect(stderr.length).toBeLessThan(3_000);
  });

  test('and never ends its answer holds neither the command nor its memory (reliability 454)', async () => {
    const page = Buffer.alloc(1024 * 1024, ' ');
    const url = await answering((request, response) => {
      const more = () => void response.write(page, () => !request.socket.destroyed && more());
      more();
    });
    const { stderr } = await revoke(url);
    expect(stderr).toMatch(/cannot be asked\. .* It is unknown whether the change was made: see `tollgate audit`\.\n$/);
  });

  test.each([
    ['text', 200, 'hello'],
    ['a list', 200, '[]'],
    ['an error without a code', 500, '{"message":"x"}'],
    ['an empty answer', 502, ''],
  ])('answers with %s, and that is said', async (_, status, text) => {
    const url = await answering((_, response) => response.writeHead(status).end(text));
    const { code, stderr } = await revoke(url);
    expect([code, stderr]).toEqual([1, expect.stringContaining('is this the address of an admin port?')]);
  });

  test('is a gateway of another version, and that is said', async () => {
    const url = await answering((_, response) => response.end('{"id":"x","plan":7}'));
    expect((await revoke(url)).stderr).toMatch(/has another form than this version of Tollgate reads: .*\(plan\)/);
  });

  test.each([
    [404, { code: 'not_found', message: NO_OPERATION }],
    [405, { code: 'method_not_allowed', message: 'This is used with GET, HEAD.' }],
  ])('is a gateway of an earlier version, which lacks the operation (%i), and that is said', async (status, error) => {
    const url = await answering((_, response) => response.writeHead(status).end(JSON.stringify({ ...error, status })));
    expect(await revoke(url)).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: `The gateway at ${url} cannot be asked. It does not know this operation: it is of an earlier version of Tollgate.\n`,
    });
    // As a gateway of this version says it.
    expect((await ask(gateway, 'GET', '/admin/later')).body.message).toBe(NO_OPERATION);
  });

  test('is a gateway of a later version, whose members this one does not know', async () => {
    const { id } = await gateway.createKey('small');
    const json = (await ask(gateway, 'GET', '/admin/audit')).text.replaceAll('"kind":', '"later":1,"kind":');
    expect(json).toContain('"later":1');
    const url = await answering((_, response) => response.end(json));
    expect(await runAt(url, {}, 'audit')).toMatchObject({ code: 0, stdout: expect.stringContaining(id) });
  });

  test.each([
    ['a proxy gives up waiting', 504, '{"message":"Endpoint request timed out"}'],
    ['a proxy has lost the answer', 502, '{"code":"bad_gateway","message":"The upstream has gone."}'],
    ['the gateway has a defect', 500, '{"code":"internal_error","message":"Something broke.","status":500}'],
    ['another API says yes', 200, '{"ok":true}'],
  ])('and the doubt is said where %s (reliability 468)', async (_, status, text) => {
    const url = await answering((_, response) => response.writeHead(status).end(text));
    const { code, stderr } = await revoke(url);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/ It is unknown whether the change was made: .*\n$/)]);
    expect((await runAt(url, {}, 'keys', 'show', UNKNOWN_KEY)).stderr).not.toContain('unknown');
  });

  test('and breaks the encryption after the request leaves a doubt, which one that has no TLS does not (reliability 468)', async () => {
    const authority = await createAuthority(await temporaryFolder());
    const { cert, key } = await authority.issue('garbles');
    let raw: Socket | null = null;
    const inner = createTlsServer({ cert: await readFile(cert), key: await readFile(key) }, (socket) => {
      socket.on('error', () => {});
      // A record of TLS that no key opens.
      socket.once('data', () => raw!.write(Buffer.from([0x17, 3, 3, 0, 32, ...new Uint8Array(32)])));
    });
    const garbling = createTcpServer((socket) => {
      raw = socket.on('error', () => {});
      inner.emit('connection', socket);
    });
    const at = async (server: TcpServer) => {
      await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
      servers.push(server);
      return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    };
    globalAgent.options.ca = authority.pem;
    try {
      expect((await revoke(await at(garbling))).stderr).toMatch(/The answer broke off: TLS: .* It is unknown whether/);
    } finally {
      delete globalAgent.options.ca;
    }
    const url = await answering((_, response) => response.end());
    expect((await revoke(url.replace('http', 'https'))).stderr).toMatch(/cannot be reached: TLS: [a-z ]+\.\n$/);
    const closing = createTcpServer((socket) => socket.once('data', () => socket.destroy()));
    expect((await revoke(await at(closing))).stderr).toMatch(/cannot be reached: [^.]+\.\n$/);
  });

  test('and never ends a list, or answers with millions of values, holds no command (reliability 469)', async () => {
    const page = { keys: [], searched: 1, unreadable: [] };
    let cursor = 0;
    const circle = await answering((_, response) =>
      response.end(JSON.stringify({ ...page, cursor: `${++cursor % 3}` })),
    );
    expect((await runAt(circle, {}, 'keys', 'list')).stderr).toMatch(/It never ends the list\.\n$/);
    const many = `{"keys":[${'{},'.repeat(10_000_000)}{}],"searched":1,"unreadable":[],"cursor":null}`;
    const url = await answering((_, response) => response.end(many));
    expect((await runAt(url, {}, 'keys', 'list')).stderr).toMatch(/something that the admin API never answers/);
  });

  test.each([
    ['the name of a member', '{"\\u001b[2J":1}', 'meta.\\u{1b}[2J'],
    ['a text', '{"a":"x\\rdone\\u009b"}', 'a=x\\u{d}done\\u{9b}'],
    ['a text that is the token', `{"a":"${TOKEN}"}`, 'a=…'],
    ['the prototype of an object', '{"__proto__":{"toString":1}}', 'something that the admin API never answers'],
  ])('and puts what no terminal may have into %s shows it as text (reliability 470)', async (_, meta, shown) => {
    const { id } = await gateway.createKey('small', '--meta', 'a=b');
    const { text } = await ask(gateway, 'GET', `/admin/keys/${id}`);
    const url = await answering((_, response) => response.end(text.replace('{"a":"b"}', meta)));
    const { stdout, stderr } = await runAt(url, {}, 'keys', 'show', id);
    expect(stdout + stderr).toContain(shown);
    expect(stdout + stderr).not.toMatch(/(?!\n)\p{Cc}|defect/u);
  });

  test('closes the connection, and the doubt is said', async () => {
    const server = createTcpServer((socket) => socket.once('data', () => socket.destroy()));
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    servers.push(server);
    const { stderr } = await revoke(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect(stderr).toMatch(/The answer broke off: .* It is unknown whether the change was made/);
  });
});
