import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { INT64_MIN } from '../../src/pets/pet.ts';
import { openPetStore } from '../../src/pets/store.ts';
import { newFolder } from './service.ts';

const EVERYTHING = { limit: 100, status: null, firstId: INT64_MIN } as const;

describe('the database of animals', () => {
  test('is made with its folder, for this user alone, and seeded once', () => {
    const folder = join(newFolder(), 'a', 'b');
    const file = join(folder, 'pets.db');
    const store = openPetStore(file);
    expect(store.list(EVERYTHING).pets.map(({ name }) => name)).toContain('Biscuit');
    store.close();
    expect(statSync(folder).mode & 0o777).toBe(0o700);

    const db = new DatabaseSync(file);
    db.exec('DELETE FROM pets');
    db.close();
    const again = openPetStore(file);
    expect(again.list(EVERYTHING)).toEqual({ pets: [], nextId: null });
    // Ids of animals that are gone are not given again.
    expect(again.add({ name: 'New', categoryId: 1n, status: 'sold' }).id).toBe(6n);
    again.close();
  });

  test('two services on one new file seed it once and see what the other adds', () => {
    const file = join(newFolder(), 'pets.db');
    const [one, other] = [openPetStore(file), openPetStore(file)];
    const added = one.add({ name: 'Shared', categoryId: 1n, status: 'pending' });
    expect(other.get(added.id)).toEqual(added);
    expect(other.list(EVERYTHING).pets).toHaveLength(6);
    one.close();
    other.close();
  });

  test('a file that is no database, or of another version, or a folder: refused with what to do', () => {
    const folder = newFolder();
    const garbage = join(folder, 'garbage.db');
    writeFileSync(garbage, 'not a database, '.repeat(100));
    const newer = join(folder, 'newer.db');
    const db = new DatabaseSync(newer);
    db.exec('PRAGMA user_version = 99');
    db.close();
    mkdirSync(join(folder, 'folder.db'));
    for (const [file, code] of [
      [garbage, 'store_corrupt'],
      [newer, 'store_corrupt'],
      [join(folder, 'folder.db'), 'bad_settings'],
      [join(garbage, 'pets.db'), 'bad_settings'],
    ] as const) {
      expect(() => openPetStore(file)).toThrow(
        expect.objectContaining({ name: 'Failure', code, message: expect.stringContaining('Set TOLLGATE_DATA') }),
      );
    }
  });
});
