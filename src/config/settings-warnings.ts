import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';
import type { Route } from '../routing/route.ts';
import type { Path } from './fault.ts';

// What is probably wrong with gateway.yaml together with the environment, this machine and the certificates that it names.

/** A warning about a value of gateway.yaml. */
export interface SettingsWarning {
  readonly path: Path;
  readonly message: string;
}

/** The parts of the settings that are compared: of gateway.yaml with the environment laid over it. */
interface ComparedSettings {
  readonly listen: {
    readonly host: string;
    readonly port: number;
    readonly tls: TlsSource | null;
    readonly trustedProxies: readonly string[];
    readonly proxyProtocol: boolean;
  };
  readonly admin: { readonly tls: { readonly cert: string } | null };
  readonly upstreams: ReadonlyMap<string, ComparedUpstream>;
  readonly routes: readonly Pick<Route, 'hosts'>[];
}

/** The certificate of the public listener: in a file, or ordered by ACME. */
type TlsSource = { readonly certificates: readonly { readonly cert: string }[] } & (
  | { readonly cert: string }
  | { readonly cert: null; readonly acme: { readonly domains: readonly string[] } }
);

interface ComparedUpstream {
  readonly name: string;
  readonly targets: readonly { readonly url: string }[];
  readonly tls: { readonly cert: string | null } | null;
}

/** Warns of targets that are the gateway's own port: a request to one of them comes back, and is refused as a loop. */
export function ownTargets({ upstreams, listen }: ComparedSettings): readonly SettingsWarning[] {
  const isOwn = isAddressOf(plainHost(listen.host.toLowerCase()));
  return [...upstreams.values()].flatMap(({ name, targets }) =>
    targets.flatMap(({ url }, i) => {
      const target = URL.parse(url);
      if (target === null || listen.port === 0 || portOf(target) !== listen.port) return [];
      if (!isOwn(plainHost(target.hostname))) return [];
      const message = `is the port of this gateway (${listen.port}), so requests come back to it and are refused as a loop; name the address of the service.`;
      return [{ path: ['upstreams', name, 'targets', i], message }];
    }),
  );
}

function portOf({ protocol, port }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : protocol === 'http:' ? 80 : 0;
}

/** A host without brackets and the last dot of a name, and an address in its shortest form. */
function plainHost(host: string): string {
  const plain = host.replace(/^\[|\]$|\.$/g, '');
  return isIP(plain) === 0 ? plain : ipaddr.process(plain).toString();
}

/** As targets these are loopback addresses too. */
const EVERY_ADDRESS = ['0.0.0.0', '::'];

/** Tests whether a host of a target leads to a listener. @param listening `listen.host` */
function isAddressOf(listening: string): (host: string) => boolean {
  const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.');
  if (!EVERY_ADDRESS.includes(listening)) {
    // Which loopback address the name stands for is known to the system alone.
    const isVague = (host: string) => host === 'localhost' || EVERY_ADDRESS.includes(host);
    return (host) =>
      host === listening ||
      (isVague(host) && isLoopback(listening)) ||
      (listening === 'localhost' && (host === '127.0.0.1' || host === '::1'));
  }
  const addresses = Object.values(networkInterfaces()).flatMap((of = []) => of.map(({ address }) => address));
  const own = new Set([...addresses, ...EVERY_ADDRESS, hostname().toLowerCase()]);
  return (host) => isLoopback(host) || own.has(host);
}

/** Warns of certificates that have expired or are not valid yet, and of hosts of routes for which the gateway has no certificate. */
export function certificateWarnings(settings: ComparedSettings, nowMs: number): readonly SettingsWarning[] {
  const { listen, admin, upstreams } = settings;
  const files: readonly (readonly [Path, string | null | undefined])[] = [
    [['listen', 'tls', 'cert'], listen.tls?.cert],
    ...(listen.tls?.certificates ?? []).map(
      ({ cert }, i) => [['listen', 'tls', 'certificates', i, 'cert'], cert] as const,
    ),
    [['admin', 'tls', 'cert'], admin.tls?.cert],
    ...[...upstreams.values()].map(({ name, tls }) => [['upstreams', name, 'tls', 'cert'], tls?.cert] as const),
  ];
  const dated = files.flatMap(([path, file]): SettingsWarning[] => {
    const certificate = readCertificate(file);
    if (certificate === null) return [];
    const { validFromDate, validToDate } = certificate;
    const message = outOfDate({ validFromMs: validFromDate.getTime(), expiresAtMs: validToDate.getTime() }, nowMs);
    return message === null ? [] : [{ path, message }];
  });
  return [...dated, ...nameless(settings), ...foreignHosts(settings)];
}

/** The gateway chooses a further certificate by its DNS names. The subject of a certificate does not count as one. */
function nameless({ listen: { tls } }: ComparedSettings): readonly SettingsWarning[] {
  return (tls?.certificates ?? []).flatMap(({ cert }, i) => {
    const certificate = readCertificate(cert);
    if (certificate === null || /(?:^|, )DNS:/.test(certificate.subjectAltName ?? '')) return [];
    const message = 'has no DNS name (subjectAltName), so no client gets it. Order one with the names of its hosts.';
    return [{ path: ['listen', 'tls', 'certificates', i, 'cert'], message }];
  });
}

interface Dates {
  readonly validFromMs: number;
  readonly expiresAtMs: number;
}

/** What is wrong with the dates of a certificate, as the end of a sentence; null if it is valid now. */
export function outOfDate({ validFromMs, expiresAtMs }: Dates, nowMs: number): string | null {
  if (validFromMs > nowMs) return `is not valid before ${dayOf(validFromMs)}. Check the clock, or replace it.`;
  if (expiresAtMs > nowMs) return null;
  return `ended on ${dayOf(expiresAtMs)}. Replace it; a running gateway takes it up by itself.`;
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The certificate of a file; null if it has none, which a start reports as a fault, or if it is a pipe, which is read once. */
function readCertificate(file: string | null | undefined): X509Certificate | null {
  if (file === null || file === undefined) return null;
  try {
    return statSync(file).isFile() ? new X509Certificate(readFileSync(file)) : null;
  } catch {
    return null;
  }
}

/** The first route of each host that clients could not reach, because no certificate is for it. */
function foreignHosts({ listen, routes }: ComparedSettings): readonly SettingsWarning[] {
  const { tls, trustedProxies, proxyProtocol } = listen;
  // A proxy in front that ends TLS has a certificate of its own, and need not ask the gateway for the names of clients.
  if (tls === null || (trustedProxies.length > 0 && !proxyProtocol)) return [];
  const files = [tls.cert, ...tls.certificates.map(({ cert }) => cert)].filter((file) => file !== null);
  const certificates = files.map(readCertificate);
  const domains = tls.cert === null ? tls.acme.domains : [];
  const isNamed = (host: string) =>
    domains.includes(host) || certificates.some((one) => one === null || covers(one, host));
  const own = tls.cert === null ? 'listen.tls.acme.domains' : 'the names of the certificate in listen.tls.cert';
  const where = tls.certificates.length === 0 ? own : `${own}, or of those in listen.tls.certificates`;
  const seen = new Set<string>();
  return routes.flatMap(({ hosts }, i) =>
    (hosts ?? []).flatMap((host, j): SettingsWarning[] => {
      if (seen.has(host) || isNamed(host)) return [];
      seen.add(host);
      const message = `is not among ${where}: clients that check it cannot reach this host.`;
      return [{ path: ['routes', i, 'hosts', j], message }];
    }),
  );
}

/** @param host of a route; of `*.example.com` the name of one label below it has to be covered */
function covers(certificate: X509Certificate, host: string): boolean {
  const name = host.replace(/^\*/, 'any');
  return (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined;
}
