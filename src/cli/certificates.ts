import type { Settings } from '../config/settings.ts';
import { Certificates } from '../listen/certificates.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';

/** @throws Failure `bad_settings` where certificate and key cannot be used */
export async function openCertificates(tls: Settings['listen']['tls']): Promise<Certificates | null> {
  return tls === null ? null : Certificates.open(tls, () => Date.now());
}

/** Tells the log and the metrics of every certificate that comes into force, and of every one that cannot. */
export function followCertificates(certificates: Certificates, { logger }: GatewayLog, metrics: GatewayMetrics): void {
  const tell = ({ expiresAtMs }: { expiresAtMs: number }) => {
    const expires = new Date(expiresAtMs).toISOString();
    if (expiresAtMs > Date.now()) logger.info({ expires }, 'the TLS certificate in force');
    else logger.error({ expires }, 'the TLS certificate in force has expired');
  };
  tell(certificates.current);
  certificates.follow({
    onLoaded: (certificate) => {
      metrics.certificateRead('loaded');
      tell(certificate);
    },
    onRefused: (why) => {
      metrics.certificateRead('refused');
      logger.error({ why }, 'the new TLS certificate cannot be used, the one before stays in force');
    },
  });
}
