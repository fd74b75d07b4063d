import { once } from 'node:events';
import { createServer } from 'node:net';

// Below the range from which the kernel takes ports for outgoing connections and for `listen(0)`, so that nobody takes
// a server's port while a test has that server stopped.
const FIRST = 20_000;
const LAST = 32_000;

/** A TCP port of 127.0.0.1 that nothing listens on, for a server that must be told its port. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (await canListen(port)) return port;
  }
}

async function canListen(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
