import { beforeEach, expect, test } from 'vitest';
import { type CertificateStore, NAMES } from '../../src/certificates/certificate-store.ts';

const LEASE = NAMES.lease('one');
const kept = (name: string, text: string | null) => ({ name, text, keptMs: null });

/** What every store of ACME's records must do. @param open a store that is empty */
export function certificateStoreContract(open: () => Promise<CertificateStore>): void {
  const mine = { name: LEASE, holder: 'mine' };
  let store: CertificateStore;
  beforeEach(async () => {
    store = await open();
    expect(await store.lease(mine, 60_000)).toBe(true);
  });

  test('what is written is read, replaced and removed', async () => {
    const [account, certificate] = [NAMES.account('one'), NAMES.certificate('one')];
    expect(await store.read(account)).toBe(null);
    const text = 'é\n'.repeat(5_000);
    expect(await store.write(mine, [kept(account, 'a'), kept(certificate, text)])).toBe(true);
    expect(await Promise.all([store.read(account), store.read(certificate)])).toEqual(['a', text]);
    expect(await store.write(mine, [kept(account, 'b'), kept(certificate, null)])).toBe(true);
    expect(await Promise.all([store.read(account), store.read(certificate)])).toEqual(['b', null]);
    expect(await store.write(mine, [kept(certificate, null)])).toBe(true);
  });

  test('the answer to a challenge is read until it is removed', async () => {
    const challenge = NAMES.challenge('api.example.com');
    await store.write(mine, [{ name: challenge, text: 'token.thumbprint', keptMs: 60_000 }]);
    expect(await store.read(challenge)).toBe('token.thumbprint');
    await store.write(mine, [kept(challenge, null)]);
    expect(await store.read(challenge)).toBe(null);
  });

  test('a holder keeps its lease, and may give it back and take it again', async () => {
    expect(await store.lease(mine, 60_000)).toBe(true);
    await store.release(mine);
    expect(await store.lease(mine, 60_000)).toBe(true);
  });
}
