import type { ForwardRequest } from './forwarding.ts';

const FORBIDDEN = /[^\t -~\x80-\xff]/;

/**
 * Fields as lines, each with its end. Attack: a line break in a field would begin a field, or a request, of the client's
 * choosing (request splitting). What comes here was checked when it was read; this is where nothing gets past.
 * @param fields name and value in turn
 */
export function linesOf(fields: readonly string[]): string {
  let lines = '';
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i]!, fields[i + 1]!];
    if (FORBIDDEN.test(name) || FORBIDDEN.test(value)) {
      throw new Error('a line break or another control byte in a field');
    }
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** The head of a request as it goes on the wire. @param authority what Host says */
export function requestHead({ method, target, lines, body }: ForwardRequest, authority: string): string {
  const coding = body?.framing === 'chunked' ? 'Transfer-Encoding: chunked\r\n' : '';
  return `${method} ${target} HTTP/1.1\r\nHost: ${authority}\r\n${lines}${coding}\r\n`;
}
