import { rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { candidatesOf, parseHosts, parseResolvConf, WatchedFile } from '../../src/io/name-files.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('a hosts file gives each name its addresses, in the order of the lines', () => {
  const text = `# comment
127.0.0.1\tlocalhost  # 10.0.0.9 not.this
::1 localhost ip6-localhost
  10.0.0.1   Pets.Internal pets\r
10.0.0.2 pets.internal.
10.0.0.1 pets
fe80::1%eth0 near
no-address pets
10.0.0.300 pets
10.0.0.3
`;
  expect(Object.fromEntries(parseHosts(text))).toEqual({
    localhost: ['127.0.0.1', '::1'],
    'ip6-localhost': ['::1'],
    'pets.internal': ['10.0.0.1', '10.0.0.2'],
    pets: ['10.0.0.1'],
    near: ['fe80::1%eth0'],
  });
});

test.each<[string, string, string, readonly string[], number]>([
  ['nothing', '', 'host', [], 1],
  ['nothing on a machine in a domain', 'nameserver 10.0.0.1\n', 'host.example.com', ['example.com'], 1],
  [
    'those of Kubernetes',
    'search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n',
    'pod',
    ['shop.svc.cluster.local', 'svc.cluster.local', 'cluster.local'],
    5,
  ],
  ['the last of several', 'search a.test\ndomain b.test c.test\n', 'host', ['b.test'], 1],
  ['comments', '# search a.test\n; search b.test\nsearch C.test. c.test\n', 'host', ['c.test'], 1],
  ['none, on purpose', 'search .\n', 'host.example.com', [], 1],
  ['more dots than glibc takes', 'options timeout:1 ndots:99 attempts:1\n', 'host', [], 15],
  ['dots that are no number', 'options ndots:many\n', 'host', [], 1],
])('resolv.conf with %s', (_, text, hostname, search, ndots) => {
  expect(parseResolvConf(text, hostname)).toEqual({ search, ndots });
});

test.each([
  ['redis', 5, ['redis.a.test', 'redis.b.test', 'redis']],
  ['redis.shop', 5, ['redis.shop.a.test', 'redis.shop.b.test', 'redis.shop']],
  ['redis.shop', 1, ['redis.shop', 'redis.shop.a.test', 'redis.shop.b.test']],
  ['redis', 0, ['redis', 'redis.a.test', 'redis.b.test']],
  ['redis.', 5, ['redis']],
])('%s with ndots:%i is looked for as %j', (name, ndots, expected) => {
  expect(candidatesOf(name, { search: ['a.test', 'b.test'], ndots })).toEqual(expected);
});

test('a file is looked at once a second at most, and read again when it was changed, replaced or removed', async () => {
  const path = join(await temporaryFolder(), 'file');
  let nowMs = 0;
  let parsed = 0;
  const file = new WatchedFile(
    path,
    (text) => {
      parsed++;
      return { text };
    },
    () => nowMs,
  );
  expect(file.read().text).toBe('');
  await writeFile(path, 'one');
  nowMs += 999;
  expect(file.read().text).toBe('');
  nowMs += 1;
  const first = file.read();
  expect(first.text).toBe('one');
  nowMs += 1_000;
  expect(file.read()).toBe(first);
  await writeFile(`${path}.new`, 'two');
  await rename(`${path}.new`, path);
  nowMs += 1_000;
  expect(file.read().text).toBe('two');
  await unlink(path);
  nowMs += 1_000;
  expect(file.read().text).toBe('');
  expect(parsed).toBe(4);
});
