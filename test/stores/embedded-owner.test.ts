import { copyFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ownStore } from '../../src/stores/embedded/owner.ts';
import { atEnd } from '../support/endings.ts';
import { ROOT, startProcess, temporaryFolder } from '../support/processes.ts';

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

  test('leaves it to the next one', async () => {
    const folder = await temporaryFolder();
    const owner = await ownStore(folder);
    owner.release();
    expect(await inAnotherProcess(folder)).toBe('owned');
  });

  test('loses nothing to a process that ended without releasing it', async () => {
    const folder = await temporaryFolder();
    expect(await inAnotherProcess(folder)).toBe('owned');
    const owner = await ownStore(folder);
    owner.release();
  });
});
