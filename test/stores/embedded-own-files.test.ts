import { chownSync, lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { ownStore } from '../../src/stores/embedded/owner.ts';
import { peppersOf } from '../../src/stores/embedded/pepper.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const REFUSED = { code: 'store_unavailable', message: expect.stringContaining('is a link') };
const isRoot = process.getuid?.() === 0;

describe('a link that another user has planted in the data folder is not followed (reliability 247)', () => {
  test.each(['tollgate.db', 'tollgate.db-wal', 'tollgate.db-shm'])('%s', async (name) => {
    const folder = await temporaryFolder();
    const victim = join(await temporaryFolder(), 'victim');
    writeFileSync(victim, 'precious', { mode: 0o644 });
    symlinkSync(victim, join(folder, name));
    expect(() => openDatabase(folder)).toThrow(expect.objectContaining(REFUSED));
    expect(readFileSync(victim, 'utf8')).toBe('precious');
    expect(lstatSync(victim).mode & 0o777).toBe(0o644);
  });

  test('owner.lock, to a file that is not there', async () => {
    const folder = await temporaryFolder();
    const missing = join(await temporaryFolder(), 'missing');
    symlinkSync(missing, join(folder, 'owner.lock'));
    await expect(ownStore(folder)).rejects.toMatchObject(REFUSED);
    expect(lstatSync(missing, { throwIfNoEntry: false })).toBeUndefined();
  });

  test('tollgate.pepper', async () => {
    const folder = await temporaryFolder();
    const other = join(await temporaryFolder(), 'pepper');
    writeFileSync(other, 'p'.repeat(43));
    symlinkSync(other, join(folder, 'tollgate.pepper'));
    const db = openDatabase(folder);
    expect(() => peppersOf(folder, db, [])).toThrow(expect.objectContaining(REFUSED));
    db.close();
  });
});

// Only root can give a folder to another user.
describe.runIf(isRoot)('a data folder of another user is refused (reliability 247)', () => {
  test('with a sentence that says what to do, and nothing is made in it', async () => {
    const folder = join(await temporaryFolder(), 'data');
    mkdirSync(folder);
    chownSync(folder, 65_534, 65_534);
    const refused = { code: 'store_unavailable', message: expect.stringMatching(/belongs to .*65534.*chown/) };
    expect(() => openDatabase(folder)).toThrow(expect.objectContaining(refused));
    await expect(ownStore(folder)).rejects.toMatchObject(refused);
    expect(lstatSync(join(folder, 'tollgate.db'), { throwIfNoEntry: false })).toBeUndefined();
  });

  test('also behind a link of that user', async () => {
    const parent = await temporaryFolder();
    const own = join(parent, 'own');
    mkdirSync(own);
    chownSync(own, 65_534, 65_534);
    symlinkSync(own, join(parent, 'link'));
    expect(() => openDatabase(join(parent, 'link'))).toThrow(expect.objectContaining({ code: 'store_unavailable' }));
  });
});
