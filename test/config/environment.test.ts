import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { portOf, readEnvironment, type Variables } from '../../src/config/environment.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-environment-'));
afterAll(() => rmSync(folder, { recursive: true }));

const PEPPER = 'a-pepper-of-enough-characters';

function valuesOf(env: Variables) {
  const read = readEnvironment(env);
  if ('faults' in read) throw new Error(read.faults.join('\n'));
  return read.environment;
}

function faultsOf(env: Variables): readonly string[] {
  const read = readEnvironment(env);
  return 'faults' in read ? read.faults : [];
}

function fileWith(name: string, content: string | Uint8Array): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

describe('the environment', () => {
  test('every variable is read', () => {
    const environment = valuesOf({
      PORT: '0',
      HOST: '0.0.0.0',
      ADMIN_PORT: '9091',
      ADMIN_HOST: '::1',
      ADMIN_TOKEN: 'let-me-in-if-you-can',
      UPSTREAM_URL: 'https://pets.internal:8443/',
      REDIS_URL: 'rediss://:p%40ss@redis.internal:6380/2',
      TOLLGATE_DATA: '/var/lib/tollgate',
      KEY_PEPPER: `${PEPPER}-new,${PEPPER}-old`,
      LOG_LEVEL: 'debug',
      WORKERS: 'auto',
    });
    expect(environment).toMatchObject({
      port: 0,
      host: '0.0.0.0',
      adminPort: 9091,
      adminHost: '::1',
      adminToken: 'let-me-in-if-you-can',
      dataFolder: '/var/lib/tollgate',
      peppers: [`${PEPPER}-new`, `${PEPPER}-old`],
      logLevel: 'debug',
      workers: 'auto',
    });
  });

  test('an empty variable is one that is not set', () => {
    const names = ['PORT', 'HOST', 'ADMIN_TOKEN', 'REDIS_URL', 'KEY_PEPPER', 'KEY_PEPPER_FILE', 'LOG_LEVEL', 'WORKERS'];
    expect(valuesOf(Object.fromEntries(names.map((name) => [name, ''])))).toEqual(valuesOf({}));
  });

  test.each([
    ['PORT', '65536', '0 to 65535'],
    ['PORT', '80a', '0 to 65535'],
    ['PORT', '-1', '0 to 65535'],
    ['ADMIN_PORT', ' 80', '0 to 65535'],
    ['HOST', 'not a host', 'must be an address'],
    ['LOG_LEVEL', 'INFO', 'must be one of fatal'],
    ['WORKERS', '0', '`auto` or a whole number'],
    ['UPSTREAM_URL', 'http://127.0.0.1:9000/v1/..', 'has a path'],
    ['UPSTREAM_URL', 'http://a:b@127.0.0.1:9000', 'has credentials'],
    ['ADMIN_TOKEN', 'two words', 'visible ASCII'],
    ['ADMIN_TOKEN', 'changeme', 'at least 16 characters'],
    ['ADMIN_TOKEN', 'fifteen-letters', 'openssl rand -base64 32'],
    ['ADMIN_TOKEN', 'a'.repeat(64), '5 of them different'],
    ['ADMIN_TOKEN', '1234'.repeat(8), '5 of them different'],
    ['KEY_PEPPER', 'short', 'at least 16 characters'],
    ['KEY_PEPPER', 'x'.repeat(64), 'at least 5 different characters'],
    ['KEY_PEPPER', `${'x'.repeat(64)},${PEPPER}`, 'openssl rand -base64 32'],
    ['KEY_PEPPER', 'fifteen-letters', 'openssl rand -base64 32'],
    ['KEY_PEPPER', `${PEPPER},`, 'at least 16 characters'],
    ['KEY_PEPPER', `${PEPPER}, ${PEPPER}2`, 'white space'],
    ['KEY_PEPPER', `${PEPPER},${PEPPER}`, 'twice'],
  ])('%s=%s is a fault', (name, value, words) => {
    const faults = faultsOf({ [name]: value });
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(new RegExp(`^environment: ${name}: `));
    expect(faults[0]).toContain(words);
  });

  test('an old pepper that is weak is taken, because its keys are in use, with a warning', () => {
    const weak = 'x'.repeat(16);
    const read = readEnvironment({ KEY_PEPPER: `${PEPPER},${weak}` });
    expect(read).toMatchObject({
      environment: { peppers: [PEPPER, weak] },
      warnings: [expect.stringMatching(/^environment: KEY_PEPPER: the old pepper has fewer than 5 different/)],
    });
    expect(JSON.stringify('warnings' in read && read.warnings)).not.toContain(weak);
    expect(readEnvironment({ KEY_PEPPER: `${PEPPER},${PEPPER}-old` })).toMatchObject({ warnings: [] });
  });

  test('all faults are told at once', () => {
    expect(faultsOf({ PORT: 'x', ADMIN_PORT: 'y', WORKERS: '-', KEY_PEPPER: 'z' })).toHaveLength(4);
  });
});

describe('REDIS_URL', () => {
  test.each([
    'redis://127.0.0.1',
    'redis://127.0.0.1:6379/0',
    'redis://user:pass@redis:6379',
    'rediss://redis.internal',
    'redis://[::1]:6379',
    'unix:///run/redis.sock',
    'redis+unix:///run/redis.sock',
    'redis+cluster://a,b:2,[::1]:7000',
    'rediss+cluster://user:p%40ss@a.internal:1',
    'redis+sentinel://a:1,b/main',
    'redis+sentinel://user:pass@a:1,b:2/main/3?sentinelUsername=u&sentinelPassword=p',
    'rediss+sentinel://a/my%20primary',
  ])('%s is accepted', (url) => {
    expect(valuesOf({ REDIS_URL: url, KEY_PEPPER: PEPPER }).redisUrl).toBe(url);
  });

  test.each([
    ['redis+cluster://:hunter2@a:1,,b:2', 'an invalid host'],
    ['redis+cluster://:hunter2@', 'an invalid host'],
    ['redis+cluster://a:99999', 'an invalid host'],
    ['redis+cluster://a:1/1', 'only one'],
    ['redis+cluster://a:1/main', 'a cluster has none'],
    ['redis+cluster://a:1?password=hunter2', 'there are none'],
    ['redis+cluster://:hunter2@x@a:1', '%40'],
    ['redis+cluster:a:1', 'cannot be read'],
    ['redis+sentinel://:hunter2@a:1,b:2', 'what the Sentinels call the primary'],
    ['redis+sentinel://a:1/main/name', 'database number'],
    ['redis+sentinel://a:1/main?password=hunter2', 'sentinelPassword'],
    ['redis+sentinel://:hunter2%zz@a:1/main', '%25'],
    ['http://hunter2', 'scheme'],
    ['hunter2', 'not a URL'],
    ['redis://:hunter2@', 'it must be redis://'],
    ['redis://:hunter2@host:0', 'port 0'],
    ['redis://:hunter2@host/name', 'database number'],
    ['redis://:hunter2@host#x', '%23'],
    ['unix://run/redis.sock', 'three slashes'],
    ['unix:///', 'no socket'],
  ])('%s is a fault that does not repeat it', (url, words) => {
    const faults = faultsOf({ REDIS_URL: url, KEY_PEPPER: PEPPER });
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain(words);
    expect(faults[0]).not.toContain('hunter2');
  });

  test('needs KEY_PEPPER: gateways that share a store must share it', () => {
    expect(faultsOf({ REDIS_URL: 'redis://127.0.0.1' })[0]).toMatch(
      /^environment: KEY_PEPPER: must be set where REDIS_URL is: to the pepper of the gateways on this Redis/,
    );
    expect(valuesOf({}).peppers).toEqual([]);
  });
});

describe.each(['KEY_PEPPER', 'ADMIN_TOKEN', 'REDIS_URL'])('%s_FILE', (name) => {
  const value = name === 'REDIS_URL' ? 'redis://:hunter2hunter2hunter2@127.0.0.1' : 'hunter2hunter2hunter2';
  const around: Variables = name === 'REDIS_URL' ? { KEY_PEPPER: PEPPER } : {};
  const read = (file: string, env: Variables = {}) => ({ ...around, ...env, [`${name}_FILE`]: file });

  test.each(['', '\n', '\r\n'])('holds the value, with or without a line end (%j)', (end) => {
    const environment = valuesOf(read(fileWith('value', value + end)));
    expect([environment.peppers[0], environment.adminToken, environment.redisUrl]).toContain(value);
  });

  test('together with the variable itself is a fault', () => {
    expect(faultsOf(read(fileWith('value', value), { [name]: value }))[0]).toContain('set only one of them');
  });

  test('a file that cannot be used is a fault that names it and not its content (reliability 116)', () => {
    mkdirSync(join(folder, 'directory'), { recursive: true });
    const cases = [
      [join(folder, 'absent'), 'does not exist'],
      [join(folder, 'directory'), 'is a directory'],
      [fileWith('empty', '\n'), 'is empty'],
      [fileWith('lines', 'hunter2\nhunter2\n'), 'more than one line'],
      [fileWith('bytes', new Uint8Array([0xff, 0xfe])), 'not UTF-8'],
      [fileWith('large', 'hunter2'.repeat(10_000)), 'larger than 64 KiB'],
    ] as const;
    for (const [file, words] of cases) {
      const faults = faultsOf(read(file));
      expect(faults).toHaveLength(1);
      expect(faults[0]).toContain(`environment: ${name}_FILE: names the file ${file}`);
      expect(faults[0]).toContain(words);
      expect(faults[0]).not.toContain('hunter2');
    }
  });
});

test('PETS_PORT has a default, may be 0, and is checked', () => {
  expect(portOf({}, 'PETS_PORT', 9000)).toEqual({ port: 9000 });
  expect(portOf({ PETS_PORT: '0' }, 'PETS_PORT', 9000)).toEqual({ port: 0 });
  expect(portOf({ PETS_PORT: '09000' }, 'PETS_PORT', 9000)).toEqual({
    faults: ['environment: PETS_PORT: must be a port from 0 to 65535, not "09000".'],
  });
});
