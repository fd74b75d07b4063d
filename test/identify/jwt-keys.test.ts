import { rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { JwtKeys, type KeySet, type KeysAway, openJwtKeys } from '../../src/identify/jwt-keys.ts';
import { LATE_MS } from '../support/room.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { jwksOf, type SigningKey, signingKey, startJwksServer } from './jwt-issuer.ts';

let one: SigningKey;
let two: SigningKey;

beforeAll(async () => {
  [one, two] = await Promise.all([signingKey('one'), signingKey('two')]);
});

const MINUTE = 60_000;

/** Keys of a made-up issuer, with a clock that the test turns. */
function keysOf() {
  const issuer = { nowMs: 5_000, reads: 0, answer: (): Promise<string> => Promise.resolve(jwksOf(one)) };
  const troubles: (string | null)[] = [];
  const keys = new JwtKeys({
    read: () => {
      issuer.reads++;
      return issuer.answer();
    },
    freshMs: 5 * MINUTE,
    waitMs: 10 * MINUTE,
    staleMs: 60 * MINUTE,
    cooldownMs: 10_000,
    monotonicMs: () => issuer.nowMs,
    onTrouble: (error) => troubles.push(error === null ? null : error.message),
  });
  return { issuer, keys, troubles };
}

const away = () => Promise.reject(new Error('away'));
const isAway = (it: KeySet | KeysAway): it is KeysAway => 'retryAfterMs' in it;
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('the keys of an issuer', () => {
  test('are asked for before anybody needs them, and then not again while they are fresh', async () => {
    const { issuer, keys } = keysOf();
    expect(issuer.reads).toBe(1);
    const first = await keys.current();
    issuer.nowMs += 5 * MINUTE - 1;
    expect(keys.current()).toBe(first);
    expect(issuer.reads).toBe(1);
  });

  test('are used while they are read again, and waited for when they are old', async () => {
    const { issuer, keys } = keysOf();
    const first = await keys.current();
    issuer.nowMs += 6 * MINUTE;
    issuer.answer = async () => jwksOf(two);
    expect(keys.current()).toBe(first);
    await settled();
    expect(keys.current()).not.toBe(first);
    issuer.nowMs += 11 * MINUTE;
    expect(keys.current()).toBeInstanceOf(Promise);
  });

  test('stay the same object where the same was read again', async () => {
    const { issuer, keys } = keysOf();
    const first = await keys.current();
    issuer.nowMs += 11 * MINUTE;
    expect(await keys.current()).toBe(first);
    expect(issuer.reads).toBe(2);
  });

  test('go on being used for an hour while the issuer is away, and no longer', async () => {
    const { issuer, keys } = keysOf();
    const first = await keys.current();
    issuer.answer = away;
    issuer.nowMs += 60 * MINUTE - 1;
    expect(await keys.current()).toBe(first);
    issuer.nowMs += 1;
    expect(isAway(await keys.current())).toBe(true);
    issuer.nowMs += 5_000;
    issuer.answer = async () => jwksOf(one);
    expect(await keys.current()).toBe(first);
  });

  test('go on being used while what the issuer answers is no key set', async () => {
    for (const text of ['', 'no JSON', '{}', '[]', 'null', '{"keys":7}', '{"keys":[7]}', '<html>']) {
      const { issuer, keys } = keysOf();
      const first = await keys.current();
      issuer.answer = async () => text;
      issuer.nowMs += 11 * MINUTE;
      expect(await keys.current()).toBe(first);
      expect(issuer.reads).toBe(2);
    }
  });

  test('that could not be read are asked for again after a pause that grows to 5 s, whoever comes meanwhile', async () => {
    const { issuer, keys } = keysOf();
    await keys.current();
    issuer.answer = away;
    issuer.nowMs += 61 * MINUTE;
    const pauses: number[] = [];
    for (let i = 0; i < 5; i++) {
      const answer = await keys.current();
      if (!isAway(answer)) throw new Error('keys of an issuer that is away');
      pauses.push(answer.retryAfterMs);
      issuer.nowMs += answer.retryAfterMs - 1;
      const before = issuer.reads;
      expect(keys.current()).toEqual({ retryAfterMs: 1 });
      expect(issuer.reads).toBe(before);
      issuer.nowMs += 1;
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
  });

  test('that are waited for are asked for once, however many wait', async () => {
    const { issuer, keys } = keysOf();
    const all = await Promise.all(Array.from({ length: 100 }, () => keys.current()));
    expect(new Set(all).size).toBe(1);
    expect(issuer.reads).toBe(1);
  });

  test('are up while the last look at them went well, whether or not older ones are still used', async () => {
    const { issuer, keys } = keysOf();
    expect(keys.isUp).toBe(false);
    await keys.current();
    expect(keys.isUp).toBe(true);
    issuer.nowMs += 6 * MINUTE;
    issuer.answer = away;
    expect(isAway(await keys.current())).toBe(false);
    await settled();
    expect(keys.isUp).toBe(false);
    issuer.nowMs += MINUTE;
    issuer.answer = async () => jwksOf(one);
    await keys.current();
    await settled();
    expect(keys.isUp).toBe(true);
    keys.unusable((await keys.current()) as KeySet, new Error('a broken key'));
    expect(keys.isUp).toBe(false);
  });

  test('of which one cannot be used are looked at again after 10 s, and told of once until they are others', async () => {
    const { issuer, keys, troubles } = keysOf();
    const seen = (await keys.current()) as KeySet;
    const spoil = () => keys.unusable(seen, new Error('a broken key'));
    for (let i = 0; i < 3; i++) spoil();
    expect(issuer.reads).toBe(1);
    issuer.nowMs += 10_000;
    spoil();
    await settled();
    spoil();
    expect([issuer.reads, troubles, keys.isUp]).toEqual([2, ['a broken key'], false]);
    issuer.nowMs += 10_000;
    issuer.answer = async () => jwksOf(one, two);
    spoil();
    await settled();
    expect([issuer.reads, troubles, keys.isUp]).toEqual([3, ['a broken key', null], true]);
  });

  test('in trouble are told of once, and when it is over', async () => {
    const { issuer, keys, troubles } = keysOf();
    await keys.current();
    issuer.answer = away;
    issuer.nowMs += 11 * MINUTE;
    await keys.current();
    issuer.nowMs += 5_000;
    await keys.current();
    issuer.nowMs += 5_000;
    issuer.answer = async () => jwksOf(one);
    await keys.current();
    expect(troubles).toEqual(['away', null]);
  });

  // Attack: tokens that name two broken keys in turn, each of which would be a line in the log.
  test('whose faults are told apart are complained of once each, however many tokens name them', async () => {
    const { issuer, keys, troubles } = keysOf();
    const set = (await keys.current()) as KeySet;
    for (let i = 0; i < 20; i++) keys.unusable(set, new Error(`a broken key ${i % 2}`));
    expect(troubles).toEqual(['a broken key 0', 'a broken key 1']);
    for (let i = 0; i < 100; i++) keys.unusable(set, new Error(`another broken key ${i}`));
    expect(troubles).toHaveLength(20);
    issuer.answer = async () => jwksOf(two);
    issuer.nowMs += 11 * MINUTE;
    await keys.current();
    keys.unusable((await keys.current()) as KeySet, new Error('a broken key 0'));
    expect(troubles.slice(20)).toEqual([null, 'a broken key 0']);
  });
});

describe('a key that is not there', () => {
  test('is looked for once in 10 s, however many tokens name made-up ones', async () => {
    const { issuer, keys } = keysOf();
    const first = (await keys.current()) as KeySet;
    for (let i = 0; i < 100; i++) expect(await keys.newerThan(first)).toBe(first);
    expect(issuer.reads).toBe(1);
    issuer.nowMs += 10_000;
    await Promise.all(Array.from({ length: 100 }, () => keys.newerThan(first)));
    for (let i = 0; i < 100; i++) expect(await keys.newerThan(first)).toBe(first);
    expect(issuer.reads).toBe(2);
  });

  test('is found when the issuer has begun to use another', async () => {
    const { issuer, keys } = keysOf();
    const first = (await keys.current()) as KeySet;
    issuer.nowMs += 10_000;
    issuer.answer = async () => jwksOf(one, two);
    const newer = await keys.newerThan(first);
    expect(newer).not.toBe(first);
    expect(keys.current()).toBe(newer);
    expect(await keys.newerThan(first)).toBe(newer);
    expect(issuer.reads).toBe(2);
  });

  test('cannot be told from a good one while the issuer is away', async () => {
    const { issuer, keys } = keysOf();
    const first = (await keys.current()) as KeySet;
    issuer.nowMs += 10_000;
    issuer.answer = away;
    expect(isAway(await keys.newerThan(first))).toBe(true);
    expect(isAway(await keys.newerThan(first))).toBe(true);
    expect(issuer.reads).toBe(2);
    expect(keys.current()).toBe(first);
  });
});

describe('a key set at a URL', () => {
  const clock = { monotonicMs: () => performance.now() };
  const read = async (url: string) => {
    const troubles: string[] = [];
    const onTrouble = (error: Error | null) => troubles.push(String(error?.message));
    const keys = await openJwtKeys({ kind: 'url', url }, { ...clock, onTrouble }).current();
    return { keys, troubles };
  };

  test('is read with one GET that says nothing of us', async () => {
    const asked: string[] = [];
    const server = await startJwksServer((request, response) => {
      asked.push(`${request.method} ${request.url} ${request.headers.authorization} ${request.headers.cookie}`);
      response.end(jwksOf(one));
    });
    expect(isAway((await read(server.url)).keys)).toBe(false);
    expect(asked).toEqual(['GET /jwks.json undefined undefined']);
  });

  test.each<[string, Parameters<typeof startJwksServer>[0], string]>([
    ['an error', (_request, response) => response.writeHead(500).end('{"keys":[]}'), 'answered 500'],
    ['another success', (_request, response) => response.writeHead(203).end('{"keys":[]}'), 'answered 203'],
    ['a redirect', (_request, response) => response.writeHead(302, { Location: '/jwks.json?' }).end(), 'answered 302'],
    ['a broken body', (_request, response) => response.writeHead(200, { 'Content-Length': '9' }).end('{}'), ''],
    ['no key set', (_request, response) => response.end('{}'), 'JSON Web Key Set malformed'],
  ])('is none where the server answers %s', async (_what, answer, words) => {
    const server = await startJwksServer((request, response) => {
      // A Content-Length that is not met: the connection is cut in the middle of the body.
      if (words === '') setTimeout(() => response.socket?.destroy(), 50);
      answer(request, response);
    });
    const { keys, troubles } = await read(server.url);
    expect(isAway(keys)).toBe(true);
    expect(troubles[0]).toContain(words);
    expect(server.asked).toBe(1);
  });

  // getaddrinfo does not know `*.localhost` (RFC 6761); the resolver of the process does.
  test('is found by the resolver of the process', async () => {
    const server = await startJwksServer((_request, response) => response.end(jwksOf(one)));
    const { keys, troubles } = await read(`http://id.localhost:${server.port}/jwks.json`);
    expect([isAway(keys), troubles]).toEqual([false, []]);
  });

  test('that its server keeps packed is unpacked', async () => {
    const packed = gzipSync(jwksOf(one));
    const server = await startJwksServer((_request, response) => {
      response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(packed);
    });
    expect(isAway((await read(server.url)).keys)).toBe(false);
  });

  test('is not unpacked beyond 256 KiB', async () => {
    const packed = gzipSync(Buffer.alloc(64 * 1024 * 1024, ' '));
    const bomb = await startJwksServer((_request, response) => {
      response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(packed);
    });
    const { keys, troubles } = await read(bomb.url);
    expect(isAway(keys)).toBe(true);
    expect(troubles[0]).toContain('larger than 262144 bytes');
  });

  test('is not read beyond 256 KiB', async () => {
    let sent = 0;
    const endless = await startJwksServer((_request, response) => {
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536))) sent += 65_536;
      };
      response.on('drain', more);
      more();
    });
    const { keys, troubles } = await read(endless.url);
    expect(isAway(keys)).toBe(true);
    expect(troubles[0]).toContain('larger than 262144 bytes');
    expect(sent).toBeLessThan(32 * 1024 * 1024);
  });

  test('is waited for 3 s and not longer, be it the head or the body that does not come', async () => {
    const slow = await startJwksServer(() => {});
    const slowBody = await startJwksServer((_request, response) => response.writeHead(200).write('{"keys":'));
    const beganAtMs = performance.now();
    const both = await Promise.all([read(slow.url), read(slowBody.url)]);
    const tookMs = performance.now() - beganAtMs;
    expect(both.map(({ keys }) => isAway(keys))).toEqual([true, true]);
    expect(tookMs).toBeGreaterThan(2_900);
    expect(tookMs).toBeLessThan(3_000 + LATE_MS);
  });
});

describe('a key set in a file', () => {
  let path: string;
  const clock = { nowMs: 0 };
  const open = () => openJwtKeys({ kind: 'file', path }, { monotonicMs: () => clock.nowMs });

  beforeEach(async () => {
    path = join(await temporaryFolder(), 'jwks.json');
    await writeFile(path, jwksOf(one));
  });

  test('is there at once, and is read again within a second of a change', async () => {
    const keys = open();
    const first = keys.current();
    expect(first).not.toBeInstanceOf(Promise);
    await writeFile(`${path}.new`, jwksOf(two));
    await rename(`${path}.new`, path);
    clock.nowMs += 1_000;
    expect(await keys.current()).not.toBe(first);
  });

  test('that is taken away or broken leaves the keys before in force', async () => {
    const keys = open();
    const first = keys.current();
    await writeFile(path, '{');
    clock.nowMs += 1_000;
    expect(await keys.current()).toBe(first);
    await unlink(path);
    clock.nowMs += 5_000;
    expect(await keys.current()).toBe(first);
  });

  test.each([
    ['missing', async () => unlink(path)],
    ['no JSON', async () => writeFile(path, '{')],
    ['no key set', async () => writeFile(path, '{}')],
    ['too large', async () => writeFile(path, ' '.repeat(262_145))],
  ])('that is %s at the start is a fault', async (_what, spoil) => {
    await spoil();
    expect(open).toThrow(expect.objectContaining({ code: 'bad_settings', message: expect.stringContaining(path) }));
  });
});
