// Loaded into a gateway of a test: at SIGUSR2 its heap is filled to 93 % of the limit, and emptied at the next one.
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const LIMIT_BYTES = 256 * 1024 * 1024;
/** Large enough to stand among the old objects from the beginning. */
const NUMBERS = 20_000;
const held: number[][] = [];
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function usedBytes(): number {
  return getHeapSpaceStatistics().reduce(
    (sum, { space_name, space_used_size }) => sum + (/^(?:new_|read_only)/.test(space_name) ? 0 : space_used_size),
    0,
  );
}

process.on('SIGUSR2', () => {
  if (held.length > 0) held.length = 0;
  else while (usedBytes() < 0.93 * LIMIT_BYTES) held.push(new Array<number>(NUMBERS).fill(0.5));
  collect();
});
