import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Answer, refuse } from './answer.ts';
import { announcesBody, readBody } from './body.ts';
import type { PetRequest } from './operations.ts';

/** The parts of an incoming message that operations need, without its socket. */
export function requestOf(incoming: IncomingMessage): PetRequest {
  const { 'content-type': contentTypes = [], 'content-encoding': contentEncodings = [] } = incoming.headersDistinct;
  return {
    method: incoming.method ?? '',
    target: incoming.url ?? '',
    contentTypes,
    contentEncodings,
    readBody: () => readBody(incoming),
  };
}

/**
 * Sends an answer; the body of a HEAD answer stays here, its length does not (RFC 9110 section 9.3.2). A request that
 * was not read to its end closes the connection after it.
 */
export function send(incoming: IncomingMessage, outgoing: ServerResponse, answer: Answer, close: boolean): void {
  const unread = announcesBody(incoming) && !incoming.complete;
  outgoing.writeHead(answer.status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(answer.body),
    ...answer.headers,
    ...(close || unread ? { Connection: 'close' } : {}),
  });
  if (!unread) {
    outgoing.end(answer.body);
    return;
  }
  outgoing.write(answer.body);
  endWhenRead(incoming, outgoing);
}

/**
 * Closing while the client still sends resets the connection and can take the answer with it before it was read
 * (RFC 9112 section 9.6). So the rest is read and thrown away, for a while and up to a size.
 */
function endWhenRead(incoming: IncomingMessage, outgoing: ServerResponse): void {
  let leftBytes = 4 * 1024 * 1024;
  const end = () => {
    clearTimeout(timer);
    outgoing.end();
  };
  const timer = setTimeout(end, 2_000);
  incoming.once('end', end).once('close', end);
  incoming.on('data', (chunk: Buffer) => {
    leftBytes -= chunk.length;
    if (leftBytes < 0) end();
  });
  incoming.resume();
}

/** Answers what could not be parsed as HTTP, or came too slowly, with the same Error body as everything else. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, body } = refusalOf(error.code);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

function refusalOf(code: string | undefined): Answer {
  if (code === 'HPE_HEADER_OVERFLOW') return refuse('headers_too_large', 'The head of the request is too large.');
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return refuse('request_timeout', 'The request came too slowly.');
  return refuse('invalid_request', 'The request is not valid HTTP.');
}
