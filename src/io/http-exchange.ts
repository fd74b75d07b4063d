import { type IncomingHttpHeaders, request as requestPlain } from 'node:http';
import { request as requestEncrypted } from 'node:https';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { NAMES } from './resolver.ts';

/** A request that the gateway or a command sends on its own behalf, to a server that the settings name. */
interface OwnRequest {
  /** http or https. */
  readonly url: string;
  readonly method: string;
  readonly headers?: Readonly<Record<string, string | number>>;
  readonly body?: string;
  /** PEM: the authorities that may sign the server's certificate; null for those that Node.js trusts. */
  readonly ca?: Buffer | null;
  /** The Unix socket of the server, in place of the host and port of the URL. */
  readonly socketPath?: string;
  /** Maximum body that is read, compressed or not; `MAX_BYTES` unless given. */
  readonly maxBytes?: number;
  /** Ends the exchange. It is the only deadline, so it must have one. */
  readonly signal: AbortSignal;
  /** Called once the connection stands, with TLS if it has that: the server may have got the request from then on. */
  readonly onConnected?: () => void;
}

interface OwnResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export const MAX_BYTES = 256 * 1024;

/** The body is larger than it may be. */
export class LargeBodyError extends Error {}
/** The server has changed to a protocol other than HTTP. */
export class OtherProtocolError extends Error {}

const unpacked = promisify(gunzip);

/**
 * Sends one request and reads the whole response, on a connection of its own. Follows no redirect.
 *
 * Attack: NODE_TLS_REJECT_UNAUTHORIZED=0 is set, for another program of the machine or years ago, and anybody on the way gets the token of an
 * operator. So the certificate is checked in any case.
 * @throws LargeBodyError, OtherProtocolError, or the error of the connection
 */
export function exchange(request: OwnRequest): Promise<OwnResponse> {
  const { url, method, headers, body = '', ca = null, socketPath, maxBytes = MAX_BYTES, signal, onConnected } = request;
  const to = new URL(url);
  const options = {
    method,
    headers: { ...headers, 'Accept-Encoding': 'identity', Connection: 'close' },
    lookup: NAMES.lookup,
    signal,
    rejectUnauthorized: true,
    ...(ca === null ? {} : { ca }),
    ...(socketPath === undefined ? {} : { socketPath }),
  };
  return new Promise((resolve, reject) => {
    const send = to.protocol === 'https:' ? requestEncrypted : requestPlain;
    const sent = send(to, options, (response) => {
      const pieces: Buffer[] = [];
      let bytes = 0;
      response.on('data', (piece: Buffer) => {
        bytes += piece.length;
        if (bytes > maxBytes) {
          reject(new LargeBodyError(`more than ${maxBytes} bytes`));
          sent.destroy();
        } else pieces.push(piece);
      });
      response.on('error', reject);
      response.on('end', () => {
        const { statusCode: status = 0, headers } = response;
        textOf(Buffer.concat(pieces), headers, maxBytes).then((text) => resolve({ status, headers, text }), reject);
      });
    });
    sent.on('error', reject);
    if (onConnected !== undefined)
      sent.once('socket', (socket) => {
        // A proxy may be between, whose socket is connected by now.
        if (!socket.connecting && !('encrypted' in socket)) onConnected();
        else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', onConnected);
      });
    // Without this listener Node.js closes the connection and the request never ends.
    sent.on('upgrade', (_, socket) => {
      socket.destroy();
      reject(new OtherProtocolError('another protocol'));
    });
    sent.end(body);
  });
}

/** File stores send a body that they keep compressed to every client, whatever encoding it accepts. */
async function textOf(body: Buffer, headers: IncomingHttpHeaders, maxBytes: number): Promise<string> {
  if (headers['content-encoding'] !== 'gzip') return body.toString();
  try {
    return (await unpacked(body, { maxOutputLength: maxBytes })).toString();
  } catch (error) {
    const isLarge = error instanceof RangeError;
    throw isLarge ? new LargeBodyError(`more than ${maxBytes} bytes`) : error;
  }
}
