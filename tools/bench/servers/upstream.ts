import { createServer, type Socket } from 'node:net';

// The service behind the contestants, as cheap as it can be: it looks for the end of each request and answers at once.
// argv: port.
const SMALL_BYTES = 284;
const LARGE_BYTES = 100 * 1024;

const HEAD_END = '\r\n\r\n';
const small = answer('application/json', `[{"id":1,"name":"${'Biscuit'.padEnd(SMALL_BYTES - 20, '.')}"}]`);
const large = Buffer.from(answer('application/octet-stream', 'x'.repeat(LARGE_BYTES)), 'latin1');

createServer({ noDelay: true }, (socket) => {
  let pending = '';
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    pending += chunk.toString('latin1');
    for (;;) {
      const end = endOfRequest(pending);
      if (end === null) return;
      reply(socket, pending);
      pending = pending.slice(end);
    }
  });
}).listen(Number(process.argv[2]), '127.0.0.1');

function reply(socket: Socket, request: string): void {
  const path = request.slice(request.indexOf(' ') + 1);
  if (path.startsWith('/v1/large')) socket.write(large);
  else socket.write(small, 'latin1');
}

/** Null while it has not come whole. */
function endOfRequest(text: string): number | null {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd === -1) return null;
  const bodyFrom = headEnd + HEAD_END.length;
  if (text.startsWith('GET')) return bodyFrom;
  const head = text.slice(0, headEnd);
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const last = text.indexOf('0\r\n\r\n', bodyFrom);
    return last === -1 ? null : last + 5;
  }
  const bodyEnd = bodyFrom + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  return text.length < bodyEnd ? null : bodyEnd;
}

function answer(type: string, body: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}${HEAD_END}${body}`;
}
