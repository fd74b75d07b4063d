import { X509Certificate } from 'node:crypto';
import { readAcmeFiles } from '../certificates/acme-certificates.ts';
import { readAdminTokens } from '../config/admin-tokens-file.ts';
import type { Variables } from '../config/environment.ts';
import { type AcmeTls, type Configuration, loadConfiguration, type Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import { Certificates, readClientCa } from '../listen/tls.ts';
import { clientSecretOf } from './admin-access.ts';
import { exposedFiles } from './exposed-files.ts';
import { LoadedPolicies } from './loaded-policies.ts';
import { readUpstreamTls } from './upstreams.ts';

/** A certificate that the gateway presents. Times are Unix milliseconds. */
export interface CheckedCertificate {
  /** The setting that names it: `listen.tls`. */
  readonly setting: string;
  readonly file: string;
  readonly validFromMs: number;
  readonly expiresAtMs: number;
}

/** What a start of the gateway would find in the settings. Each fault and each warning is one printable line. */
export interface CheckedSettings {
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
  /** Null if the environment, gateway.yaml or plans.yaml has a fault. */
  readonly configuration: Configuration | null;
  /** The settings alone, also if plans.yaml has faults. */
  readonly settings: Settings | null;
  readonly certificates: readonly CheckedCertificate[];
}

/**
 * Checks everything that a start reads, without opening a store or a port: the environment, both settings files, and the files
 * that they name (certificates, keys, admin tokens, policies, which are imported).
 */
export async function checkSettings(env: Variables): Promise<CheckedSettings> {
  const read = await loadConfiguration(env);
  const isFaulty = 'faults' in read;
  const settings = read.settings ?? null;
  const faults: string[] = isFaulty ? [...read.faults] : [];
  const warnings: string[] = isFaulty ? [] : [...read.warnings];
  const certificates: CheckedCertificate[] = [];
  if (settings !== null) {
    const { tokensFile, oidc } = settings.admin;
    if (oidc !== null) await noting(faults, async () => void clientSecretOf(oidc));
    const tokens = tokensFile === null ? { tokens: [] } : readAdminTokens(tokensFile);
    if ('faults' in tokens) faults.push(...tokens.faults);
    for (const [setting, tls] of [
      ['listen.tls', settings.listen.tls],
      ['admin.tls', settings.admin.tls],
    ] as const) {
      if (tls === null) continue;
      await noting(faults, async () => {
        if (tls.cert === null) return checkAcmeFiles(tls);
        const { current } = await Certificates.open(tls, () => Date.now(), setting);
        const { validFromMs, expiresAtMs } = current;
        certificates.push({ setting, file: tls.cert, validFromMs, expiresAtMs });
      });
    }
    for (const [i, files] of (settings.listen.tls?.certificates ?? []).entries()) {
      await noting(faults, async () => {
        const setting = `listen.tls.certificates[${i}]`;
        const { current } = await Certificates.open({ ...files, clientCa: null }, () => Date.now(), setting);
        certificates.push({ ...current, setting, file: files.cert });
      });
    }
    for (const [name, upstream] of settings.upstreams) {
      await noting(faults, async () => {
        const tls = readUpstreamTls(upstream);
        if (!tls?.cert) return;
        const [setting, file] = [`upstreams.${name}.tls`, upstream.tls!.cert!] as const;
        certificates.push({ setting, file, ...datesOf(tls.cert, `${setting}.cert: ${file}`) });
      });
    }
    const policies = new LoadedPolicies();
    await noting(faults, async () => {
      await policies.load(settings);
    });
    warnings.push(...exposedFiles(env, settings));
  }
  return { faults, warnings, configuration: isFaulty ? null : read, settings, certificates };
}

/** @throws Failure `bad_settings` */
async function checkAcmeFiles({ acme, clientCa }: AcmeTls): Promise<void> {
  await readAcmeFiles(acme);
  const found = clientCa === null ? null : await readClientCa(clientCa);
  if (typeof found === 'string') throw new Failure('bad_settings', `listen.tls: ${found}`);
}

async function noting(faults: string[], work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    faults.push(...error.message.split('\n'));
  }
}

/** @throws Failure `bad_settings` */
function datesOf(pem: string, where: string): Pick<CheckedCertificate, 'validFromMs' | 'expiresAtMs'> {
  try {
    const { validFromDate, validToDate } = new X509Certificate(pem);
    return { validFromMs: validFromDate.getTime(), expiresAtMs: validToDate.getTime() };
  } catch (cause) {
    throw new Failure('bad_settings', `${where} has no certificate in PEM form, or a broken one.`, cause);
  }
}
