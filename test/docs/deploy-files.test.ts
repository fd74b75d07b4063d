import { globSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, parseDocument } from 'yaml';
import { readEnvironment, type Variables } from '../../src/config/environment.ts';
import { durationMs } from '../../src/config/setting-values.ts';
import { filesOf } from '../../src/config/settings.ts';
import { ClientAddresses } from '../../src/listen/client-address.ts';
import { eventually } from '../support/conditions.ts';
import { freePort } from '../support/free-port.ts';
import { blocksOf, textOf } from '../support/guides.ts';
import { ROOT, startTollgate, temporaryFolder } from '../support/processes.ts';

const PAGE = 'docs/operate/running.md';
const [PUBLIC_PORT, ADMIN_PORT] = [8080, 9090];
/** Cloud Run kills an instance so long after SIGTERM, and has no setting for it. */
const CLOUD_RUN_GRACE_MS = 10_000;
/** Fargate waits no longer than that after SIGTERM. */
const FARGATE_MOST_GRACE_S = 120;
/** Fly waits no longer than that after kill_signal. */
const FLY_MOST_GRACE_S = 300;
/** An Application Load Balancer closes an idle connection after that, unless set otherwise. */
const BALANCER_IDLE_MS = 60_000;
/** MiB that Fargate has for a number of CPU units. */
const FARGATE_MEMORY: Readonly<Record<string, readonly string[]>> = {
  512: ['1024', '2048', '3072', '4096'],
  1024: ['2048', '3072', '4096', '5120', '6144', '7168', '8192'],
};

type Value = string | number | boolean | readonly string[];

/** A table of fly.toml: values, tables, and lists of tables. */
interface Table {
  [name: string]: Value | Table | Table[];
}

// biome-ignore lint/suspicious/noExplicitAny: the shapes of the files are what the tests below are about
const json = (file: string): any => JSON.parse(textOf(`config/deploy/${file}`));

const task = json('ecs/task-definition.json');
const service = json('ecs/service.json');
const cloudRun = cloudRunOf(textOf('config/deploy/cloud-run/service.yaml'));
const fly = readToml(textOf('config/deploy/fly/fly.toml'));
const unit = textOf('config/systemd/tollgate.service');
const [gateway] = task.containerDefinitions;
const revision = cloudRun.spec.template;
const [instance] = revision.spec.containers;

// biome-ignore lint/suspicious/noExplicitAny: as above
function cloudRunOf(text: string): any {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw document.errors[0];
  return document.toJS();
}

/** `listen` of the settings that the page gives for a platform, with the defaults for what it leaves out. */
function listenOf(heading: string): Record<string, string> {
  const [, section] = textOf(PAGE).split(`\n## ${heading}\n`);
  const block = /^```yaml\n([\s\S]*?)^```$/m.exec(section!.split('\n## ')[0]!);
  const { listen } = parse(textOf('config/gateway.yaml')) as { listen: Record<string, string> };
  // The default behind a proxy, the longer one.
  return {
    drainDelay: '2s',
    ...listen,
    ...(block === null ? {} : (parse(block[1]!) as { listen: Record<string, string> }).listen),
  };
}

/** How long a gateway takes to stop, at most. */
function drainMs({ drainDelay, drainTimeout }: Record<string, string>): number {
  return durationMs(drainDelay!) + durationMs(drainTimeout!);
}

/** Every variable that a gateway asks its environment for. */
function variablesRead(): ReadonlySet<string> {
  const names = new Set<string>();
  const env: Variables = new Proxy({}, { get: (_, name) => void names.add(String(name)) });
  expect(readEnvironment(env)).not.toHaveProperty('faults');
  filesOf(env);
  return names;
}

/** The variables that each file sets, and those of them that come from a store of secrets. */
const NAMED: Readonly<Record<string, { readonly all: readonly string[]; readonly secret: readonly string[] }>> = {
  'ecs/task-definition.json': {
    all: [...gateway.environment, ...gateway.secrets].map(({ name }) => name),
    secret: gateway.secrets.map(({ name }: { name: string }) => name),
  },
  'cloud-run/service.yaml': {
    all: instance.env.map(({ name }: { name: string }) => name),
    secret: instance.env.flatMap(({ name, valueFrom }: { name: string; valueFrom?: { secretKeyRef?: object } }) =>
      valueFrom?.secretKeyRef === undefined ? [] : [name],
    ),
  },
  'fly/fly.toml': {
    all: [...Object.keys(fly.env as Table), ...secretsOfFly()],
    secret: secretsOfFly(),
  },
};

/** What the comment at the top of fly.toml tells the reader to set as secrets. */
function secretsOfFly(): string[] {
  const [, words] = /^# {3}fly secrets set --stage (.*)$/m.exec(textOf('config/deploy/fly/fly.toml'))!;
  return words!.split(' ').map((word) => word.split('=')[0]!);
}

test('the page names each file, and says that none of them has run', () => {
  const files = globSync('config/deploy/**/*.*', { cwd: ROOT }).sort();
  expect(files).toEqual([
    'config/deploy/cloud-run/service.yaml',
    'config/deploy/ecs/service.json',
    'config/deploy/ecs/task-definition.json',
    'config/deploy/fly/fly.toml',
  ]);
  for (const file of [...files, 'config/systemd/tollgate.service', 'config/kubernetes'])
    expect(textOf(PAGE)).toContain(`\`${file}\``);
  expect(textOf(PAGE)).toContain('have not been run on these platforms');
});

describe('the variables', () => {
  test.each(Object.entries(NAMED))('of %s are ones that a gateway reads, each set once', (_, { all }) => {
    expect(all.filter((name) => !variablesRead().has(name))).toEqual([]);
    expect(new Set(all).size).toBe(all.length);
  });

  test.each(Object.entries(NAMED))('of %s that are secret come from the store of secrets', (_, { all, secret }) => {
    expect(secret).toEqual(['REDIS_URL', 'KEY_PEPPER', 'ADMIN_TOKEN']);
    const open = all.filter((name) => !secret.includes(name));
    expect(open.filter((name) => /URL|PEPPER|TOKEN/.test(name))).toEqual([]);
  });

  test('of the service of systemd are ones that a gateway reads', () => {
    const named = [...unit.matchAll(/^Environment=(\w+)=/gm)].map(([, name]) => name!);
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((name) => !variablesRead().has(name))).toEqual([]);
  });

  test('of the page are ones that a gateway or Node.js reads', () => {
    const named = [...textOf(PAGE).matchAll(/`([A-Z][A-Z_]*_[A-Z_]+)`/g)].map(([, name]) => name!);
    expect(named).toContain('REDIS_URL_FILE');
    expect(named.filter((name) => !variablesRead().has(name) && name !== 'NODE_EXTRA_CA_CERTS')).toEqual([]);
  });
});

describe('a gateway has the time to drain', () => {
  test('on ECS, after the load balancer has noticed', () => {
    const listen = listenOf('ECS on Fargate');
    expect(gateway.stopTimeout * 1000).toBeGreaterThan(drainMs(listen));
    expect(gateway.stopTimeout).toBeLessThanOrEqual(FARGATE_MOST_GRACE_S);
    const noticedS = optionOfPage('health-check-interval-seconds') * optionOfPage('unhealthy-threshold-count');
    expect(durationMs(listen.drainDelay!)).toBeGreaterThan(noticedS * 1000);
    const [, deregistrationS] = /deregistration_delay\.timeout_seconds,Value=(\d+)/.exec(textOf(PAGE))!;
    expect(Number(deregistrationS) * 1000).toBeGreaterThanOrEqual(durationMs(listen.drainTimeout!));
    expect(durationMs(listen.idleTimeout!)).toBeGreaterThan(BALANCER_IDLE_MS);
  });

  test('on Cloud Run', () => {
    expect(CLOUD_RUN_GRACE_MS).toBeGreaterThan(drainMs(listenOf('Cloud Run')));
  });

  test('on Fly, which sends the signal that drains', () => {
    expect(fly.kill_signal).toBe('SIGTERM');
    expect(Number(fly.kill_timeout) * 1000).toBeGreaterThan(drainMs(listenOf('Fly.io')));
    expect(fly.kill_timeout).toBeLessThanOrEqual(FLY_MOST_GRACE_S);
  });

  test('under systemd', () => {
    const [, seconds] = /^TimeoutStopSec=(\d+)s$/m.exec(unit)!;
    expect(Number(seconds) * 1000).toBeGreaterThan(drainMs(listenOf('systemd')));
  });
});

describe('the client is the one that the load balancer names, whatever the client sends', () => {
  test.each([
    ['ECS on Fargate', '10.0.1.7', '198.51.100.1, 192.0.2.1'],
    ['Cloud Run', '169.254.169.126', '198.51.100.1, 192.0.2.1'],
    ['Fly.io', '172.16.3.2', '198.51.100.1, 192.0.2.1, 203.0.113.10'],
    ['Fly.io', '172.16.3.2', '198.51.100.1, 192.0.2.1, 2001:db8::10'],
  ])('on %s, by a connection from %s with %s', (heading, remoteAddress, forwarded) => {
    const { trustedProxies } = listenOf(heading) as unknown as { trustedProxies: string[] };
    const request = { socket: { remoteAddress }, rawHeaders: ['X-Forwarded-For', forwarded] } as never;
    expect(new ClientAddresses(trustedProxies).of(request).address).toBe('192.0.2.1');
  });
});

describe('the public port is published, and the admin port is not', () => {
  test('on ECS', () => {
    expect(gateway.portMappings.map(({ containerPort }: { containerPort: number }) => containerPort)).toEqual([
      PUBLIC_PORT,
    ]);
    expect(service.loadBalancers).toEqual([
      expect.objectContaining({ containerName: gateway.name, containerPort: PUBLIC_PORT }),
    ]);
    expect(service.networkConfiguration.awsvpcConfiguration.assignPublicIp).toBe('DISABLED');
    expect(optionOfPage('port')).toBe(PUBLIC_PORT);
  });

  test('on Cloud Run', () => {
    expect(instance.ports).toEqual([{ name: 'http1', containerPort: PUBLIC_PORT }]);
    expect(revision.spec.containers).toHaveLength(1);
  });

  test('on Fly', () => {
    const services = fly.services as Table[];
    expect(services.map(({ internal_port }) => internal_port)).toEqual([PUBLIC_PORT]);
    expect(fly).not.toHaveProperty('http_service');
    expect((services[0]!.ports as Table[]).map(({ port }) => port)).toEqual([80, 443]);
  });
});

describe('health', () => {
  const asked: Readonly<Record<string, { path: string; port: number }>> = {
    'the container of ECS': { path: gateway.healthCheck.command[3], port: Number(gateway.healthCheck.command[2]) },
    'the target group of ECS': { path: optionTextOfPage('health-check-path'), port: optionOfPage('health-check-port') },
    'the startup probe of Cloud Run': instance.startupProbe.httpGet,
    'the liveness probe of Cloud Run': instance.livenessProbe.httpGet,
    'the check `ready` of Fly': (fly.checks as Table).ready as never,
    'the check `alive` of Fly': (fly.checks as Table).alive as never,
  };

  test('is asked of the admin port, under paths that a gateway answers', async () => {
    const [PORT, admin] = [await freePort(), await freePort()];
    const running = await startTollgate(['serve'], { env: { PORT: String(PORT), ADMIN_PORT: String(admin) } });
    await answered(`http://127.0.0.1:${admin}/readyz`);
    for (const [who, { path, port }] of Object.entries(asked)) {
      expect(port, who).toBe(ADMIN_PORT);
      expect((await fetch(`http://127.0.0.1:${admin}${path}`)).status, who).toBe(200);
    }
    await running.stop();
  });

  test('restarts by /livez and routes by /readyz', () => {
    expect(asked['the container of ECS']!.path).toBe('/livez');
    expect(asked['the liveness probe of Cloud Run']!.path).toBe('/livez');
    expect(asked['the target group of ECS']!.path).toBe('/readyz');
    expect(asked['the startup probe of Cloud Run']!.path).toBe('/readyz');
    expect(asked['the check `ready` of Fly']!.path).toBe('/readyz');
  });

  test('is asked in the container of ECS with a command that the image has', () => {
    expect(gateway.healthCheck.command.slice(0, 2)).toEqual(['CMD', 'healthy']);
    expect(textOf('Dockerfile')).toContain('/usr/local/bin/healthy');
  });

  test('is answered on the public port by the route that the page shows, and only to the networks that it names', async () => {
    const [PORT, admin] = [await freePort(), await freePort()];
    const piece = blocksOf(PAGE).find(({ text }) => text.includes('path: /readyz'))!.text;
    const local = piece.replaceAll('172.16.0.0/12', '127.0.0.0/8').replace(':9090', `:${admin}`);
    const file = join(await temporaryFolder(), 'gateway.yaml');
    writeFileSync(file, local);
    const env = { PORT: String(PORT), ADMIN_PORT: String(admin), TOLLGATE_CONFIG: file };
    const running = await startTollgate(['serve'], { env });
    await answered(`http://127.0.0.1:${admin}/readyz`);
    const url = `http://127.0.0.1:${PORT}/readyz`;
    expect((await fetch(url)).status).toBe(200);
    expect((await fetch(url, { headers: { 'X-Forwarded-For': '192.0.2.1' } })).status).toBe(403);
    expect((await fetch(`http://127.0.0.1:${PORT}/metrics`)).status).toBe(401);
    await running.stop();
  });
});

describe('what the page promises of the files', () => {
  test('on ECS: no writable file system, no rights, two tasks, and a size that Fargate has', () => {
    expect(gateway).toMatchObject({
      user: '1000:1000',
      readonlyRootFilesystem: true,
      linuxParameters: { capabilities: { drop: ['ALL'] } },
      essential: true,
    });
    expect(service).toMatchObject({
      taskDefinition: task.family,
      enableExecuteCommand: false,
      deploymentConfiguration: { minimumHealthyPercent: 100, maximumPercent: 200 },
    });
    expect(service.desiredCount).toBeGreaterThanOrEqual(2);
    expect(FARGATE_MEMORY[task.cpu]).toContain(task.memory);
  });

  test('on Cloud Run: two instances that keep their CPU, behind no check of Authorization', () => {
    const { annotations } = revision.metadata;
    expect(Number(annotations['autoscaling.knative.dev/minScale'])).toBeGreaterThanOrEqual(2);
    expect(annotations).toMatchObject({ 'run.googleapis.com/cpu-throttling': 'false' });
    expect(cloudRun.metadata.annotations).toMatchObject({ 'run.googleapis.com/invoker-iam-disabled': 'true' });
    // Kubernetes and Knative take no other type for an annotation.
    for (const value of Object.values({ ...annotations, ...cloudRun.metadata.annotations }))
      expect(value).toBeTypeOf('string');
    expect(JSON.parse(annotations['run.googleapis.com/network-interfaces'])).toHaveLength(1);
    const { responseTimeout } = parse(textOf('config/gateway.yaml')).upstreams.store;
    expect(revision.spec.timeoutSeconds * 1000).toBeGreaterThan(durationMs(responseTimeout));
    // Cloud Run's bounds for a startup probe.
    const { periodSeconds, timeoutSeconds, failureThreshold } = instance.startupProbe;
    expect(timeoutSeconds).toBeLessThanOrEqual(periodSeconds);
    expect(periodSeconds * failureThreshold).toBeLessThanOrEqual(240);
  });

  test('on Fly: no Machine is stopped for want of traffic, and one at a time is replaced', () => {
    const [published] = fly.services as Table[];
    expect(published).toMatchObject({ auto_stop_machines: 'off', auto_start_machines: false, protocol: 'tcp' });
    expect(published!.tcp_checks).toHaveLength(1);
    expect(fly.deploy).toEqual({ strategy: 'rolling', max_unavailable: 1 });
    expect(fly.metrics).toEqual({ port: ADMIN_PORT, path: '/metrics' });
    expect(fly.restart).toEqual([{ policy: 'on-failure' }]);
  });
});

test('the reader of TOML reads what fly.toml has, and refuses everything else', () => {
  expect(readToml('a = "b" # c\n[d.e]\nf = ["g", "h"]\n[[i]]\nj = 1\n[i.k]\nl = true\n[[i]]\n')).toEqual({
    a: 'b',
    d: { e: { f: ['g', 'h'] } },
    i: [{ j: 1, k: { l: true } }, {}],
  });
  for (const wrong of ['a = b', 'a = "b', 'a', '[a', 'a = 1\na = 2', '[a]\n[a]', 'a = 1\n[a]', 'a = 01', "a = 'b'"])
    expect(() => readToml(wrong), wrong).toThrow(/^line \d: /);
});

/** The value of an option of a command on the page. */
function optionTextOfPage(name: string): string {
  return new RegExp(` --${name} (\\S+)`).exec(textOf(PAGE))![1]!;
}

function optionOfPage(name: string): number {
  return Number(optionTextOfPage(name));
}

/** Waits until an address answers with 200. */
async function answered(url: string): Promise<void> {
  await eventually(async () => expect((await fetch(url)).status).toBe(200));
}

/**
 * The part of TOML that fly.toml needs: tables, lists of tables, and on one line each strings without escapes, whole
 * numbers, booleans and lists of strings. Everything else is a fault, also a name that is there twice.
 */
function readToml(text: string): Table {
  const root: Table = {};
  let table = root;
  for (const [index, line] of text.split('\n').entries()) {
    const bare = line.replace(/^((?:[^"#]|"[^"]*")*)#.*$/, '$1').trim();
    if (bare === '') continue;
    try {
      const [, list, single] = /^(?:\[\[([\w.-]+)\]\]|\[([\w.-]+)\])$/.exec(bare) ?? [];
      if (list !== undefined) table = addToList(root, list.split('.'));
      else if (single !== undefined) table = addTable(root, single.split('.'));
      else addValue(table, bare);
    } catch (error) {
      throw new Error(`line ${index + 1}: ${(error as Error).message}`);
    }
  }
  return root;
}

/** The table that is called so, and of a list of tables its last one; made if it is not there. */
function tableIn(within: Table, name: string): Table {
  within[name] ??= {};
  const found = within[name];
  const inner = Array.isArray(found) ? found.at(-1) : found;
  if (typeof inner !== 'object') throw new Error(`${name} is no table`);
  return inner as Table;
}

function addTable(root: Table, names: readonly string[]): Table {
  const [parent, last] = [names.slice(0, -1).reduce(tableIn, root), names.at(-1)!];
  if (last in parent) throw new Error(`${last} is there twice`);
  return tableIn(parent, last);
}

function addToList(root: Table, names: readonly string[]): Table {
  const [parent, last] = [names.slice(0, -1).reduce(tableIn, root), names.at(-1)!];
  parent[last] ??= [];
  const list = parent[last];
  if (!Array.isArray(list)) throw new Error(`${last} is no list of tables`);
  const added: Table = {};
  (list as Table[]).push(added);
  return added;
}

function addValue(table: Table, line: string): void {
  const [, name, written] = /^([\w-]+) = (.+)$/.exec(line) ?? [];
  if (name === undefined) throw new Error('neither a table nor a value');
  if (name in table) throw new Error(`${name} is there twice`);
  // Of these forms JSON has the same meaning.
  const isKnown = /^(?:true|false|0|[1-9][0-9]*|"[^"\\]*"|\["[^"\\]*"(?:, "[^"\\]*")*\])$/.test(written!);
  if (!isKnown) throw new Error('a value that this reader does not know');
  table[name] = JSON.parse(written!) as Value;
}
