import { once } from 'node:events';
import { connect } from 'node:net';
import { atEnd } from './endings.ts';

/** Sends a request, waits for the first bytes of the response and reads nothing more. The connection is cut at the end of the test. */
export async function leaveUnread(port: number, request: string): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  atEnd(() => socket.destroy());
  socket.write(request);
  await once(socket, 'readable');
}
