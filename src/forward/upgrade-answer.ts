import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type AnswerHead, readAnswerHead } from './answer-head.ts';
import { BadAnswerError } from './faults.ts';

type Received = Pick<IncomingMessage, 'statusCode' | 'rawHeaders'>;

/** RFC 6455 section 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/**
 * Checks that a 101 agrees to what was asked for (RFC 6455 section 4.1).
 *
 * Attack: an upstream that has not understood the request, or a cache before it, answers 101 all the same; whoever joins
 * the connections then lets a client speak to it unwatched.
 * @param key Sec-WebSocket-Key; null for another protocol than WebSocket
 * @throws BadAnswerError
 */
export function checkSwitch({ statusCode, rawHeaders }: Received, protocol: string, key: string | null): void {
  if (statusCode !== 101) throw new BadAnswerError(`${statusCode} with the fields of an upgrade`);
  readAnswerHead(textOf(200, rawHeaders), 'HEAD');
  if (joinedValues(rawHeaders, 'upgrade').toLowerCase() !== protocol.toLowerCase()) {
    throw new BadAnswerError('101 to another protocol');
  }
  if (key === null) return;
  const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64');
  if (joinedValues(rawHeaders, 'sec-websocket-accept') !== accept) {
    throw new BadAnswerError('a Sec-WebSocket-Accept that is wrong');
  }
}

/** Reads the head of an ordinary answer by the rules for all of them. @throws BadAnswerError */
export function readOtherHead({ statusCode = 0, rawHeaders }: Received): AnswerHead {
  return readAnswerHead(textOf(statusCode, rawHeaders), 'GET');
}

/** As it stood on the wire, but for what Node has judged already. */
function textOf(status: number, rawHeaders: readonly string[]): string {
  let text = `HTTP/1.1 ${String(status).padStart(3, '0')} `;
  for (let i = 0; i < rawHeaders.length; i += 2) text += `\r\n${rawHeaders[i]}: ${rawHeaders[i + 1]}`;
  return text;
}

function joinedValues(rawHeaders: readonly string[], name: string): string {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name).join(', ');
}
