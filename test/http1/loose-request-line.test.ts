import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { isNonConformingRequestLine } from '../../src/http1/loose-request-line.ts';

// Attack: node:http reads a loose request line like a strict one, and reports nothing (reliability 16, 24).

/** A request as node:http announces it while it reads a packet. @param before bytes of earlier packets */
function isLoose(packet: string | undefined, method = 'GET', url = '/a', before = 0): boolean {
  const buffer = packet === undefined ? undefined : Buffer.from(packet, 'latin1');
  const socket = { parser: { getCurrentBuffer: () => buffer }, bytesRead: before + (buffer?.length ?? 0) };
  return isNonConformingRequestLine({ socket, method, url } as unknown as IncomingMessage);
}

const END = '\r\nHost: a\r\n\r\n';

describe('a line is strict', () => {
  test.each([
    ['at the start', `GET /a HTTP/1.1${END}`],
    ['behind an empty line', `\r\nGET /a HTTP/1.1${END}`],
    ['behind several', `\r\n\r\n\r\nGET /a HTTP/1.1${END}`],
    ['behind another request', `POST /b HTTP/1.1${END}GET /a HTTP/1.1${END}`],
    ['behind one whose line looks alike', `GET  /b HTTP/1.1${END}GET /a HTTP/1.1${END}`],
    ['in an earlier packet, of which this one has the rest', `Host: a\r\n\r\n`],
    ['before a next one that has only begun', `Host: a\r\n\r\nGET /a HTT`],
    ['before a next one of which there is the method alone', `x: y\r\n\r\nGET `],
  ])('%s', (_, packet) => {
    expect(isLoose(packet)).toBe(false);
  });

  test('behind the LF of an earlier packet, but not behind an LF alone', () => {
    expect(isLoose(`\nGET /a HTTP/1.1${END}`, 'GET', '/a', 1)).toBe(false);
    expect(isLoose(`\n\r\n\r\nGET /a HTTP/1.1${END}`, 'GET', '/a', 1)).toBe(false);
    expect(isLoose(`\nGET /a HTTP/1.1${END}`)).toBe(true);
    expect(isLoose(`\n\nGET /a HTTP/1.1${END}`, 'GET', '/a', 1)).toBe(true);
    expect(isLoose(`\r\nGET  /a HTTP/1.1${END}`, 'GET', '/a', 1)).toBe(true);
  });

  test('with a target of one character, and with a longer method', () => {
    expect(isLoose(`OPTIONS * HTTP/1.1${END}`, 'OPTIONS', '*')).toBe(false);
    expect(isLoose(`OPTIONS *  HTTP/1.1${END}`, 'OPTIONS', '*')).toBe(true);
  });
});

test.each([
  `GET  /a HTTP/1.1${END}`,
  `GET   /a HTTP/1.1${END}`,
  `GET /a  HTTP/1.1${END}`,
  `GET /a RTSP/1.0${END}`,
  `GET /a ICE/1.0${END}`,
  `\rGET /a HTTP/1.1${END}`,
  `\r\n\nGET /a HTTP/1.1${END}`,
  `\n\r\nGET /a HTTP/1.1${END}`,
  `\r\nGET /a  HTTP/1.1${END}`,
  `POST /b HTTP/1.1${END}GET  /a HTTP/1.1${END}`,
  ...['GET  /a HTTP/1.1', 'GET /a  HTTP/1.1', 'GET /a RTSP/1.0'].map((line) => `GET /b HTTP/1.1${END}${line}${END}`),
  `GET /b HTTP/1.1${END}GET /c HTTP/1.1${END}GET /a RTSP/1.0${END}`,
  `xGET /b HTTP/1.1${END}GET  /a HTTP/1.1`,
])('%j is not', (packet) => {
  expect(isLoose(packet)).toBe(true);
});

test.each([
  ['GET', '/xa', 'GET /ya HTTP/1.1'],
  ['GET', '/xa', 'PUT /xa HTTP/1.1'],
])(
  'a loose line of %s %s behind %s, which is of the same length, is not taken for it (reliability 24)',
  (method, url, first) => {
    expect(isLoose(`${first}${END}${method}  ${url} HTTP/1.1${END}`, method, url)).toBe(true);
  },
);

test('a line that cannot be seen is not trusted', () => {
  expect(isLoose(undefined)).toBe(true);
  const withoutParser = { socket: { parser: null, bytesRead: 0 }, method: 'GET', url: '/' };
  expect(isNonConformingRequestLine(withoutParser as unknown as IncomingMessage)).toBe(true);
});
