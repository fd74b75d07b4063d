import type { ForwardRequest } from './forwarding.ts';

const FORBIDDEN = /[^\t -~\x80-\xff]/;

/**
 * The head of a request as it goes on the wire. Attack: a line break in a field would begin a field, or a request, of the
 * client's choosing (request splitting). What comes here was checked when it was read; this is where nothing gets past.
 * @param authority what Host says
 */
export function requestHead({ method, target, fields, body }: ForwardRequest, authority: string): string {
  if (FORBIDDEN.test(fields.join(''))) throw new Error('a line break or another control byte in a field');
  let text = `${method} ${target} HTTP/1.1\r\nHost: ${authority}\r\n`;
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return body?.framing === 'chunked' ? `${text}Transfer-Encoding: chunked\r\n\r\n` : `${text}\r\n`;
}
