import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import { request as requestHttps } from 'node:https';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { type CertificateAuthority, createAuthority } from './certificates.ts';
import { atEnd } from './endings.ts';
import { type GatewaySetup, openGateway, startGateway, type TestGateway } from './gateway.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface EncryptedGateway {
  readonly gateway: TestGateway;
  readonly authority: CertificateAuthority;
  /** PEM of the authority. */
  readonly ca: string;
}

/** An authority whose files go away with the test. */
export async function newAuthority(): Promise<CertificateAuthority> {
  return createAuthority(await temporaryFolder());
}

/** Starts a gateway with a certificate of its own. `listen.tls` may add to `cert` and `key`: `{ minVersion: TLSv1.3 }`. */
export function startEncrypted(setup: GatewaySetup, tls?: Readonly<Record<string, string>>): Promise<EncryptedGateway> {
  return encryptedBy(startGateway, setup, tls);
}

/** The same in the process of the test: see {@link openGateway}. */
export function openEncrypted(setup: GatewaySetup, tls?: Readonly<Record<string, string>>): Promise<EncryptedGateway> {
  return encryptedBy(openGateway, setup, tls);
}

async function encryptedBy(
  begin: typeof startGateway,
  setup: GatewaySetup,
  tls: Readonly<Record<string, string>> = {},
): Promise<EncryptedGateway> {
  const authority = await newAuthority();
  const { cert, key } = await authority.issue('localhost');
  const lines = Object.entries({ cert, key, ...tls }).map(([name, value]) => `${name}: ${value}`);
  const gateway = await begin({ ...setup, listen: { tls: `{ ${lines.join(', ')} }`, ...setup.listen } });
  return { gateway, authority, ca: authority.pem };
}

export interface Ask {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Buffer;
}

export interface Answer {
  readonly status: number;
  /** Name in lower case and value, in the order of the names. */
  readonly fields: readonly (readonly [string, string])[];
  readonly body: string;
}

const AT = '127.0.0.1';

/** One request over HTTP/1.1 and TLS, on a connection of its own. */
export async function askHttp1(port: number, ca: string, ask: Ask): Promise<Answer> {
  const { method = 'GET', path, headers = {}, body } = ask;
  const where = { host: AT, port, ca, servername: 'localhost', agent: false, setHost: false };
  const request = requestHttps({ ...where, method, path, headers: { Host: 'gateway.test', ...headers } });
  request.end(body);
  const [response] = await once(request, 'response');
  const chunks: Buffer[] = await response.toArray();
  return { status: response.statusCode, fields: sorted(response.rawHeaders), body: Buffer.concat(chunks).toString() };
}

/** An HTTP/2 session with a gateway, over the socket where one is given, that may repeat any field; cut at the end of the test. */
export async function openHttp2(port: number, ca: string, socket?: TLSSocket): Promise<ClientHttp2Session> {
  const over = socket === undefined ? {} : { createConnection: () => socket };
  const session = connectHttp2(`https://${AT}:${port}`, {
    ...{ ca, servername: 'localhost', strictSingleValueFields: false },
    ...over,
  });
  session.on('error', () => {});
  atEnd(() => session.destroy());
  await once(session, 'connect');
  return session;
}

/** One request on a session. */
export async function askHttp2(session: ClientHttp2Session, ask: Ask): Promise<Answer> {
  const { method = 'GET', path, headers = {}, body } = ask;
  const pseudo = { ':method': method, ':path': path, ':authority': 'gateway.test' };
  const stream = session.request({ ...pseudo, ...headers }, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  const [head, , raw] = (await once(stream, 'response')) as [IncomingHttpHeaders, number, string[]];
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return { status: Number(head[':status']), fields: sorted(raw), body: Buffer.concat(chunks).toString() };
}

/** A TLS connection to a gateway, with what has arrived on it; cut at the end of the test. */
export async function openTls(port: number, options: ConnectionOptions) {
  const socket: TLSSocket = connect({ port, host: AT, servername: 'localhost', ...options });
  const line = { socket, text: '', closed: false, error: null as NodeJS.ErrnoException | null };
  socket.on('error', (error) => {
    line.error = error;
  });
  socket.once('close', () => {
    line.closed = true;
  });
  socket.setEncoding('latin1').on('data', (text: string) => {
    line.text += text;
  });
  atEnd(() => socket.destroy());
  await Promise.race([once(socket, 'secureConnect'), once(socket, 'close')]).catch(() => {});
  return line;
}

/** The metrics of a gateway as text. */
export async function metricsOf({ adminPort }: TestGateway): Promise<string> {
  return (await fetch(`http://${AT}:${adminPort}/metrics`)).text();
}

/** The closing records of a gateway so far. */
export function accessLines({ process }: TestGateway): Record<string, unknown>[] {
  return process.stdout
    .split('\n')
    .filter((line) => line.includes('"msg":"request"'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

function sorted(raw: readonly string[]): [string, string][] {
  const fields: [string, string][] = [];
  for (let i = 0; i < raw.length; i += 2) fields.push([raw[i]!.toLowerCase(), raw[i + 1]!]);
  return fields.filter(([name]) => !name.startsWith(':')).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
