import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, parseDocument } from 'yaml';
import { blocksOf, PAGES } from '../../support/guides.ts';
import { ROOT, startProcess, startTollgate, TOLLGATE_IN_SHELL, temporaryFolder } from '../../support/processes.ts';
import { testRedis } from '../../support/redis.ts';
import { ROOM } from '../../support/room.ts';

// The commands that the pages tell the reader to type are typed here, as they stand there: each block in one shell, in a
// folder like a clone, before one gateway that runs. A block that a page gains runs by itself, or fails until it is listed.

/** Commands that do not run here, by how they begin, each with the reason. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'npm ci && npm start': 'test/docs/guides.test.ts starts it and compares what it prints',
  'npm ci && npm test': 'is what runs the tests',
  'npm ci': 'is what every run of the tests begins with',
  'npm run build:package': 'test/system/package/package.test.ts builds, packs, installs and starts the package',
  'npm pack': 'packs a built package: test/system/package/package.test.ts',
  'npm init -y': 'makes the project of a reader: test/system/package/package.test.ts',
  'npm pkg set': 'changes the project of a reader: test/system/package/package.test.ts',
  'npm install': 'needs the tarball of a built package: test/system/package/package.test.ts',
  'npx tollgate': 'needs an installed package: test/system/package/package.test.ts',
  'npm run build:binary': 'takes a minute: test/system/package/binary.test.ts',
  'npm run build:release': 'takes minutes: test/system/package/release.test.ts',
  'git clone /path': 'needs a release: test/system/package/release.test.ts',
  'cd again': 'belongs to it',
  'git checkout COMMIT': 'belongs to it',
  'diff -r /tmp/release': 'compares two releases: test/system/package/release.test.ts',
  'cd /tmp/mine': 'needs a release: test/system/package/release.test.ts',
  sha256sum: 'needs a release, or the packages of a clone: test/system/package/release.test.ts',
  "jq -r '.metadata.component": 'needs a release: test/system/package/release.test.ts',
  "jq -r '.components[]": 'needs a release: test/system/package/release.test.ts',
  "jq -r '.packages": 'needs package-lock.json, which the folder of the test has not',
  'openssl dgst -sha512': 'needs a package of the registry',
  'tar -xOf': 'needs a package of the registry',
  'dist/tollgate': 'needs the executable: test/system/package/binary.test.ts',
  'tollgate keys create --plan basic': 'needs the plans that the first step has made: test/cli/init.test.ts',
  "curl -i -H 'Authorization: Bearer KEY'": 'needs the service of the reader',
  'curl -i --cacert tls.crt': 'needs a gateway with TLS: test/docs/listener.test.ts',
  'tollgate usage export --from 24h --step hour --format cloudevents': 'needs jq: test/cli/usage-formats.test.ts',
  'curl "$OPENMETER_URL': 'needs a metering service',
  'aws ': 'needs an account: test/docs/deploy-files.test.ts reads the files',
  'gcloud ': 'needs an account: test/docs/deploy-files.test.ts reads the files',
  'fly ': 'needs an account: test/docs/deploy-files.test.ts reads the files',
  'docker ': 'needs a container engine: tools/compose/smoke.ts, in .ci/run',
  "curl -i -H 'Authorization: Bearer tg_live_…' http://127.0.0.1:8080/v1/pets":
    'asks the compose setup: tools/compose/smoke.ts',
  'kubectl ': 'needs a cluster: test/config reads the manifests',
  'curl -si http://127.0.0.1:8080/v1/catalogue': 'needs the routes of its page: test/gateway/cache.test.ts',
  'npm run load': 'puts load on the machine: test/system/tools/load.test.ts',
  'npm run chaos': 'puts load on the machine: test/system/tools/chaos.test.ts',
  'npm run bench': 'measures the machine: test/tools/bench',
  'source <(tollgate completion zsh)': 'needs zsh: test/cli has its text',
  'tollgate completion fish': 'needs fish: test/cli has its text',
  "curl -s 'localhost:8001/key-auths": 'asks Kong',
  'curl -s localhost:9180/apisix': 'asks APISIX',
  "redis-cli --scan --pattern 'apikey-*'": 'reads the Redis of Tyk',
  'tollgate plans show 0d97': 'needs that version: test/system/admin/plans-history.test.ts',
  'tollgate plans rollback': 'needs an earlier version: test/system/admin/plans-history.test.ts',
  'redis-cli ACL SETUSER': 'changes the users of a Redis: test/support/redis.ts sets config/redis.acl for every test',
};

/** Commands that end only when they are stopped, and what they print when they work. */
const ENDLESS: readonly (readonly [command: RegExp, works: RegExp])[] = [
  [/^curl -N /, /^event: /m],
  [/tollgate serve$/, /"msg":"serving"/],
];

const ADMIN_TOKEN = 'admin-token-of-the-documents';
const KEY_PEPPER = 'a-pepper-of-the-documents';

let clone: string;
let origin: string;
let admin: string;
let env: Record<string, string>;

const BLOCKS = PAGES.flatMap((page) =>
  blocksOf(page)
    .filter(({ language }) => ['sh', 'console'].includes(language))
    .map(({ language, text }) => {
      const whole = commandsOf(text.trimEnd().split('\n'));
      if (language === 'sh') return { page, commands: whole, shown: null };
      const typed = whole.filter((line) => line.startsWith('$ ')).map((line) => line.slice(2));
      return { page, commands: typed, shown: whole.find((line) => !line.startsWith('$ ')) ?? null };
    }),
).map((block) => ({ ...block, runs: block.commands.filter((command) => reasonFor(command) === undefined) }));

/** Lines of a shell as whole commands: those with an open quote, a pipe or a backslash at the end go on in the next line. */
function commandsOf(lines: readonly string[]): string[] {
  const commands: string[] = [];
  let open = '';
  for (const line of lines) {
    open = open === '' ? line : `${open}\n${line}`;
    const quotes = open.replaceAll(/\\'|"[^"]*"/g, '').split("'").length - 1;
    if (quotes % 2 === 1 || /[\\|]$/.test(open)) continue;
    commands.push(open);
    open = '';
  }
  return open === '' ? commands : [...commands, open];
}

function reasonFor(command: string): string | undefined {
  return Object.keys(NOT_RUN).find((beginning) => command.startsWith(beginning));
}

beforeAll(async () => {
  clone = await temporaryFolder();
  for (const name of ['bin', 'src', 'node_modules', 'package.json', 'examples'])
    symlinkSync(join(ROOT, name), join(clone, name));
  for (const name of ['config', 'plans.yaml']) cpSync(join(ROOT, name), join(clone, name), { recursive: true });
  const formats = blocksOf('docs/guides/migrate.md').find(({ text }) => text.includes('formats:'))!;
  appendFileSync(join(clone, 'config/gateway.yaml'), `\n${formats.text}`);
  // A route that charges the unit of these plans.
  const file = parseDocument(readFileSync(join(clone, 'config/gateway.yaml'), 'utf8'));
  const chat = { path: '/v1/chat', methods: ['POST'], upstream: 'store', cost: { tokens: 1 } };
  file.addIn(['routes'], file.createNode(chat));
  writeFileSync(join(clone, 'config/gateway.yaml'), String(file));
  // The plans of the guide about units, for its commands.
  const units = blocksOf('docs/guides/language-models.md').find(({ text }) => text.startsWith('# plans.yaml'))!;
  const plans = parseDocument(readFileSync(join(clone, 'plans.yaml'), 'utf8'));
  for (const [name, plan] of Object.entries(parse(units.text).plans as object)) plans.setIn(['plans', name], plan);
  writeFileSync(join(clone, 'plans.yaml'), String(plans));
  const git = (...words: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...words], { cwd: clone });
  git('init', '-q', '-b', 'main');
  git('add', 'plans.yaml');
  git('commit', '-q', '-m', 'plans');
  const programs = join(clone, '.programs');
  mkdirSync(programs);
  const tollgate = `#!/bin/sh\nexec ${TOLLGATE_IN_SHELL} "$@"\n`;
  writeFileSync(join(programs, 'tollgate'), tollgate, { mode: 0o755 });
  // curl fails when the answer is an error, and prints no progress.
  writeFileSync(join(clone, '.curlrc'), 'fail-with-body\nsilent\nshow-error\n');

  const settings = { PORT: '0', ADMIN_PORT: '0', KEY_PEPPER, TOLLGATE_DATA: join(clone, 'data') };
  const running = await startTollgate(['start'], { cwd: clone, env: { ...settings, PETS_PORT: '0', ADMIN_TOKEN } });
  origin = (await running.until(/^Tollgate {3}(\S+)$/m))[1]!;
  admin = (await running.until(/^admin {6}(\S+) /m))[1]!;
  const [, pets] = await running.until(/^pets {7}(\S+) /m);
  env = {
    ...settings,
    ...{ ADMIN_TOKEN, CURL_HOME: clone, UPSTREAM_URL: pets!, PATH: `${programs}:${process.env.PATH}` },
  };

  // What the pages suppose to be there: a refusal, the log of it, and files.
  const { key } = await createKey({ limits: { minute: 1 } });
  expect([await call(key, 'case-77'), await call(key, 'case-77')]).toEqual([200, 429]);
  const isLogged = (output: string) => /"requestId":"case-77".*"status":429/.test(output);
  await running.until(isLogged);
  const log = running.stdout.split('\n').filter((line) => line.startsWith('{'));
  writeFileSync(join(clone, 'access.ndjson.gz'), gzipSync(log.join('\n')));
  writeFileSync(join(clone, 'secret.json'), JSON.stringify({ secret: key }));
  writeFileSync(join(clone, 'keys.csv'), 'key,plan,owner\nOf0Kong1Of0Kong2Of0Kong3Of0Kong4,pro,acme\n');
  const keysFile = blocksOf('docs/guides/keys.md').find(({ text }) => text.startsWith('# keys.yaml'))!;
  writeFileSync(join(clone, 'keys.yaml'), keysFile.text);
  writeFileSync(join(clone, 'passphrase'), 'a passphrase of the documents\n');
}, 60_000 * ROOM);

function createKey(settings: object = {}): Promise<{ id: string; key: string }> {
  return make('keys', { plan: 'pro', ...settings });
}

async function make(what: 'keys' | 'customers', body: object): Promise<{ id: string; key: string }> {
  const response = await fetch(`${admin}/admin/${what}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(201);
  return (await response.json()) as { id: string; key: string };
}

/** @returns the status of the answer */
async function call(key: string, requestId = 'any'): Promise<number> {
  const headers = { Authorization: `Bearer ${key}`, 'X-Request-Id': requestId };
  const response = await fetch(`${origin}/v1/pets`, { headers });
  await response.arrayBuffer();
  return response.status;
}

describe('each block of commands works as it stands', () => {
  const blocks = BLOCKS.filter(({ runs }) => runs.length > 0).map((block) => ({ ...block, first: block.runs[0]! }));

  test.each(blocks)('$page: $first', async ({ runs, shown }) => {
    const { id, key } = await createKey({ limits: { minute: 1 } });
    // A ban can be lifted only from a key that has one.
    if (runs.some((command) => command.includes('bans lift'))) for (let i = 0; i < 12; i += 1) await call(key);
    const { id: customer } = runs.join().includes('CUSTOMER_ID')
      ? await make('customers', { plan: 'pro' })
      : { id: '' };
    const { url } = runs.some((command) => command.includes('redis://…')) ? await testRedis() : { url: '' };
    const script = runs
      .join('\n')
      .replaceAll('http://127.0.0.1:8080', origin)
      .replaceAll('http://127.0.0.1:9090', admin)
      .replaceAll(/\bKEY_ID\b|\bkey_UxYtRgTgI9u8kkw8\b/g, id)
      .replaceAll('CUSTOMER_ID', customer)
      .replaceAll('xY7z', key.slice(-4))
      .replaceAll('tg_live_…', key)
      .replaceAll('redis://…', url)
      .replaceAll('KEY_PEPPER=…', `KEY_PEPPER=${KEY_PEPPER}`)
      .replaceAll('/run/secrets/backup', join(clone, 'passphrase'));
    expect(script).not.toContain('…');
    // What a command asks for on standard input is a secret.
    writeFileSync(join(clone, 'secret.txt'), `${key}\n`);
    const works = ENDLESS.find(([command]) => command.test(runs.at(-1)!))?.[1];
    const own = works === undefined ? {} : { TOLLGATE_DATA: await temporaryFolder() };
    const words = ['-eo', 'pipefail', '-c', `exec <secret.txt\n${script}`];
    // It stands for the targets of one upstream, and what comes from Kong has several.
    const moved = script.includes('import kong') ? { UPSTREAM_URL: undefined } : {};
    const running = startProcess('bash', words, { cwd: clone, env: { ...env, ...own, ...moved } });
    if (works === undefined) {
      const { code } = await running.exit;
      expect({ code, stderr: running.stderr }).toEqual({ code: 0, stderr: expect.anything() });
    } else {
      // What shows refusals gets some.
      const refused = setInterval(() => void call('none'), 200);
      await running.until(works).finally(() => clearInterval(refused));
      await running.stop();
    }
    // What it prints begins as the page shows.
    const oneSpaced = (text: string) => text.replaceAll(/\s+/g, ' ');
    if (shown !== null) expect(oneSpaced(running.stdout)).toContain(oneSpaced(shown).slice(0, 8));
  });
});

test('the list of commands that do not run names none that the pages have lost', () => {
  const named = new Set(BLOCKS.flatMap(({ commands }) => commands.map(reasonFor)));
  expect(Object.keys(NOT_RUN).filter((beginning) => !named.has(beginning))).toEqual([]);
});
