import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type Lookup, type LookupError, NameResolver, nameServers } from '../../src/io/resolver.ts';
import { eventually } from '../support/conditions.ts';
import { type NameAnswer, startNameServer } from '../support/name-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const HOUR = 3_600_000;

interface Given {
  /** What the name server says of each name; others do not exist. */
  readonly zone?: Record<string, NameAnswer>;
  readonly hosts?: string;
  readonly resolvConf?: string;
  /** getaddrinfo; knows nothing unless given. */
  readonly system?: Lookup;
}

/** A resolver with a name server, files and a clock of its own. */
async function resolverWith({ zone = {}, hosts = '', resolvConf = '', system = unknown }: Given = {}) {
  const server = await startNameServer((name) => zone[name] ?? 'absent');
  const folder = await temporaryFolder();
  const [hostsFile, resolvConfFile] = [join(folder, 'hosts'), join(folder, 'resolv.conf')];
  await writeFile(hostsFile, hosts);
  await writeFile(resolvConfFile, resolvConf);
  const clock = { nowMs: 0 };
  let opened = 0;
  const resolver = new NameResolver({
    open: () => {
      opened++;
      const ask = new Resolver({ timeout: 1_000, tries: 1 });
      ask.setServers([server.address]);
      return [ask];
    },
    ...{ system, monotonicMs: () => clock.nowMs, hostsFile, resolvConf: resolvConfFile },
  });
  const all = (host: string, family?: number) =>
    new Promise<readonly string[]>((resolve, reject) => {
      resolver.lookup(host, { all: true, ...(family === undefined ? {} : { family }) }, (error, found) =>
        error === null ? resolve((found as LookupAddress[]).map(({ address }) => address)) : reject(error),
      );
    });
  return {
    ...{ zone, clock, resolver, all, hostsFile, resolvConfFile, asked: server.asked },
    opened: () => opened,
    code: (host: string) => all(host).then(String, (error: LookupError) => error.code),
  };
}

const unknown: Lookup = (_host, _options, callback) =>
  setImmediate(callback, Object.assign(new Error('unknown'), { code: 'ENOTFOUND' }), []);

describe('a name', () => {
  test.each([
    ['127.0.0.9', ['127.0.0.9']],
    ['::1', ['::1']],
    ['localhost', ['127.0.0.1', '::1']],
    ['LocalHost', ['127.0.0.1', '::1']],
    ['pets.localhost.', ['127.0.0.1', '::1']],
    ['in.file', ['10.0.0.1']],
    ['In.File.', ['10.0.0.1']],
  ])('%s is known without a name server', async (host, expected) => {
    const { all, asked } = await resolverWith({ hosts: '10.0.0.1 in.file\n', zone: { 'in.file': 'silent' } });
    expect(await all(host)).toEqual(expected);
    expect(asked.size).toBe(0);
  });

  test('that ends in .invalid does not exist, and no server is asked for it', async () => {
    const { code, asked } = await resolverWith();
    expect(await code('pets.invalid')).toBe('ENOTFOUND');
    expect(asked.size).toBe(0);
  });

  test('has all its addresses of both families, or those of one, or one', async () => {
    const { all, resolver } = await resolverWith({ zone: { 'pets.test': { addresses: ['10.0.0.1', 'fd00::1'] } } });
    expect([...(await all('pets.test'))].sort()).toEqual(['10.0.0.1', 'fd00::1']);
    expect(await all('pets.test', 6)).toEqual(['fd00::1']);
    const one = await new Promise((resolve) =>
      resolver.lookup('pets.test', { family: 4 }, (...answer) => resolve(answer)),
    );
    expect(one).toEqual([null, '10.0.0.1', 4]);
  });

  test('without addresses of the family that is asked for has none', async () => {
    const { all } = await resolverWith({ zone: { 'pets.test': { addresses: ['10.0.0.1'] } } });
    await expect(all('pets.test', 6)).rejects.toMatchObject({ code: 'ENODATA', hostname: 'pets.test' });
  });

  test('is looked for in the domains of resolv.conf, and the file is read again when it has changed', async () => {
    const zone: Record<string, NameAnswer> = {
      'redis.svc.test': { addresses: ['10.0.0.1'] },
      'redis.other.test': { addresses: ['10.0.0.2'] },
      'down.a.test': 'failing',
      'down.svc.test': { addresses: ['10.0.0.3'] },
    };
    const resolvConf = 'search a.test svc.test\noptions ndots:5\n';
    const { all, clock, resolvConfFile, opened, asked } = await resolverWith({ zone, resolvConf });
    expect(await all('redis')).toEqual(['10.0.0.1']);
    expect([...asked.keys()]).toEqual(['redis.a.test', 'redis.svc.test']);
    expect(await all('down')).toEqual(['10.0.0.3']);
    await writeFile(resolvConfFile, 'search other.test\n');
    clock.nowMs += 60_000;
    expect(await all('redis')).toEqual(['10.0.0.2']);
    expect(opened()).toBe(2);
  });

  test.each<NameAnswer>(['silent', 'failing', 'refused'])(
    'of which the first name server is %s is asked of the second',
    async (fault) => {
      const first = await startNameServer(() => fault);
      const second = await startNameServer(() => ({ addresses: ['10.0.0.1'] }));
      const folder = await temporaryFolder();
      const resolver = new NameResolver({
        open: () => nameServers([first.address, second.address]),
        hostsFile: join(folder, 'hosts'),
        resolvConf: join(folder, 'resolv.conf'),
      });
      const answer = await new Promise((resolve) => resolver.lookup('pets.test', {}, (...it) => resolve(it)));
      expect(answer).toEqual([null, '10.0.0.1', 4]);
      expect(first.asked.get('pets.test')).toBeGreaterThan(0);
    },
  );

  test('with several addresses begins with another one each time, as its name server would', async () => {
    const { all } = await resolverWith({ zone: { 'pets.test': { addresses: ['10.0.0.1', '10.0.0.2', '10.0.0.3'] } } });
    const first = new Set<string | undefined>();
    for (let i = 0; i < 3; i++) first.add((await all('pets.test'))[0]);
    expect([...first].sort()).toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
  });

  test('whose server never answers for IPv6 has its addresses of IPv4', async () => {
    const { all } = await resolverWith({ zone: { 'pets.test': { four: ['10.0.0.1'] } } });
    expect(await all('pets.test')).toEqual(['10.0.0.1']);
  });
});

describe('an answer', () => {
  test('is shared by all who ask at the same time, and kept for its TTL, but for a second at least', async () => {
    const zone: Record<string, NameAnswer> = {
      'long.test': { addresses: ['10.0.0.1'], ttl: 20 },
      'none.test': { addresses: ['10.0.0.1'], ttl: 0 },
      'year.test': { addresses: ['10.0.0.1'], ttl: 31_536_000 },
    };
    const { all, asked, clock } = await resolverWith({ zone });
    const times = async (host: string, keptMs: number) => {
      await Promise.all(Array.from({ length: 100 }, () => all(host)));
      clock.nowMs += keptMs - 1;
      await all(host);
      expect(asked.get(host)).toBe(1);
      clock.nowMs += 1;
      await all(host);
      expect(asked.get(host)).toBe(2);
    };
    await times('long.test', 20_000);
    await times('none.test', 1_000);
    await times('year.test', 300_000);
  });

  test('that has changed is used after the TTL of the one before', async () => {
    const zone: Record<string, NameAnswer> = { 'pets.test': { addresses: ['10.0.0.1'], ttl: 5 } };
    const { all, clock } = await resolverWith({ zone });
    expect(await all('pets.test')).toEqual(['10.0.0.1']);
    zone['pets.test'] = { addresses: ['10.0.0.2'], ttl: 5 };
    clock.nowMs += 5_000;
    expect(await all('pets.test')).toEqual(['10.0.0.2']);
  });

  test.each<[string, NameAnswer]>([
    ['say nothing', 'silent'],
    ['fail', 'failing'],
  ])('stays in use for an hour while the name servers %s (reliability 229)', async (_, fault) => {
    const zone: Record<string, NameAnswer> = { 'pets.test': { addresses: ['10.0.0.1'], ttl: 60 } };
    const { all, code, clock } = await resolverWith({ zone });
    expect(await all('pets.test')).toEqual(['10.0.0.1']);
    zone['pets.test'] = fault;
    for (clock.nowMs = 60_000; clock.nowMs < HOUR + 60_000; clock.nowMs += 120_000)
      expect(await all('pets.test')).toEqual(['10.0.0.1']);
    clock.nowMs = HOUR + 60_000;
    expect(await code('pets.test')).toBe(fault === 'silent' ? 'ETIMEOUT' : 'ESERVFAIL');
    zone['pets.test'] = { addresses: ['10.0.0.2'] };
    clock.nowMs += 1_000;
    expect(await all('pets.test')).toEqual(['10.0.0.2']);
  });

  test('is given up when the name servers say that the name is gone', async () => {
    const zone: Record<string, NameAnswer> = { 'pets.test': { addresses: ['10.0.0.1'], ttl: 5 } };
    const { all, code, clock } = await resolverWith({ zone });
    await all('pets.test');
    zone['pets.test'] = 'absent';
    clock.nowMs += 5_000;
    expect(await code('pets.test')).toBe('ENOTFOUND');
  });

  test('that failed is remembered for a second', async () => {
    const { code, clock, asked } = await resolverWith();
    for (let i = 0; i < 50; i++) expect(await code('none.test')).toBe('ENOTFOUND');
    expect(asked.get('none.test')).toBe(1);
    clock.nowMs += 1_000;
    await code('none.test');
    expect(asked.get('none.test')).toBe(2);
  });

  test('of the hosts file counts within a second of a change, whatever name servers have said', async () => {
    const { all, clock, hostsFile } = await resolverWith({ zone: { 'pets.test': { addresses: ['10.0.0.1'] } } });
    expect(await all('pets.test')).toEqual(['10.0.0.1']);
    await writeFile(hostsFile, '10.0.0.7 pets.test\n');
    clock.nowMs += 1_000;
    expect(await all('pets.test')).toEqual(['10.0.0.7']);
  });
});

// Attack: callers of a service whose zone is silent, at the sides of services that are well.
describe('a silent zone', () => {
  test('has one look-up under way for each name, however many callers come in an hour, and no other name waits (reliability 227)', async () => {
    const zone: Record<string, NameAnswer> = { 'good.test': { addresses: ['10.0.0.1'], ttl: 1 } };
    for (let i = 0; i < 20; i++) zone[`bad${i}.test`] = 'silent';
    const { all, code, clock, asked, resolver } = await resolverWith({ zone });
    let lookups = 0;
    for (clock.nowMs = 0; clock.nowMs < HOUR; clock.nowMs += HOUR / 4) {
      const bad = Array.from({ length: 400 }, (_, i) => code(`bad${i % 20}.test`));
      lookups++;
      expect(await all('good.test')).toEqual(['10.0.0.1']);
      expect(await all('localhost')).toContain('127.0.0.1');
      expect(resolver.isAsking('bad0.test')).toBe(true);
      expect(new Set(await Promise.all(bad))).toEqual(new Set(['ETIMEOUT']));
    }
    expect(asked.get('bad0.test')).toBe(lookups);
    expect(asked.get('good.test')).toBe(lookups);
  });

  test('takes no place of getaddrinfo', async () => {
    const hosts: string[] = [];
    const system: Lookup = (host, options, callback) => {
      hosts.push(host);
      unknown(host, options, callback);
    };
    const { code } = await resolverWith({ zone: { 'bad.test': 'silent', 'down.test': 'failing' }, system });
    expect(await code('bad.test')).toBe('ETIMEOUT');
    expect(await code('down.test')).toBe('ESERVFAIL');
    expect(hosts).toEqual([]);
  });
});

describe('a name that no name server knows', () => {
  test('is asked of getaddrinfo', async () => {
    const system: Lookup = (_host, _options, callback) => callback(null, [{ address: '10.0.0.5', family: 4 }]);
    const { all } = await resolverWith({ system });
    expect(await all('printer.local')).toEqual(['10.0.0.5']);
  });

  // Attack: the plug-in that knows names of one kind hangs.
  test('holds one place of getaddrinfo at most, and nothing waits for that place (reliability 228)', async () => {
    const hosts: string[] = [];
    const system: Lookup = (host) => hosts.push(host);
    const { code, clock, asked } = await resolverWith({ system });
    for (let i = 0; i < 10; i++) void code('first.local');
    await eventually(() => hosts.length === 1);
    for (let i = 0; i < 60; i++) {
      clock.nowMs += HOUR / 60;
      expect(await code('second.local')).toBe('EAI_AGAIN');
    }
    await turn();
    expect(hosts).toEqual(['first.local']);
    expect(asked.get('second.local')).toBe(60);
  });

  test('is not asked of it again for 30 s if it does not know the name either', async () => {
    const hosts: string[] = [];
    const system: Lookup = (host, options, callback) => {
      hosts.push(host);
      unknown(host, options, callback);
    };
    const { code, clock } = await resolverWith({ system });
    for (; clock.nowMs < 30_000; clock.nowMs += 5_000) expect(await code('none.test')).toBe('ENOTFOUND');
    expect(hosts).toHaveLength(1);
    await code('none.test');
    expect(hosts).toHaveLength(2);
  });
});
