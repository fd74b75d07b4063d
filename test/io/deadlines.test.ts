import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { setReplyTimeout } from '../../src/io/deadlines.ts';
import { listen } from '../support/listening.ts';

test('a reply that arrived while the process was busy is read before its timeout fires', async () => {
  const server = createServer();
  const client = connect((await listen(server)).port, '127.0.0.1');
  const [service] = (await once(server, 'connection')) as [Socket];
  const events: string[] = [];
  client.on('data', () => events.push('reply'));
  const late = new Promise<void>((resolve) => {
    setReplyTimeout(() => {
      events.push('late');
      resolve();
    }, 5);
  });
  service.write('reply');
  const busyUntilMs = performance.now() + 50;
  while (performance.now() < busyUntilMs);
  await late;
  expect(events).toEqual(['reply', 'late']);
  client.destroy();
  service.destroy();
  server.close();
});
