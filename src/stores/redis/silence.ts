import type { Socket } from 'node:net';

/** So long after something was asked and nothing heard, a peer counts as vanished without a word. */
const SILENCE_MS = 5_000;
const LOOK_EVERY_MS = 500;

/**
 * Ends a connection whose peer says nothing after it was asked: the kernel would wait for a quarter of an hour. What
 * only listens may be silent for as long as it likes.
 *
 * By looking at what went over it from time to time: ioredis can do the same (`socketTimeout`), with a timer and a
 * listener for each command. What was asked between the last answer and the look that saw it is noticed with the
 * next command only, of which there is one soon: each call has a deadline, and a circuit behind it that probes.
 */
export function endWhenSilent(connection: Socket): void {
  let heard = 0;
  /** What had been said when something was last heard. */
  let said = 0;
  let silentForMs = 0;
  const look = () => {
    const { bytesRead, bytesWritten } = connection;
    if (bytesRead !== heard || bytesWritten === said) silentForMs = 0;
    else silentForMs += LOOK_EVERY_MS;
    if (silentForMs >= SILENCE_MS) {
      connection.destroy(new Error(`Nothing was heard for ${SILENCE_MS} ms after a command.`));
    } else if (silentForMs === 0) [heard, said] = [bytesRead, bytesWritten];
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref();
  connection.once('close', () => clearInterval(timer));
}
