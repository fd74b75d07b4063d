import { hash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, test } from 'vitest';
import { csvLine } from '../../../src/cli/keys/export.ts';
import { digestOf, mint } from '../../../src/identify/api-key.ts';
import { FURTHER_ATTRIBUTES } from '../../../src/model/attributes.ts';
import { idOfImported } from '../../../src/operations/create-once.ts';
import { readCsv } from '../../../src/operations/transfer/rows.ts';
import { withStore } from '../../../src/serve/open-store.ts';
import { someKey } from '../../identify/some-key.ts';
import { openGateway, openReplica } from '../../support/gateway.ts';
import { startProcess, TOLLGATE, TOLLGATE_IN_SHELL, temporaryFolder } from '../../support/processes.ts';
import { entriesOf, runCommand as run } from '../../support/run-command.ts';
import { startUpstream } from '../../support/upstream.ts';
import { STORES } from '../ledger-commands.ts';

const FORMATS = 'keys: { formats: [{ prefix: kong_, length: 37 }, { length: [32, 36], characters: base64url }] }';
const foreign = (n: number) => `kong_${String(n).padStart(32, 'a')}`;
const sha256 = (secret: string, encoding: 'hex' | 'base64' | 'base64url' = 'hex') => hash('sha256', secret, encoding);

/** The environment with a gateway.yaml that knows foreign formats. */
async function withFormats(env: NodeJS.ProcessEnv): Promise<NodeJS.ProcessEnv> {
  const file = join(await temporaryFolder(), 'gateway.yaml');
  const rest =
    'upstreams: { s: { targets: [http://127.0.0.1:9] } }\nroutes: [{ path: /v1, methods: [GET], upstream: s }]';
  await writeFile(file, `${FORMATS}\n${rest}\n`);
  return { ...env, TOLLGATE_CONFIG: file };
}

async function fileOf(text: string | Buffer, name = 'keys.csv'): Promise<string> {
  const file = join(await temporaryFolder(), name);
  await writeFile(file, text);
  return file;
}

describe.each(Object.keys(STORES))('keys import, on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await withFormats(await STORES[name]!());
  });
  const list = async () => entriesOf((await run(env, 'keys', 'list', '--json')).stdout);
  const report = async (text: string, ...words: string[]) => {
    const { stdout } = await run(env, 'keys', 'import', await fileOf(text), '--json', ...words);
    return JSON.parse(stdout);
  };

  test('takes in what the columns say, plain or as SHA-256', async () => {
    const file = await fileOf(
      [
        'plan,key,sha256,last4,name,owner,notes,limits,expires,created',
        `pro,${foreign(1)},,,One,Jo,"two\nlines, and ""quotes""",minute=500 day=unlimited month=9000,2099-01-01,2020-02-03T04:05:06Z`,
        `free,,${sha256(foreign(2))},wxyz,,,,,,`,
        `free,,${sha256(foreign(3), 'base64')},,,,,,90d,`,
        `free,${mint(randomBytes)},,,,,,,,`,
      ].join('\r\n'),
    );
    const { code, stdout, stderr } = await run(env, 'keys', 'import', file);
    expect([code, stdout, stderr]).toEqual([0, '4 imported, 0 there already, 0 refused.\n', '']);
    const keys = await list();
    const [one] = keys;
    expect(one).toMatchObject({
      plan: 'pro',
      name: 'One',
      owner: 'Jo',
      limits: { minute: 500, day: 'unlimited', month: 9000 },
      createdAt: '2020-02-03T04:05:06.000Z',
      expiresAt: '2099-01-01T00:00:00.000Z',
    });
    const shown = await run(env, 'keys', 'show', one.id, '--json');
    expect(JSON.parse(shown.stdout)).toMatchObject({ notes: 'two\nlines, and "quotes"', secrets: [{ last4: 'aaa1' }] });
    const ends = (await run(env, 'keys', 'list')).stdout.split('\n').map((line) => line.split('\t')[1]);
    expect(ends.slice(0, 5)).toEqual(expect.arrayContaining(['SECRET', '…aaa1', '…wxyz', 'known by its hash']));
  });

  test('takes in NDJSON, which it knows by its first character or its name', async () => {
    const lines = [
      { key: foreign(1), plan: 'pro', limits: { minute: 7, day: 'unlimited', week: 8, month: 9 }, name: null },
      { sha256: sha256(foreign(2), 'base64url'), plan: 'free' },
    ];
    const text = lines.map((line) => JSON.stringify(line)).join('\n');
    for (const file of ['keys.ndjson', 'keys']) {
      const { stdout } = await run(env, 'keys', 'import', await fileOf(text, file), '--json');
      expect(JSON.parse(stdout).refused).toBe(0);
    }
    expect(await list()).toHaveLength(2);
  });

  test('refuses each line that cannot be, says where and why, never shows a secret, and takes in the others', async () => {
    const good = foreign(1);
    const secret = 'averyverysecretone';
    const file = await fileOf(
      [
        'key,sha256,plan,limits,expires,created',
        `${good},,pro,,,`,
        `${secret},,pro,,,`,
        `tg_live_${'a'.repeat(38)},,pro,,,`,
        `${foreign(2)},,gold,,,`,
        `${foreign(3)},,enterprise,minute=5,,`,
        `${foreign(4)},${sha256('x')},pro,,,`,
        ',,pro,,,',
        `,${secret},pro,,,`,
        `${foreign(5)},,pro,minute=x,,`,
        `${foreign(5)},,pro,minute=5 minute=6,,`,
        `${foreign(6)},,pro,,2020-01-01,`,
        `${foreign(6)},,pro,,soon,`,
        `${foreign(7)},,pro,,,2099-01-01`,
        `${foreign(8)},,pro`,
        `${foreign(9)},,,,,`,
        'k-bob-1,,pro,,,',
      ].join('\n'),
    );
    const { code, stdout, stderr } = await run(env, 'keys', 'import', file);
    expect([code, stdout]).toEqual([1, '1 imported, 0 there already, 15 refused.\n']);
    const lines = stderr.trimEnd().split('\n');
    expect(lines.map((line) => Number(line.slice(file.length + 1).split(':')[0]))).toEqual(
      Array.from({ length: 15 }, (_, i) => i + 3),
    );
    for (const [i, why] of [
      /keys\.formats/,
      /checksum/,
      /no plan 'gold'/,
      /none for: day/,
      /both given/,
      /key or sha256 is missing/,
      /sha256 must be/,
      /limits must be/,
      /limits must be/,
      /already passed/,
      /expires must be/,
      /created is in the future/,
      /3 cells, and the header 6/,
      /plan is missing/,
      /key has 7 characters\. A key that is imported has 8 to 512: create a new one for its holder\./,
    ].entries()) {
      expect(lines[i]).toMatch(why);
    }
    expect(stderr).not.toContain(secret);
    expect(stderr).not.toContain(foreign(2));
    expect(await list()).toHaveLength(1);
  });

  test('warns of each digest that no format covers, and takes it in', async () => {
    const lines = [`${sha256('a')},`, `${sha256('b')},wx_z`, `${sha256('c')},wx+z`].map((line) => `${line},free`);
    const text = `sha256,last4,plan\n${lines.join('\n')}\n`;
    const warning = expect.stringMatching(/^no format of keys\.formats in gateway\.yaml covers it: .* 401\.$/);
    const warned = (...numbers: number[]) =>
      numbers.map((line) => ({ line, kind: 'moved', id: expect.any(String), why: warning }));
    expect(await report(text, '--dry-run')).toMatchObject({ moved: 3, refused: 0, lines: warned(4) });
    const { TOLLGATE_CONFIG: _, ...plain } = env;
    const { code, stderr } = await run(plain, 'keys', 'import', await fileOf(text));
    expect(code).toBe(0);
    expect(stderr.match(/keys\.csv:[234]: no format of keys\.formats/g)).toHaveLength(3);
  });

  test('makes nothing twice: a second run, and a line that comes twice, find what is there', async () => {
    const text = `key,plan\n${foreign(1)},pro\n${foreign(2)},pro\n${foreign(1)},free\n`;
    expect(await report(text, '--dry-run')).toMatchObject({ moved: 2, already: 1, refused: 0, dryRun: true });
    expect(await list()).toEqual([]);
    expect(await report(text)).toMatchObject({ moved: 2, already: 1, refused: 0, dryRun: false });
    const keys = await list();
    expect(keys).toHaveLength(2);
    expect(await report(text)).toMatchObject({ moved: 0, already: 3 });
    // By its hash it is the same key.
    expect(await report(`sha256,plan\n${sha256(foreign(1))},pro\n`)).toMatchObject({ moved: 0, already: 1, lines: [] });
    expect(await list()).toEqual(keys);
  });

  test('leaves a key alone that has become another since, and says so', async () => {
    const text = `key,plan,name\n${foreign(1)},pro,n\n`;
    await report(text);
    const [{ id }] = await list();
    const why = async () => (await report(text)).lines.map((line: { why: string }) => line.why);
    await run(env, 'keys', 'update', id, '--plan', 'free', '--name', 'm');
    expect(await why()).toEqual(['is there already, with another plan, name; left as it is.']);
    await run(env, 'keys', 'rotate', id, '--overlap', '0s');
    expect(await why()).toEqual([expect.stringContaining('with another secret since')]);
    await run(env, 'keys', 'revoke', id);
    expect(await why()).toEqual([expect.stringContaining('and revoked')]);
    expect(await list()).toEqual([]);
  });

  test('finds what was moved under the pepper before', async () => {
    const text = `key,plan\n${foreign(1)},pro\n`;
    const [old, fresh] = ['the old pepper of the tests', 'the new pepper of the tests'];
    const under = async (KEY_PEPPER: string) => {
      const { stdout } = await run({ ...env, KEY_PEPPER }, 'keys', 'import', await fileOf(text), '--json');
      return JSON.parse(stdout);
    };
    expect(await under(old)).toMatchObject({ moved: 1, already: 0 });
    expect(await under(`${fresh},${old}`)).toMatchObject({ moved: 0, already: 1 });
  });

  test('revives nothing that was revoked or rotated away, while the pepper is changed and after it (reliability 156)', async () => {
    const [old, fresh, later] = [
      'the old pepper of the tests',
      'the new pepper of the tests',
      'a later pepper of the tests',
    ];
    const under = (KEY_PEPPER: string, ...words: string[]) => run({ ...env, KEY_PEPPER }, ...words);
    const own = JSON.parse((await under(old, 'keys', 'create', '--plan', 'pro', '--json')).stdout);
    const file = await fileOf(`key,plan\n${[foreign(1), foreign(2), own.key].join(',pro\n')},pro\n`);
    await under(old, 'keys', 'import', file);
    const idOf = async (end: string) =>
      JSON.parse((await under(old, 'keys', 'export', '--json')).stdout.split('\n').find((line) => line.includes(end))!)
        .id;
    await under(old, 'keys', 'revoke', await idOf('aaa1'));
    await under(old, 'keys', 'rotate', await idOf('aaa2'), '--overlap', '0s');
    await under(old, 'keys', 'rotate', own.id, '--overlap', '0s');
    const there = (await under(old, 'keys', 'list', '--json')).stdout;
    for (const peppers of [old, `${old},${fresh}`, `${fresh},${old}`, fresh, `${later},${fresh}`, later]) {
      // Whether or not it was imported on the way.
      const words = peppers === fresh || peppers === later ? [] : ['--dry-run'];
      const { stdout } = await under(peppers, 'keys', 'import', file, '--json', ...words);
      expect([peppers, JSON.parse(stdout)]).toMatchObject([peppers, { moved: 0, already: 3, refused: 0 }]);
      // A step of the change is noted by what makes keys, and by gateways.
      await under(peppers, 'keys', 'import', await fileOf('key,plan\n'));
      expect((await under(peppers, 'keys', 'list', '--json')).stdout).toBe(there);
    }
  });

  test('brings a key back to life that was not used while the pepper was changed, and not as another key', async () => {
    const [old, fresh] = ['the old pepper of the tests', 'the new pepper of the tests'];
    const under = (KEY_PEPPER: string, ...words: string[]) => run({ ...env, KEY_PEPPER }, ...words);
    const file = await fileOf(`key,plan\n${foreign(1)},pro\n`);
    await under(old, 'keys', 'import', file);
    const there = (await under(old, 'keys', 'list', '--json')).stdout;
    await under(`${fresh},${old}`, 'keys', 'import', await fileOf('key,plan\n'));
    expect((await under(fresh, 'keys', 'import', file)).stdout).toContain('0 imported, 1 there already');
    expect((await under(fresh, 'keys', 'list', '--json')).stdout).toBe(there);
    await withStore({ ...env, KEY_PEPPER: fresh }, async ({ keys }) => {
      expect(await keys.findByDigest(digestOf(foreign(1), fresh))).not.toBeNull();
    });
  });

  test('knows what an earlier version has imported and rotated, by the id that hung on the pepper', async () => {
    const [old, fresh] = ['the old pepper of the tests', 'the new pepper of the tests'];
    const id = idOfImported(hash('sha256', foreign(1), 'buffer'), old);
    await withStore({ ...env, KEY_PEPPER: old }, ({ keys }) => keys.create(someKey({ id }, old).key));
    const file = await fileOf(`key,plan\n${foreign(1)},pro\n`);
    for (const KEY_PEPPER of [old, `${fresh},${old}`, fresh]) {
      const { stdout } = await run({ ...env, KEY_PEPPER }, 'keys', 'import', file, '--json');
      expect(JSON.parse(stdout)).toMatchObject({ moved: 0, already: 1, lines: [{ id }] });
    }
  });

  test('takes in thousands, and finds them all again', async () => {
    const rows = Array.from({ length: 3_000 }, (_, i) => `${sha256(foreign(i))},pro`);
    const text = `sha256,plan\n${rows.join('\n')}\n`;
    expect(await report(text)).toMatchObject({ moved: 3_000, already: 0, refused: 0 });
    expect(await report(text)).toMatchObject({ moved: 0, already: 3_000, refused: 0 });
    expect(await list()).toHaveLength(3_000);
  });

  test.each([
    ['an unknown column', 'key,colour\na,b\n', /:1: the header has a column "colour"/],
    ['a column that comes twice', 'key,key\na,b\n', /:1: the header has the column key twice/],
    [
      'a quote that is not closed',
      `key,plan\n${foreign(1)},pro\n"x,pro\n`,
      /:3: a quote that begins here is not closed/,
    ],
    [
      'a quote in a cell without quotes',
      `key,plan,name\n${foreign(1)},pro,6" pipe\n`,
      /:2: there is a quote in a cell that does not begin with one/,
    ],
    [
      'a quote behind empty lines and line breaks in a cell',
      `key,plan,notes\r\n\r\nx,pro,"a\r\n\r\nb"\r\n\r\n"z,pro\r\n`,
      /:7: a quote that begins here is not closed/,
    ],
    [
      'a record that does not end',
      `key,plan\n${foreign(1).repeat(2_000)}`,
      /:2: the record is longer than 65536 bytes\./,
    ],
    ['cells that do not end', `key,plan\n${','.repeat(200_000)}`, /:2: the record is longer than 65536 bytes\./],
    [
      'a record that lost a quote',
      `key,plan\n"${'y,pro\n'.repeat(20_000)}`,
      /:2: the record is longer than 65536 bytes, perhaps because a quote is not closed\./,
    ],
    ['text behind a quote', `key,plan\n${foreign(1)},"pro"x\n`, /:2: there is something between/],
  ])('stops at %s, and says from where on nothing was read', async (_, text, message) => {
    const { code, stderr } = await run(env, 'keys', 'import', await fileOf(text));
    expect(code).toBe(1);
    expect(stderr).toMatch(message);
    expect(stderr).toContain('Nothing from there on was read');
    expect(await list()).toHaveLength(text.startsWith('key,plan') && text.includes('\n"x') ? 1 : 0);
  });

  test.each([
    ['that has no header', (key: string) => `${key},pro\n`],
    ['whose header has a secret in it', (key: string) => `key,plan,${key}\na,pro,b\n`],
    ['whose lines end with CR alone', (key: string) => `key,plan\r${key},pro\r`],
    ['of objects that have the secret as a name', (key: string) => `{"${key}":"pro"}\n`],
  ])('shows no secret of a file %s', async (_, textWith) => {
    const file = await fileOf(textWith(foreign(1)), 'keys');
    for (const words of [[], ['--json']]) {
      const { code, stdout, stderr } = await run(env, 'keys', 'import', file, ...words);
      expect(code).toBe(1);
      expect(stdout + stderr).toMatch(/header|member that is not known/);
      expect(stdout + stderr).not.toContain(foreign(1));
    }
  });

  test('shows nothing of a file that a terminal would obey', async () => {
    const text = `{"key":"${foreign(1)}","plan":"\\u001b]0;x\\u0007\\u009b2J"}\n{"\\u009b2J":1}\n`;
    const { code, stderr } = await run(env, 'keys', 'import', await fileOf(text, 'keys.ndjson'));
    expect([code, stderr.split('\n')]).toEqual([
      1,
      [expect.stringContaining('\\u{1b}]0;x\\u{7}\\u{9b}2J'), expect.anything(), ''],
    ]);
    expect(stderr).not.toMatch(/(?!\n)\p{Cc}/u);
  });

  test.each(['[]', '[5]', '5', '{"minute":[5]}', '{"minute":null}', '{"__proto__":5}'])(
    'takes no limits such as %s',
    async (limits) => {
      const text = `{"key":"${foreign(1)}","plan":"pro","limits":${limits}}\n`;
      const { code, stderr } = await run(env, 'keys', 'import', await fileOf(text, 'keys.ndjson'));
      expect([code, stderr]).toEqual([1, expect.stringContaining('limits must be')]);
    },
  );

  test('says of a gzip file how to read it', async () => {
    const file = await fileOf(gzipSync(`key,plan\n${foreign(1)},pro\n`), 'keys.csv.gz');
    const { code, stderr } = await run(env, 'keys', 'import', file);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`gunzip -c ${file} | tollgate keys import -`)]);
  });

  test('stops at what is no UTF-8, and is refused for a file that is not there', async () => {
    const latin1 = Buffer.concat([Buffer.from(`key,plan\n${foreign(1)},pro\n`), Buffer.from([0xe9, 0x0a])]);
    const broken = await run(env, 'keys', 'import', await fileOf(latin1));
    expect([broken.code, broken.stderr]).toEqual([1, expect.stringContaining('is not UTF-8')]);
    const none = await run(env, 'keys', 'import', '/nowhere/keys.csv');
    expect([none.code, none.stderr]).toEqual([1, '/nowhere/keys.csv does not exist. Name another file.\n']);
    expect((await run(env, 'keys', 'import')).code).toBe(2);
    expect((await run(env, 'keys', 'import', 'x', '--format', 'xml')).code).toBe(2);
  });

  test('reads the file of a spreadsheet: with a byte order mark, and empty lines at its end', async () => {
    expect(await report(`\ufeff"key","plan"\r\n"${foreign(1)}","pro"\r\n\r\n""\r\n`)).toMatchObject({
      moved: 1,
      refused: 0,
    });
  });

  test('reads standard input', async () => {
    const words = [...TOLLGATE, 'keys', 'import', '-', '--json'];
    const running = startProcess('sh', ['-c', `printf 'key,plan\\n%s,pro\\n' "${foreign(1)}" | "$0" "$@"`, ...words], {
      env: env as Record<string, string>,
    });
    expect(await running.exit).toMatchObject({ code: 0 });
    expect(JSON.parse(running.stdout)).toMatchObject({ moved: 1 });
  });

  test('refuses an empty file, and an empty standard input after a command that has failed (reliability 481)', async () => {
    const file = await fileOf('');
    const empty = { code: 1, stdout: '', stderr: `${file} is empty: there is nothing to import.\n` };
    expect(await run(env, 'keys', 'import', file)).toEqual(empty);
    const running = startProcess('sh', ['-c', `false | ${TOLLGATE_IN_SHELL} keys import -`], {
      env: env as Record<string, string>,
    });
    expect(await running.exit).toMatchObject({ code: 1 });
    expect(running.stderr).toBe('standard input is empty: there is nothing to import.\n');
  });
});

describe.each(Object.keys(STORES))('a key that was moved here, on %s', (name) => {
  test('works with the secret that its holder has, on each gateway, and a made-up one of its format does not', async () => {
    const upstream = await startUpstream();
    const store = (await STORES[name]!()) as Record<string, string>;
    const gateway = await openGateway({ upstream: upstream.origin, more: FORMATS, env: store });
    const gateways = name === 'Redis' ? [gateway, await openReplica(gateway)] : [gateway];
    const uuid = '123e4567-e89b-12d3-a456-426614174000';
    const text = `key,sha256,plan\n${foreign(1)},,free\n,${sha256(uuid)},free\n`;
    const { code } = await run(gateway.env, 'keys', 'import', await fileOf(text));
    expect(code).toBe(0);
    for (const one of gateways) {
      for (const key of [foreign(1), uuid]) expect((await one.get('/v1/pets', key)).status).toBe(200);
      for (const key of [foreign(2), uuid.replace('1', '2'), 'kong_short', `tg_live_${'a'.repeat(28)}`]) {
        expect((await one.get('/v1/pets', key)).status).toBe(401);
      }
    }
    const [{ id }] = entriesOf((await gateway.command('keys', 'list', '--json')).stdout);
    const rotated = JSON.parse((await run(gateway.env, 'keys', 'rotate', id, '--json')).stdout);
    expect((await gateway.get('/v1/pets', rotated.key)).status).toBe(200);
  });
});

describe.each(Object.keys(STORES))('keys export, on %s', (name) => {
  // Attack: whoever may name a key names it so that the spreadsheet of an operator runs it.
  test('prints no cell that a spreadsheet takes for a formula, nor on a terminal a control character (reliability 369)', async () => {
    const env = await STORES[name]!();
    const names = ['=1+1', '+1', '-1', '@SUM(A1)', '=x, y', 'a=b', '\uff1d1'];
    for (const [i, name] of names.entries()) {
      const notes = i === 0 ? '\t=1' : '-';
      await run(env, 'keys', 'create', '--plan', 'free', `--name=${name}`, `--notes=${notes}`);
    }
    const { stdout } = await run(env, 'keys', 'export');
    const [, ...records] = await Array.fromAsync(readCsv(Readable.from([stdout])));
    const column = (index: number) => records.map(({ cells }) => cells[index]);
    expect(column(2)).toEqual(["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'=x, y", 'a=b', "'\uff1d1"]);
    expect(column(4)).toEqual(["'\t=1", "'-", "'-", "'-", "'-", "'-", "'-"]);
    expect(csvLine(['\x1b[2J\u202e', null], { isTerminal: true })).toBe('\\u{1b}[2J\\u{202e},\n');
    expect(csvLine(['\r=1', ''], { isTerminal: false })).toBe('"\'\r=1",\n');
  });

  test('prints every key without its secret, as CSV and as JSON, and what it prints can be read back', async () => {
    const env = await STORES[name]!();
    const create = async (...words: string[]) =>
      JSON.parse((await run(env, 'keys', 'create', '--json', ...words)).stdout);
    const one = await create(
      '--plan',
      'pro',
      '--name',
      'a "b", c',
      '--notes',
      'x\ny',
      '--limit',
      'day=7',
      '--limit',
      'minute=5',
    );
    const two = await create('--plan', 'free');
    await run(env, 'keys', 'revoke', two.id);
    const held = await create('--plan', 'free');
    await run(env, 'keys', 'suspend', held.id);
    const further = FURTHER_ATTRIBUTES.join(',');
    const header = `id,plan,name,owner,notes,limits,expires,created,revoked,last4,suspended,customer,${further}\n`;
    const none = FURTHER_ATTRIBUTES.map(() => ',').join('');
    const csv = await run(env, 'keys', 'export');
    const first = `${header}${one.id},pro,"a ""b"", c",,"x\ny",minute=5 day=7,,${one.createdAt},,${one.key.slice(-4)},,${none}\n`;
    expect(csv.stdout.startsWith(first)).toBe(true);
    expect(csv.stdout.slice(first.length)).toMatch(
      new RegExp(`^${held.id},free,,,,,,[^,]+,,....,\\d{4}-[-0-9T:.]+Z,${none}\n$`),
    );
    expect((await run(env, 'keys', 'export', '--csv')).stdout).toBe(csv.stdout);
    const lines = (await run(env, 'keys', 'export', '--json', '--all')).stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      {
        id: one.id,
        plan: 'pro',
        name: 'a "b", c',
        owner: null,
        notes: 'x\ny',
        limits: { minute: 5, day: 7 },
        expires: null,
        created: one.createdAt,
        revoked: null,
        last4: one.key.slice(-4),
        suspended: null,
        ...Object.fromEntries(FURTHER_ATTRIBUTES.map((name) => [name, null])),
        customer: null,
      },
      expect.objectContaining({ id: two.id, revoked: expect.any(String) }),
      expect.objectContaining({ id: held.id, revoked: null, suspended: expect.any(String) }),
    ]);
    for (const { key } of [one, two]) expect(csv.stdout + lines.join()).not.toContain(key.slice(8, -4));
    expect((await run(env, 'keys', 'export', '--csv', '--json')).code).toBe(2);
  });
});
