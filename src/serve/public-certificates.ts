import { statSync } from 'node:fs';
import { AcmeCertificates, type AcmeEvents } from '../certificates/acme-certificates.ts';
import { sealingUnder, UNSEALED } from '../certificates/acme-records.ts';
import { ChallengeCertificates } from '../certificates/challenge-certificates.ts';
import type { Acme, AcmeTls, FilesTls, Settings } from '../config/settings.ts';
import { CLOCKS } from '../io/clocks.ts';
import type { ListenerCertificates } from '../listen/accept.ts';
import { listenForHttpChallenges } from '../listen/http-challenge.ts';
import { type CertificateSource, Certificates } from '../listen/tls.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';
import type { GatewayStores } from './gateway-stores.ts';

/** The certificate of the public listener, from files or by ACME. */
export interface PublicCertificates {
  readonly source: CertificateSource;
  readonly ofListener: ListenerCertificates;
  /** When the first of all certificates expires, Unix milliseconds; null before there is one. */
  expiresAtMs(): number | null;
  /**
   * Follows the files, or orders and renews. Called when the public port is open.
   * @throws Failure `cannot_listen` for the port of HTTP-01
   */
  begin(): Promise<void>;
  /** The gateway stops: an order that is under way is left to other gateways. */
  stopOrdering(): Promise<void>;
  close(): Promise<void>;
}

interface Telling {
  readonly log: GatewayLog;
  /** The metrics are opened later than the certificates. */
  readonly metrics: () => GatewayMetrics | undefined;
  /** Whether this process has the listener of HTTP-01. Of several workers one has it. */
  readonly listensForHttp: boolean;
}

/**
 * @returns null without TLS
 * @throws Failure `bad_settings` if a file cannot be used
 */
export async function openPublicCertificates(
  { tls, host }: Settings['listen'],
  stores: GatewayStores,
  telling: Telling,
): Promise<PublicCertificates | null> {
  if (tls === null) return null;
  const further = await Promise.all(
    tls.certificates.map(async (files, i) => {
      const setting = `listen.tls.certificates[${i}]`;
      return {
        files,
        opened: await Certificates.open({ ...files, clientCa: tls.clientCa }, () => Date.now(), setting),
      };
    }),
  );
  const first = tls.acme === null ? await openFiles(tls, telling) : await openAcme(tls, host, stores, telling);
  return {
    ...first,
    ofListener: { ...first.ofListener, further: further.map(({ opened }) => opened) },
    expiresAtMs: () => {
      const all = [first.source, ...further.map(({ opened }) => opened)].flatMap(({ current }) => current ?? []);
      return all.length === 0 ? null : Math.min(...all.map(({ expiresAtMs }) => expiresAtMs));
    },
    begin: async () => {
      await first.begin();
      for (const { files, opened } of further) followFiles(opened, files.cert, telling);
    },
    close: async () => {
      for (const { opened } of further) opened.close();
      await first.close();
    },
  };
}

type FirstCertificate = Omit<PublicCertificates, 'expiresAtMs'>;

async function openFiles(tls: FilesTls, telling: Telling): Promise<FirstCertificate> {
  const certificates = await Certificates.open(tls, () => Date.now());
  return {
    source: certificates,
    ofListener: { certificates, challengeCertificateFor: null },
    begin: async () => followFiles(certificates, tls.cert, telling),
    stopOrdering: async () => {},
    close: async () => certificates.close(),
  };
}

/**
 * Reloads the certificate when its files change; logs and counts each new one, and each one that cannot be used. That the first one has
 * expired is a warning of the settings, unless it comes from a pipe (`certificateWarnings`).
 */
function followFiles(certificates: Certificates, file: string, { log: { logger }, metrics }: Telling): void {
  const { current } = certificates;
  if (current.expiresAtMs > Date.now() || !statSync(file, { throwIfNoEntry: false })?.isFile())
    logExpiry(current, logger);
  certificates.follow({
    onLoaded: (certificate) => {
      metrics()?.certificateRead('loaded');
      logExpiry(certificate, logger);
    },
    onRefused: (why) => {
      metrics()?.certificateRead('refused');
      logger.error({ why }, 'the new TLS certificate cannot be used, the one before stays in force');
    },
  });
}

function logExpiry({ expiresAtMs }: { readonly expiresAtMs: number }, logger: GatewayLog['logger']): void {
  const expires = new Date(expiresAtMs).toISOString();
  if (expiresAtMs > Date.now()) logger.info({ expires }, 'the TLS certificate in force');
  else logger.error({ expires }, 'the TLS certificate in force has expired');
}

async function openAcme(
  { acme, clientCa }: AcmeTls,
  host: string,
  { certificates: store, peppers, pepperState }: GatewayStores,
  telling: Telling,
): Promise<FirstCertificate> {
  if (store === null) throw new Error('the store was opened without the records of ACME');
  const certificates = await AcmeCertificates.open({
    acme,
    clientCa,
    store,
    sealing: store.isShared ? sealingUnder(peppers) : UNSEALED,
    events: eventsOf(acme, telling),
    wallMs: CLOCKS.wallMs,
    random: Math.random,
    mayOrder: () => pepperState() !== 'mismatch',
  });
  const answerTo = (subject: string) => certificates.answerTo(subject);
  const challenges =
    acme.challenge === 'tls-alpn-01' ? new ChallengeCertificates(acme.domains, answerTo, CLOCKS.monotonicMs) : null;
  const http: { close?: () => Promise<void> } = {};
  return {
    source: certificates,
    ofListener: {
      certificates,
      challengeCertificateFor: challenges === null ? null : (domain) => challenges.certificateFor(domain),
    },
    begin: async () => {
      if (acme.challenge === 'http-01' && telling.listensForHttp) {
        const { domains, httpPort } = acme;
        const listener = await listenForHttpChallenges({ host, port: httpPort, domains, answerTo });
        http.close = () => listener.close();
        telling.log.logger.info({ host, port: listener.port }, 'answering HTTP-01 challenges');
      }
      logState(certificates, acme, telling);
      certificates.begin();
    },
    stopOrdering: async () => {
      // A worker that takes the place of this one listens on the same port.
      await http.close?.();
      delete http.close;
      await certificates.close();
    },
    close: async () => {
      await http.close?.();
      await certificates.close();
    },
  };
}

function logState({ current }: AcmeCertificates, { domains, directory }: Acme, { log: { logger } }: Telling): void {
  if (current === null)
    logger.warn({ domains, directory }, 'no TLS certificate yet: handshakes fail until one is issued');
}

function eventsOf({ domains, directory }: Acme, { log: { logger }, metrics }: Telling): AcmeEvents {
  return {
    onLoaded: (certificate) => {
      metrics()?.certificateRead('loaded');
      logExpiry(certificate, logger);
    },
    onOrdering: () => logger.info({ domains, directory }, 'ordering a TLS certificate'),
    onIssued: (again) => {
      metrics()?.certificateOrdered('issued');
      logger.info({ domains }, 'a TLS certificate was issued');
      if (again === null) return;
      const { why, nextTryAtMs } = again;
      logger.warn({ why, nextTry: new Date(nextTryAtMs).toISOString() }, 'the next TLS certificate is ordered soon');
    },
    onFailed: ({ why, failures, nextTryAtMs }) => {
      metrics()?.certificateOrdered('failed');
      const nextTry = new Date(nextTryAtMs).toISOString();
      logger.error({ why, failures, nextTry }, 'no TLS certificate was issued');
    },
    onTrouble: (why) => logger.error({ why }, 'the TLS certificate of the store cannot be followed'),
  };
}
