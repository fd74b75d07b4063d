import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeArchive } from '../../../tools/release/image-archive.ts';
import { temporaryFolder } from '../../support/processes.ts';

/** What buildah writes, with the random names of one build. */
async function archiveOf(random: string, label = 'a'): Promise<string> {
  const at = await temporaryFolder();
  const pieces = join(at, 'pieces');
  mkdirSync(pieces);
  const config = { User: '1000', Hostname: random, Image: random, Labels: { label } };
  const built = { container: random, container_config: config, parent: random };
  const history = [{ created_by: 'COPY', comment: `FROM ${random}` }];
  writeFileSync(join(pieces, 'c.json'), JSON.stringify({ ...built, config, history, rootfs: { diff_ids: ['l'] } }));
  writeFileSync(join(pieces, 'l.tar'), 'a layer');
  const manifest = [{ Config: 'c.json', RepoTags: ['tollgate:1'], Layers: ['l.tar', 'l.tar'] }];
  writeFileSync(join(pieces, 'manifest.json'), JSON.stringify(manifest));
  execFileSync('tar', ['-cf', join(at, 'draft.tar'), '-C', pieces, 'manifest.json', 'c.json', 'l.tar']);
  return join(at, 'draft.tar');
}

async function rewritten(draft: string): Promise<{ id: string; bytes: Buffer; configuration: unknown }> {
  const at = await temporaryFolder();
  const id = writeArchive(draft, join(at, 'image.tar'), join(at, 'pieces'), 1_750_000_000);
  const name = `${id.replace('sha256:', '')}.json`;
  const configuration: unknown = JSON.parse(String(execFileSync('tar', ['-xOf', join(at, 'image.tar'), name])));
  return { id, bytes: readFileSync(join(at, 'image.tar')), configuration };
}

test('two images that differ in the names of the build have the same id and bytes', async () => {
  const [one, other] = [await rewritten(await archiveOf('abc')), await rewritten(await archiveOf('defgh'))];
  expect(one.id).toBe(other.id);
  expect(one.bytes.equals(other.bytes)).toBe(true);
  expect(one.configuration).toEqual({
    config: { User: '1000', Labels: { label: 'a' } },
    history: [{ created_by: 'COPY' }],
    rootfs: { diff_ids: ['l'] },
  });
});

test('images that differ in anything else have other ids', async () => {
  const [one, other] = [await rewritten(await archiveOf('abc')), await rewritten(await archiveOf('abc', 'b'))];
  expect(one.id).not.toBe(other.id);
});
