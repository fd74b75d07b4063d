// Loaded into a gateway before it starts (`node --import`): at SIGUSR2 it is armed, and when it has next sent Redis the command
// STALL_AT, its one thread does nothing else for STALL_MS, as in a long collection of garbage. The reply comes meanwhile.
import { Socket } from 'node:net';

const redisPort = Number(new URL(process.env.REDIS_URL ?? 'redis://none').port);
const command = new RegExp(process.env.STALL_AT ?? 'evalsha', 'i');
const write = Socket.prototype.write as (this: Socket, ...args: unknown[]) => boolean;
let isArmed = false;

function stall(): void {
  const untilMs = performance.now() + Number(process.env.STALL_MS);
  while (performance.now() < untilMs);
  process.stderr.write('stalled\n');
}

Socket.prototype.write = function (this: Socket, ...args: unknown[]): boolean {
  if (isArmed && this.remotePort === redisPort && command.test(String(args[0]))) {
    isArmed = false;
    setImmediate(stall);
  }
  return write.apply(this, args);
} as typeof Socket.prototype.write;

process.on('SIGUSR2', () => {
  isArmed = true;
  process.stderr.write('armed\n');
});
