import { spawn } from 'node:child_process';

/** Lets go of a process that has ended by itself or was ended on purpose. */
export type Release = () => void;

/**
 * Makes sure that a process started by the tests never outlives them, however they end: a small shell holds the other
 * end of a pipe, and when this process is gone (even by SIGKILL, which no handler sees) it ends the process group.
 *
 * @param group leader of a process group (started with `detached: true`)
 * @param folder removed as well, when given
 */
export function endWithUs(group: number, folder = ''): Release {
  return whenWeAreGone('kill -s KILL -- "-$1" 2>/dev/null; [ -z "$2" ] || rm -rf -- "$2"', [String(group), folder]);
}

/**
 * Runs a shell script as soon as this process has ended without calling the release.
 * @param script sees `args` as `$1`, `$2`, …
 */
export function whenWeAreGone(script: string, args: readonly string[]): Release {
  const watcher = spawn('sh', ['-c', `read -r _ || { ${script}; }`, 'sh', ...args], {
    // Its own group, or the Ctrl-C that ends the tests would end the watcher first.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watcher.on('error', () => {});
  watcher.stdin.on('error', () => {});
  watcher.unref();
  (watcher.stdin as unknown as { unref(): void }).unref();
  return () => watcher.stdin.end('\n');
}

/**
 * Ends this process as soon as the one that forked it is gone: a worker of the test runner would otherwise go on to the
 * end of its test, with all that it started.
 */
export function endWithParent(): void {
  process.once('disconnect', () => process.exit());
}
