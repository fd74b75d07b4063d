import type { ForwardRequest } from './forwarding.ts';

/** The head of a request as it goes on the wire. @param authority what Host says */
export function requestHead({ method, target, lines, body }: ForwardRequest, authority: string): string {
  const coding = body?.framing === 'chunked' ? 'Transfer-Encoding: chunked\r\n' : '';
  return `${method} ${target} HTTP/1.1\r\nHost: ${authority}\r\n${lines}${coding}\r\n`;
}
