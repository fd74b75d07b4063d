import { trimmed } from '../../forward/answer-head.ts';

/** A request without a body, of the plainest form there is. */
export interface SimpleRequest {
  readonly method: 'GET' | 'HEAD';
  readonly url: string;
  /** Name and value in turn; values without the white space around them. */
  readonly rawHeaders: string[];
}

/**
 * The request line and fields of one whole request and nothing behind it: visible ASCII, single spaces, lines that end
 * with CRLF, names that are tokens, values without control characters (RFC 9112 sections 3 and 5).
 */
const FORM = /^(?:GET|HEAD) \/[!-~]* HTTP\/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+\r\n$/;
const MAX_FIELDS = 100;
const LINE_END = 2;
const PROTOCOL = ' HTTP/1.1'.length;

/**
 * Reads a request whose meaning nobody can doubt.
 *
 * Attack: two readers of one byte stream that differ anywhere are how requests are smuggled. So this one only ever says
 * yes to a small part of what Node's parser takes, where both read the same (`npm run fuzz` compares them): no body and
 * nothing that announces one, no word about the connection but that it is kept, no byte beyond ASCII, all of it in one
 * packet and nothing behind it. Whatever is not surely of that form, malformed or not, is left to Node's parser.
 *
 * @param text what came, a character for each byte
 * @returns null where it is for Node's parser to say what it is
 */
export function readSimpleRequest(text: string): SimpleRequest | null {
  if (!FORM.test(text)) return null;
  const method = text.charCodeAt(0) === 71 ? 'GET' : 'HEAD';
  let at = text.indexOf('\r\n');
  const url = text.slice(method.length + 1, at - PROTOCOL);
  const rawHeaders: string[] = [];
  const last = text.length - LINE_END;
  for (at += LINE_END; at < last; ) {
    const colon = text.indexOf(':', at);
    const end = text.indexOf('\r\n', colon);
    const name = text.slice(at, colon);
    const value = trimmed(text, colon + 1, end);
    if (isForNode(name, value)) return null;
    rawHeaders.push(name, value);
    at = end + LINE_END;
  }
  return rawHeaders.length > 2 * MAX_FIELDS ? null : { method, url, rawHeaders };
}

/** Whether a field says something of the body, of the connection, or of what the client waits for. */
function isForNode(name: string, value: string): boolean {
  switch (name.length) {
    case 6:
      return name.toLowerCase() === 'expect';
    case 7:
      return name.toLowerCase() === 'upgrade' || name.toLowerCase() === 'trailer';
    case 10:
      return name.toLowerCase() === 'connection' && value.toLowerCase() !== 'keep-alive';
    case 14:
      return name.toLowerCase() === 'content-length';
    case 16:
      return name.toLowerCase() === 'proxy-connection';
    case 17:
      return name.toLowerCase() === 'transfer-encoding';
    default:
      return false;
  }
}
