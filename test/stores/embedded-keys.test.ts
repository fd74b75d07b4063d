import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { byReadability } from '../../src/model/record.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedHistory, Histories } from '../../src/stores/embedded/history.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { peppersOf } from '../../src/stores/embedded/pepper.ts';
import { keySearchContract } from '../contracts/key-search.ts';
import { keyStoreContract } from '../contracts/key-store.ts';
import { someKey } from '../identify/some-key.ts';
import { atEnd } from '../support/endings.ts';
import { ROOT, startProcess } from '../support/processes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function storeIn(folder: string) {
  const db = openDatabase(folder);
  atEnd(() => db.close());
  return { db, keys: new EmbeddedKeys({ db }) };
}

describe('keys in the embedded store', () => {
  keyStoreContract(async () => {
    const folder = await temporaryFolder();
    return { here: storeIn(folder).keys, there: storeIn(folder).keys };
  });

  test('survive the end of the process that made them', async () => {
    const folder = await temporaryFolder();
    const { key, digest } = someKey();
    const first = openDatabase(folder);
    await new EmbeddedKeys({ db: first }).create(key);
    first.close();
    expect(await storeIn(folder).keys.findByDigest(digest)).toEqual(key);
  });

  test('are made a hundred at a time, and the gateway serves in between (reliability 465)', async () => {
    const { keys } = storeIn(await temporaryFolder());
    const all = Array.from({ length: 250 }, () => someKey().key);
    let [turns, isDone] = [0, false];
    const count = () => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    expect(await keys.createEach([...all, all[0]!])).toEqual([...all.map(() => 'created'), 'taken']);
    isDone = true;
    expect(turns).toBeGreaterThanOrEqual(2);
    expect((await keys.list({ limit: 300, cursor: null })).records).toHaveLength(250);
  });

  test('are never half there when the process that makes them is killed', async () => {
    const folder = await temporaryFolder();
    const { keys } = storeIn(folder);
    const path = (name: string) => JSON.stringify(join(ROOT, name));
    const writer = startProcess(process.execPath, [
      '--input-type=module-typescript',
      '--eval',
      `import { openDatabase } from ${path('src/stores/embedded/database.ts')};
       import { EmbeddedKeys } from ${path('src/stores/embedded/keys.ts')};
       import { someKey } from ${path('test/identify/some-key.ts')};
       const db = openDatabase(${JSON.stringify(folder)});
       const keys = new EmbeddedKeys({ db });
       console.log('writing');
       for (;;) await keys.create(someKey().key);`,
    ]);
    await writer.until(/writing/);
    // The reader works meanwhile, on the same file.
    await expect.poll(async () => (await keys.list({ limit: 20, cursor: null })).records.length).toBe(20);
    writer.signal('SIGKILL');
    await writer.exit;
    for (const key of byReadability((await keys.list({ limit: 10_000, cursor: null })).records).readable) {
      expect(await keys.findByDigest(key.secrets[0]!.digest)).toEqual(key);
    }
  });

  test('are read by their owner alone, and so is the pepper: folder 700, files 600', async () => {
    const folder = join(await temporaryFolder(), 'made', 'here');
    const { db, keys } = storeIn(folder);
    peppersOf(folder, db, []);
    await keys.create(someKey().key);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const modes = readdirSync(folder).map((name) => [name, (statSync(join(folder, name)).mode & 0o777).toString(8)]);
    expect(Object.fromEntries(modes)).toEqual({
      'tollgate.db': '600',
      'tollgate.db-shm': '600',
      'tollgate.db-wal': '600',
      'tollgate.db.acknowledged': '600',
      'tollgate.pepper': '600',
    });
  });

  test('have no secret in any file', async () => {
    const folder = await temporaryFolder();
    const { keys } = storeIn(folder);
    const { key, secret, digest } = someKey({ name: 'needle' });
    await keys.create(key);
    const bytes = Buffer.concat(readdirSync(folder).map((name) => readFileSync(join(folder, name))));
    expect(bytes.includes('needle')).toBe(true);
    expect(bytes.includes(digest)).toBe(true);
    expect(bytes.includes(secret.slice(8, 24))).toBe(false);
    expect(bytes.includes(secret.slice(-8))).toBe(false);
  });
});

describe('a search over keys in the embedded store', () => {
  keySearchContract(async () => {
    const { db, keys } = storeIn(await temporaryFolder());
    const history = new EmbeddedHistory({ db, wallMs: () => Date.now() });
    const putHistory = async (id: string, bytes: Uint8Array) => {
      db.prepare('INSERT OR REPLACE INTO histories VALUES (?, ?, ?)').run(id, bytes, Number.MAX_SAFE_INTEGER);
    };
    return { keys, history, putHistory };
  });

  test('knows of use that the gateway has not written yet', async () => {
    const { db } = storeIn(await temporaryFolder());
    const live = new Histories(db);
    live.admitted('key_1', Date.UTC(2026, 10, 22, 13, 30), 1);
    const history = new EmbeddedHistory({ db, wallMs: () => Date.now(), live });
    expect(await history.lastUsedMs(['key_1', 'key_2'])).toEqual([Date.UTC(2026, 10, 22, 13), null]);
  });
});

describe('a database', () => {
  test('of a later version is refused as it is', async () => {
    const folder = await temporaryFolder();
    storeIn(folder).db.exec('PRAGMA user_version = 99');
    expect(() => openDatabase(folder)).toThrow(
      expect.objectContaining({ code: 'store_corrupt', message: expect.stringContaining('later version') }),
    );
  });

  test('of somebody else is refused as it is', async () => {
    const folder = await temporaryFolder();
    const foreign = new DatabaseSync(join(folder, 'tollgate.db'));
    foreign.exec('CREATE TABLE recipes (name TEXT)');
    foreign.close();
    expect(() => openDatabase(folder)).toThrow(
      expect.objectContaining({ code: 'store_corrupt', message: expect.stringContaining("not one of Tollgate's") }),
    );
  });

  test('that is none, or broken, is refused with a sentence', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'tollgate.db'), 'x'.repeat(8_192));
    expect(() => openDatabase(folder)).toThrow(expect.objectContaining({ code: 'store_corrupt' }));
  });

  test('in a place that cannot be written is told as unavailable', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'file'), '');
    expect(() => openDatabase(join(folder, 'file'))).toThrow(expect.objectContaining({ code: 'store_unavailable' }));
  });
});

describe('the pepper of an embedded store', () => {
  test('is made once and the same ever after', async () => {
    const folder = await temporaryFolder();
    const { db } = storeIn(folder);
    const [made] = peppersOf(folder, db, []);
    expect(made).toMatch(/^[\w-]{43}$/);
    expect(peppersOf(folder, db, [])).toEqual([made]);
    expect(readdirSync(folder).filter((name) => name.includes('pepper'))).toEqual(['tollgate.pepper']);
  });

  test('stays good behind those of KEY_PEPPER, so that setting that loses no key', async () => {
    const folder = await temporaryFolder();
    const { db } = storeIn(folder);
    expect(peppersOf(folder, db, ['given'])).toEqual(['given']);
    const [own] = peppersOf(folder, db, []);
    expect(peppersOf(folder, db, ['new', 'old'])).toEqual(['new', 'old', own]);
  });

  test('is not made anew where keys need the one that is gone', async () => {
    const folder = await temporaryFolder();
    const { db, keys } = storeIn(folder);
    await keys.create(someKey().key);
    expect(() => peppersOf(folder, db, [])).toThrow(expect.objectContaining({ code: 'store_corrupt' }));
    expect(peppersOf(folder, db, ['given'])).toEqual(['given']);
  });

  test('that was cut short is told, not used', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'tollgate.pepper'), '\n');
    expect(() => peppersOf(folder, storeIn(folder).db, [])).toThrow(expect.objectContaining({ code: 'store_corrupt' }));
  });
});
