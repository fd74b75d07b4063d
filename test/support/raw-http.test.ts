import { describe, expect, test } from 'vitest';
import { readResponses } from './http-response.ts';
import { rawExchange } from './raw-http.ts';
import { startRawUpstream } from './raw-upstream.ts';

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

async function answering(bytes: string, then: 'stay' | 'end' | 'reset' = 'stay') {
  return startRawUpstream((socket) => {
    socket.write(Buffer.from(bytes, 'latin1'), () => {
      if (then === 'end') socket.end();
      if (then === 'reset') socket.resetAndDestroy();
    });
  });
}

describe('a raw exchange', () => {
  test('gives status, fields in order and as sent, and the body by Content-Length', async () => {
    const { port } = await answering('HTTP/1.1 200 Fine\r\nB: 1\r\na: 2\r\nb: 3\r\nContent-Length: 2\r\n\r\nok');
    const { responses, closed } = await rawExchange(port, GET);
    expect(responses).toHaveLength(1);
    expect(responses[0]).toMatchObject({ version: '1.1', status: 200, reason: 'Fine', complete: true });
    expect(responses[0]?.headers).toEqual([
      ['B', '1'],
      ['a', '2'],
      ['b', '3'],
      ['Content-Length', '2'],
    ]);
    expect(responses[0]?.header('B')).toBe('1, 3');
    expect(responses[0]?.header('missing')).toBeNull();
    expect(responses[0]?.body.toString()).toBe('ok');
    expect(closed).toBe(false);
  });

  test('undoes chunks and gives trailers', async () => {
    const { port } = await answering(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n',
    );
    const [response] = (await rawExchange(port, GET)).responses;
    expect(response?.body.toString()).toBe('abc0123456789');
    expect(response?.trailers).toEqual([['T', '1']]);
  });

  test('does not take 1xx for the answer', async () => {
    const { port } = await answering('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n');
    const { responses } = await rawExchange(port, GET);
    expect(responses.map(({ status }) => status)).toEqual([100, 204]);
  });

  test('knows that an answer to HEAD has no body', async () => {
    const { port } = await answering('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n');
    const { responses } = await rawExchange(port, 'HEAD / HTTP/1.1\r\nHost: x\r\n\r\n', { methods: ['HEAD'] });
    expect(responses[0]).toMatchObject({ status: 200, complete: true });
  });

  test('tells an answer that was cut off, and a reset from an orderly end', async () => {
    const cut = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab';
    const ended = await rawExchange((await answering(cut, 'end')).port, GET);
    expect(ended.responses[0]).toMatchObject({ complete: false });
    expect(ended.responses[0]?.body.toString()).toBe('ab');
    expect([ended.closed, ended.reset]).toEqual([true, false]);
    const torn = await rawExchange((await answering(cut, 'reset')).port, GET, { until: 'closed' });
    expect([torn.closed, torn.reset]).toEqual([true, true]);
  });

  test('takes the orderly end, and only that, for the end of a body without framing', async () => {
    const open = 'HTTP/1.0 200 OK\r\n\r\nall of it';
    const ended = await rawExchange((await answering(open, 'end')).port, GET);
    expect(ended.responses[0]).toMatchObject({ complete: true });
    const torn = await rawExchange((await answering(open, 'reset')).port, GET);
    expect(torn.responses.every(({ complete }) => !complete)).toBe(true);
  });

  test('gives what there is when the time is over', async () => {
    const { port } = await answering('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    const { responses, closed } = await rawExchange(port, GET, { until: 2, forMs: 150 });
    expect(responses).toHaveLength(1);
    expect(closed).toBe(false);
  });

  test('sends parts one after the other and can close its half', async () => {
    const upstream = await answering('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    const { closed } = await rawExchange(upstream.port, ['GET / HTTP/1.1\r\nHo', 'st: x\r\n\r\n'], {
      until: 'closed',
      halfClose: true,
      pauseMs: 5,
    });
    expect(closed).toBe(true);
    expect(upstream.received[0]?.toString()).toBe(GET);
  });
});

describe('reading responses is strict:', () => {
  const read = (text: string) => () => readResponses(Buffer.from(text, 'latin1'), [], true);
  test.each([
    ['a bare LF', 'HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n'],
    ['a folded field', 'HTTP/1.1 200 OK\r\nA: 1\r\n 2\r\n\r\n'],
    ['a space before the colon', 'HTTP/1.1 200 OK\r\nA : 1\r\n\r\n'],
    ['a control byte in a value', 'HTTP/1.1 200 OK\r\nA: 1\x002\r\n\r\n'],
    ['a lone CR in a value', 'HTTP/1.1 200 OK\r\nA: 1\r2\r\n\r\n'],
    ['no space after the status', 'HTTP/1.1 200\r\n\r\n'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['two Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n'],
    ['Content-Length with a sign', 'HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na'],
    ['both framings', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['another coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['204 with a length', 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n'],
    ['a chunk longer than its size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n'],
    ['a chunk extension', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n0\r\n\r\n'],
    ['bytes behind the answer', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab'],
  ])('%s is refused', (_, text) => {
    expect(read(text)).toThrow(/at byte \d+/);
  });
});
