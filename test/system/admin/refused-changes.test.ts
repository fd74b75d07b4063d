import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ask, openWithAdmin, STORES } from '../../admin/operator.ts';
import { temporaryFolder } from '../../support/processes.ts';

const VIEWER = 'the-token-of-a-viewer-1';
const KEEP = 1_000;

// Attack: somebody whose role allows no change tries so many that the records of the changes that were made are gone.
test.each(Object.keys(STORES))(
  'on %s, no number of refused changes removes the record of one that was made (reliability 236)',
  async (store) => {
    const file = join(await temporaryFolder(), 'tokens.yaml');
    await writeFile(file, `- { name: vera, role: viewer, token: ${VIEWER} }`, { mode: 0o600 });
    const env = { ...(await STORES[store]!()), ADMIN_TOKENS_FILE: file };
    const gateway = await openWithAdmin(env, { more: `audit: { keep: ${KEEP} }` });
    const { id } = (await ask(gateway, 'POST', '/admin/keys', { plan: 'free' })).body;
    await ask(gateway, 'PATCH', `/admin/keys/${id}`, { name: 'n' });
    const made = (await ask(gateway, 'GET', '/admin/audit')).body.changes;
    expect(made).toMatchObject([
      { action: 'key.update', outcome: 'done', count: 1 },
      { action: 'key.create', outcome: 'done', count: 1 },
    ]);

    const statuses = new Map<number, number>();
    const attempts = [
      // Refused for the role, and by the store: such a change has been begun.
      () => ask(gateway, 'DELETE', `/admin/keys/${id}`, undefined, { Authorization: `Bearer ${VIEWER}` }),
      () => ask(gateway, 'DELETE', '/admin/keys/key_0000000000000000'),
    ];
    for (const attempt of attempts) {
      let left = KEEP + 20;
      const one = async () => {
        while (left-- > 0) {
          const { status } = await attempt();
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
        }
      };
      await Promise.all(Array.from({ length: 8 }, one));
    }
    expect(statuses).toEqual(
      new Map([
        [403, KEEP + 20],
        [404, KEEP + 20],
      ]),
    );

    const { changes, cursor } = (await ask(gateway, 'GET', '/admin/audit?limit=1000')).body;
    expect(cursor).toBeNull();
    type Change = { readonly outcome: string; readonly code: string; readonly count: number; readonly actor: object };
    expect(changes.filter(({ outcome }: Change) => outcome !== 'refused')).toEqual(made);
    const refused: Change[] = changes.filter(({ outcome }: Change) => outcome === 'refused');
    for (const [code, name] of [
      ['forbidden', 'vera'],
      ['not_found', 'ADMIN_TOKEN'],
    ] as const) {
      const own = refused.filter((change) => change.code === code);
      expect(own.reduce((sum, { count }) => sum + count, 0)).toBe(KEEP + 20);
      // One for each minute that this took.
      expect(own.length).toBeLessThan(10);
      for (const { actor } of own) expect(actor).toEqual({ kind: 'token', name });
    }
    const { stdout } = await gateway.command('audit', '--actor', 'vera (token)');
    expect(stdout).toMatch(/vera \(token\).*key\.revoke.*refused \(forbidden\) ×[0-9]+/);
    expect(stdout).not.toContain('ADMIN_TOKEN');
  },
);
