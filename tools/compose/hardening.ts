import assert from 'node:assert/strict';
import type { Container } from './composition.ts';
import type { Stage } from './stage.ts';

/** What is in the image's folder, and nothing else is. */
const IN_THE_IMAGE = ['LICENSE', 'THIRD-PARTY-NOTICES', 'bin', 'package.json', 'sbom.cdx.json', 'src'];

export async function imageHoldsWhatRuns({ composition }: Stage, image: string): Promise<void> {
  const list = (folder: string) =>
    composition.docker('run', '--rm', '--network', 'none', '--entrypoint', 'ls', image, '-A', folder);
  assert.deepEqual((await list('/app')).trim().split('\n').sort(), IN_THE_IMAGE.sort());
  const cache = ['/usr/local/lib/tollgate-cache', '!', '-readable'];
  const unread = await composition.docker('run', '--rm', '--network', 'none', '--entrypoint', 'find', image, ...cache);
  assert.equal(unread, '', 'the gateway cannot read its compiled code');
  const help = await composition.docker('run', '--rm', '--network', 'none', image, 'keys', '--help');
  assert.match(help, /keys create/);
  const [{ Config }] = JSON.parse(await composition.docker('image', 'inspect', image)) as [{ Config: ImageConfig }];
  assert.equal(Config.User, '1000:1000');
  assert.equal(Config.Labels['org.opencontainers.image.title'], 'Tollgate');
  assert.ok(Config.Healthcheck?.Test.length, 'the image has no HEALTHCHECK');
}

interface ImageConfig {
  readonly User: string;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Healthcheck?: { readonly Test: readonly string[] };
}

/** The containers that go on running; the one that makes the secrets ends before the others begin. */
async function lasting({ composition }: Stage): Promise<ReadonlyMap<string, Container>> {
  const containers = new Map(await composition.containers());
  containers.delete('secrets');
  return containers;
}

export async function nobodyIsRoot(stage: Stage, exempt: readonly string[]): Promise<void> {
  for (const [service] of await lasting(stage)) {
    if (exempt.includes(service)) continue;
    const uid = await stage.composition.exec(service, 'id', '-u');
    assert.notEqual(uid.trim(), '0', `${service} runs as root`);
  }
}

export async function rootsAreReadOnly(stage: Stage): Promise<void> {
  for (const [service, { HostConfig }] of await lasting(stage)) {
    assert.equal(HostConfig.ReadonlyRootfs, true, `${service} may write to its root filesystem`);
    assert.deepEqual(HostConfig.CapDrop, ['ALL'], `${service} has capabilities`);
    assert.match(String(HostConfig.SecurityOpt), /no-new-privileges/, `${service} may gain privileges`);
    await assert.rejects(stage.composition.exec(service, 'touch', '/written'), /Read-only file system/);
  }
}

export async function everythingHasALimit(stage: Stage): Promise<void> {
  for (const [service, { HostConfig, State }] of await lasting(stage)) {
    assert.ok(HostConfig.Memory > 0, `${service} has no limit of memory`);
    assert.ok(HostConfig.NanoCpus > 0, `${service} has no limit of processor time`);
    assert.equal(State.Health?.Status, 'healthy', `${service} is not healthy`);
  }
}

export async function nothingIsPublishedBeyondLoopback(stage: Stage): Promise<void> {
  const published: string[] = [];
  for (const [service, { HostConfig }] of await lasting(stage)) {
    for (const bindings of Object.values(HostConfig.PortBindings ?? {})) {
      for (const { HostIp } of bindings) {
        assert.equal(HostIp, '127.0.0.1', `${service} is published on ${HostIp}`);
        published.push(service);
      }
    }
  }
  assert.deepEqual(published.sort(), ['haproxy', 'prometheus']);
}

const SECRETS = ['key-pepper', 'admin-token', 'redis-password', 'redis-operator-password', 'grafana-password'];

/** A secret in an environment or an argument is in every `inspect`, in process lists and in crash dumps. */
export async function secretsAreInFilesAlone({ composition }: Stage, image: string): Promise<void> {
  const containers = await composition.containers();
  const from = `${containers.get('gateway-1')?.Id}:ro`;
  const read = ['run', '--rm', '--user', '0:0', '--network', 'none', '--volumes-from', from, '--entrypoint'];
  const values = await Promise.all(
    SECRETS.map((name) => composition.docker(...read, 'cat', image, `/run/tollgate/${name}`)),
  );
  const everything = await Promise.all([
    composition.docker('inspect', ...[...containers.values()].map((it) => it.Id)),
    composition.docker('image', 'inspect', image),
    composition.docker('history', '--no-trunc', image),
    composition.compose('logs', '--no-color'),
  ]);
  for (const [i, value] of values.entries()) {
    assert.match(value.trim(), /^[0-9a-f]{64}$/, `${SECRETS[i]} is not 32 random bytes`);
    assert.ok(!everything.some((text) => text.includes(value.trim())), `${SECRETS[i]} stands where others read it`);
  }
  assert.equal(new Set(values).size, SECRETS.length);
  const modes = await composition.docker(
    ...read,
    'stat',
    image,
    '-c',
    '%a',
    ...SECRETS.map((it) => `/run/tollgate/${it}`),
  );
  assert.deepEqual(new Set(modes.trim().split('\n')), new Set(['400']));
}

/** Without TLS nothing is answered, without a name nothing is allowed, and the gateways' user cannot empty the server. */
export async function redisTrustsNobody({ composition }: Stage): Promise<void> {
  const tls = '--tls --cacert /run/tollgate/redis-cert.pem';
  const as = (user: string, file: string) =>
    `REDISCLI_AUTH=$(cat /run/tollgate/${file}) redis-cli --user ${user} ${tls}`;
  const questions: readonly (readonly [command: string, answer: RegExp])[] = [
    ['redis-cli ping', /closed|reset|protocol error/i],
    [`redis-cli ${tls} ping`, /NOAUTH/],
    [`${as('tollgate', 'redis-password')} ping`, /^PONG$/],
    [`${as('tollgate', 'redis-password')} flushall`, /NOPERM/],
    [`${as('operator', 'redis-operator-password')} acl whoami`, /^operator$/],
  ];
  // One `exec` for all: each takes seconds.
  const script = questions.map(([command]) => `${command} 2>&1 | tr '\\n' ' '; echo; echo --`).join('; ');
  const answers = (await composition.exec('redis', 'sh', '-c', script)).split('--\n').map((text) => text.trim());
  for (const [i, [command, expected]] of questions.entries()) assert.match(answers[i] ?? '', expected, command);
}
