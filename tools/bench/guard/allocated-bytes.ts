import { renameSync, writeFileSync } from 'node:fs';
import { GCProfiler, getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

// Loaded into a gateway before its own program. At each SIGUSR2 it writes how many bytes the serving thread has allocated in
// V8's heap since the last one into the file ALLOCATED_BYTES_FILE: what the heap has grown by between collections.
// (`total_allocated_bytes` counts 2 MB each time that somebody reads the statistics of the heap, as the gateway itself does.)
const file = process.env.ALLOCATED_BYTES_FILE;
if (isMainThread && file !== undefined) {
  let profiler = new GCProfiler();
  let usedAtStart = 0;
  const begin = () => {
    profiler = new GCProfiler();
    profiler.start();
    usedAtStart = getHeapStatistics().used_heap_size;
  };
  begin();
  process.on('SIGUSR2', () => {
    const usedAtEnd = getHeapStatistics().used_heap_size;
    let [bytes, used] = [0, usedAtStart];
    for (const { beforeGC, afterGC } of profiler.stop()?.statistics ?? []) {
      bytes += beforeGC.heapStatistics.usedHeapSize - used;
      used = afterGC.heapStatistics.usedHeapSize;
    }
    bytes += usedAtEnd - used;
    writeFileSync(`${file}.new`, String(bytes));
    renameSync(`${file}.new`, file);
    begin();
  });
}
