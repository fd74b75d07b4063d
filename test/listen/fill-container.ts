// Loaded into a gateway of a test: its container has a limit, which memory outside the heap nearly fills at SIGUSR2, and leaves at the next one.
const LIMIT_BYTES = 400 * 1024 * 1024;
const PIECE_BYTES = 1024 * 1024;
const held: Buffer[] = [];
process.constrainedMemory = () => LIMIT_BYTES;

process.on('SIGUSR2', () => {
  if (held.length > 0) held.length = 0;
  else while (process.memoryUsage.rss() < 0.95 * LIMIT_BYTES) held.push(Buffer.alloc(PIECE_BYTES, 1));
});
