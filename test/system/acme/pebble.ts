import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { createAuthority } from '../../support/certificates.ts';
import { freePort } from '../../support/free-port.ts';
import { type GatewaySetup, startGateway, type TestGateway } from '../../support/gateway.ts';
import { type Running, startProcess, temporaryFolder } from '../../support/processes.ts';

export const DOMAIN = 'api.example.test';

/** A certificate authority of the test's own, which resolves every name to 127.0.0.1. */
export interface Pebble {
  /** Where it looks for TLS-ALPN-01 and HTTP-01. */
  readonly tlsPort: number;
  readonly httpPort: number;
  readonly directory: string;
  /** The file with the authority of its own HTTPS. */
  readonly directoryCa: string;
  readonly process: Running;
  /** How many certificates it has issued. */
  issued(): number;
  /** Starts it again, without memory of accounts and orders. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface PebbleOptions {
  /** The lifetime of its certificates, in seconds. */
  readonly validForS?: number;
  /** The percentage of good nonces that it refuses. */
  readonly refusedNonces?: number;
  /** The key ids that accounts must have been bound with, with their HMAC keys. */
  readonly bindings?: Readonly<Record<string, string>>;
  /** False: `restart` starts it for the first time. */
  readonly starts?: boolean;
}

export async function startPebble(options: PebbleOptions = {}): Promise<Pebble> {
  const folder = await temporaryFolder();
  const authority = await createAuthority(folder);
  const { cert, key } = await authority.issue('localhost');
  const [port, management, tlsPort, httpPort, dns, dnsManagement] = await ports(6);
  const config = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: cert,
    privateKey: key,
    httpPort,
    tlsPort,
    ocspResponderURL: '',
    externalAccountBindingRequired: options.bindings !== undefined,
    externalAccountMACKeys: options.bindings ?? {},
    certificateValidityPeriod: options.validForS ?? 90 * 86_400,
  };
  const file = join(folder, 'pebble.json');
  await writeFile(file, JSON.stringify({ pebble: config }));
  const off = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-defaultIPv6', ''];
  const names = ['-dns01', `127.0.0.1:${dns}`, '-management', `127.0.0.1:${dnsManagement}`];
  const resolver = startProcess('pebble-challtestsrv', [...off, ...names]);
  await resolver.until(/Starting management server/);
  const env = {
    PEBBLE_VA_NOSLEEP: '1',
    PEBBLE_WFE_NONCEREJECT: String(options.refusedNonces ?? 0),
    PEBBLE_AUTHZREUSE: '0',
  };
  const start = async () => {
    const process = startProcess('pebble', ['-config', file, '-dnsserver', `127.0.0.1:${dns}`, '-strict'], { env });
    await process.until(/ACME directory available at/);
    return process;
  };
  let running = options.starts === false ? null : await start();
  const count = (line: RegExp) => [...(running?.stdout.matchAll(line) ?? [])].length;
  return {
    tlsPort,
    httpPort,
    directory: `https://localhost:${port}/dir`,
    directoryCa: authority.cert,
    get process() {
      if (running === null) throw new Error('pebble has not been started');
      return running;
    },
    issued: () => count(/Issued certificate serial/g),
    restart: async () => {
      await running?.stop();
      running = await start();
    },
    stop: async () => {
      await running?.stop();
    },
  };
}

async function ports(count: 6): Promise<[number, number, number, number, number, number]> {
  const found = new Set<number>();
  while (found.size < count) found.add(await freePort());
  return [...found] as [number, number, number, number, number, number];
}

/** The `listen.tls` of a gateway that orders at this authority. */
export function acmeSettings(pebble: Pebble, more: Readonly<Record<string, unknown>> = {}, tls = ''): string {
  const { directory, directoryCa } = pebble;
  const acme = { domains: [DOMAIN], agreeToTerms: true, directory, directoryCa, ...more };
  return `{ acme: ${JSON.stringify(acme)}${tls} }`;
}

/** Starts a gateway on the port where the authority looks for TLS-ALPN-01, unless `env` names another. */
export function startAcmeGateway(
  pebble: Pebble,
  setup: Partial<GatewaySetup> & { readonly acme?: Readonly<Record<string, unknown>>; readonly tls?: string } = {},
): Promise<TestGateway> {
  const { acme, tls, ...rest } = setup;
  return startGateway({
    upstream: 'http://127.0.0.1:9',
    ...rest,
    listen: { tls: acmeSettings(pebble, acme, tls), ...rest.listen },
    env: { PORT: String(pebble.tlsPort), ...rest.env },
  });
}

/** What one handshake came to. */
export interface Handshake {
  /** In upper-case hexadecimal; empty if the handshake failed. */
  readonly serial: string;
  readonly names: string;
  readonly expiresAtMs: number;
  readonly socket: TLSSocket;
  /** The code of the error; null if the handshake was completed. */
  readonly error: string | null;
}

export function shakeHands(port: number, options: ConnectionOptions = {}): Promise<Handshake> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, servername: DOMAIN, rejectUnauthorized: false, ...options });
    socket.once('secureConnect', () => {
      const { serialNumber, subjectaltname = '', valid_to } = socket.getPeerCertificate();
      socket.destroy();
      resolve({ serial: serialNumber, names: subjectaltname, expiresAtMs: Date.parse(valid_to), socket, error: null });
    });
    socket.on('error', (error: NodeJS.ErrnoException) =>
      resolve({ serial: '', names: '', expiresAtMs: 0, socket, error: error.code ?? error.message }),
    );
  });
}

export async function readyzOf({ adminPort }: TestGateway): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/readyz`);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}
