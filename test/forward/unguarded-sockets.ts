import { Socket } from 'node:net';

// Loaded into a gateway before it starts (`node --import`): reports each socket that the gateway connects, and each moment
// at which such a socket has no listener for `error`. An error at that moment would end the process.
const connect = Socket.prototype.connect;
Socket.prototype.connect = function (this: Socket, ...args: Parameters<typeof connect>) {
  process.stderr.write('connects\n');
  const check = () => {
    if (!this.closed && this.listenerCount('error') === 0) process.stderr.write(`unguarded ${new Error().stack}\n`);
  };
  // When the call that creates it has returned: Node's own code has listeners that come and go within it.
  process.nextTick(() => {
    check();
    this.on('removeListener', (event) => {
      if (event === 'error') check();
    });
  });
  return connect.apply(this, args);
} as typeof connect;
