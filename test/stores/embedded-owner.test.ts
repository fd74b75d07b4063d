import { copyFileSync, mkdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ownStore, ownStoreSoon } from '../../src/stores/embedded/owner.ts';
import { atEnd } from '../support/endings.ts';
import { ROOT, startProcess, temporaryFolder } from '../support/processes.ts';
import { ROOM } from '../support/room.ts';

/** What another process gets that wants to own the folder: `owned`, or the code of the failure. */
async function inAnotherProcess(folder: string): Promise<string> {
  const path = JSON.stringify(join(ROOT, 'src/stores/embedded/owner.ts'));
  const other = startProcess(process.execPath, [
    '--input-type=module-typescript',
    '--eval',
    `import { ownStore } from ${path};
     console.log(await ownStore(${JSON.stringify(folder)}).then(() => 'owned', ({ code }) => code));`,
  ]);
  const { code } = await other.exit;
  expect(code, other.stderr).toBe(0);
  return other.stdout.trim();
}

/** Whether another process finds the file locked, as a gateway in another container would. */
async function lockedElsewhere(lock: string): Promise<boolean> {
  const other = startProcess(process.execPath, [
    '--input-type=module',
    '--eval',
    `import { DatabaseSync } from 'node:sqlite';
     const db = new DatabaseSync(${JSON.stringify(lock)});
     try { db.exec('BEGIN EXCLUSIVE'); console.log('free'); } catch { console.log('locked'); }`,
  ]);
  await other.exit;
  return other.stdout.trim() === 'locked';
}

async function ownedFolder() {
  const folder = await temporaryFolder();
  const owner = await ownStore(folder);
  atEnd(() => owner.release());
  return { folder, owner, lock: join(folder, 'owner.lock') };
}

describe('the owner of an embedded store (reliability 245)', () => {
  test('keeps it when owner.lock is deleted', async () => {
    const { folder, lock } = await ownedFolder();
    rmSync(lock);
    expect(await inAnotherProcess(folder)).toBe('store_owned');
  });

  test('keeps it when owner.lock is replaced, and locks the new file', async () => {
    const { folder, owner, lock } = await ownedFolder();
    copyFileSync(lock, `${lock}.copy`);
    renameSync(`${lock}.copy`, lock);
    owner.insist();
    expect(await inAnotherProcess(folder)).toBe('store_owned');
  });

  test('keeps it when a second gateway of the same process is refused', async () => {
    const { folder } = await ownedFolder();
    await expect(ownStore(folder)).rejects.toMatchObject({ code: 'store_owned' });
    expect(await inAnotherProcess(folder)).toBe('store_owned');
  });

  test('keeps its lock while another cannot be made, and makes one as soon as it can', async () => {
    const { folder, owner, lock } = await ownedFolder();
    rmSync(lock);
    mkdirSync(lock);
    expect(() => owner.insist()).toThrow(expect.objectContaining({ code: 'store_unavailable' }));
    expect(() => owner.insist()).toThrow(expect.objectContaining({ code: 'store_unavailable' }));
    rmdirSync(lock);
    owner.insist();
    owner.insist();
    expect(await lockedElsewhere(lock)).toBe(true);
    expect(await inAnotherProcess(folder)).toBe('store_owned');
  });

  test('keeps its lock when the folder is moved away and back', async () => {
    const { folder, owner, lock } = await ownedFolder();
    renameSync(folder, `${folder}-moved`);
    expect(() => owner.insist()).toThrow();
    renameSync(`${folder}-moved`, folder);
    owner.insist();
    expect(await lockedElsewhere(lock)).toBe(true);
  });

  test('leaves it to the next one', async () => {
    const folder = await temporaryFolder();
    const owner = await ownStore(folder);
    owner.release();
    expect(await inAnotherProcess(folder)).toBe('owned');
  });

  test('waits for a command that has it, and says so where it waits in vain', async () => {
    const folder = await temporaryFolder();
    const command = await ownStore(folder);
    await expect(ownStoreSoon(folder, 100)).rejects.toThrow(/^Another gateway or command owns, and has not released/);
    const waiting = ownStoreSoon(folder, 10_000 * ROOM);
    command.release();
    (await waiting).release();
  });

  test('loses nothing to a process that ended without releasing it', async () => {
    const folder = await temporaryFolder();
    expect(await inAnotherProcess(folder)).toBe('owned');
    const owner = await ownStore(folder);
    owner.release();
  });
});
