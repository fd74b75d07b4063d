import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startProcess } from './processes.ts';

/** A listener of a stopped process with a backlog of one, filled: the system drops what else wants to connect. @returns its port */
export async function startDeafListener(): Promise<number> {
  const program = `require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
    console.log('listens on ' + this.address().port); })`;
  const listener = startProcess(process.execPath, ['-e', program]);
  const port = Number((await listener.until(/listens on (\d+)/))[1]);
  listener.signal('SIGSTOP');
  for (;;) {
    const socket: Socket = createConnection(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.unref();
    const connected = await Promise.race([once(socket, 'connect').then(() => true), delay(300).then(() => false)]);
    if (!connected) return port;
  }
}
