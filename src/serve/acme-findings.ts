import { X509Certificate } from 'node:crypto';
import { idOf, readFailed, readIssued, type Sealing } from '../certificates/acme-records.ts';
import { type CertificateStore, NAMES } from '../certificates/certificate-store.ts';
import type { Acme } from '../config/settings.ts';

/** As `Finding` of doctor.ts, without the name of the check. */
interface AcmeFinding {
  readonly state: 'ok' | 'warn' | 'fail';
  readonly message: string;
}

/**
 * What `tollgate doctor` reports about the certificate of `listen.tls.acme`: until when it is valid, why the last order failed, and when
 * the next one comes. Nothing is ordered.
 * @param nowMs Unix milliseconds
 */
export async function* findingsOfAcme(
  { directory, domains }: Acme,
  { store, sealing }: { readonly store: CertificateStore; readonly sealing: Sealing },
  nowMs: number,
): AsyncGenerator<AcmeFinding> {
  const id = idOf(directory, domains);
  const name = NAMES.certificate(id);
  const text = await store.read(name);
  const issued = text === null ? null : readIssued(sealing.open(name, text));
  const failed = readFailed(await store.read(NAMES.attempt(id)));
  const where = `The certificate of listen.tls.acme for ${domains.join(', ')}`;
  if (text !== null && issued === null) {
    const message = `${where} cannot be read: KEY_PEPPER is not the one under which it was stored, or it is damaged. The gateway orders another at its next start.`;
    yield { state: 'warn', message };
  } else if (issued === null) {
    const message = `${where} has not been issued yet. A running gateway orders it: see its log.`;
    yield { state: failed === null ? 'warn' : 'fail', message };
  } else {
    const { validFromDate, validToDate } = new X509Certificate(issued.cert);
    const [fromMs, endMs] = [validFromDate.getTime(), validToDate.getTime()];
    const end = `${where} ${endMs > nowMs ? 'is valid until' : 'ended at'} ${validToDate.toISOString()}`;
    // Renewal begins when a third is left; when a quarter is left, something keeps it from succeeding.
    const state = endMs <= nowMs ? 'fail' : endMs - nowMs < (endMs - fromMs) / 4 ? 'warn' : 'ok';
    yield { state, message: state === 'ok' ? `${end}.` : `${end}. Its renewal is late.` };
  }
  if (failed === null) return;
  const [at, next] = [failed.atMs, failed.nextTryAtMs].map((ms) => new Date(ms).toISOString());
  const message = `The last order failed at ${at}: ${failed.why} Next try: ${next}.`;
  yield { state: 'warn', message };
}
