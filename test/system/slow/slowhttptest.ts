import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type Health, startHealthyClient } from './healthy-client.ts';
import { LARGE, type Stage } from './stage.ts';

const run = promisify(execFile);

/** The four attacks of slowhttptest, by its letters: slow headers, slow body, slow read, ranges. */
export type Attack = 'H' | 'B' | 'X' | 'R';

/** What one run of the tool showed. */
export interface ToolResult {
  readonly attack: Attack;
  /** The tool's own last word. */
  readonly exitStatus: string;
  readonly isServiceAvailable: boolean;
  /** From its start to when the gateway was rid of the last hostile request; null when it was not. */
  readonly goneAfterMs: number | null;
  readonly health: Health;
}

const CONNECTIONS = 200;
/** Large answers that nobody reads fill the buffers of the system. */
const READERS = 20;
const MAX_S = 10;

/** The tool on the PATH, or Debian's package unpacked under `cacheFolder`; else one line that says why not. */
export async function findSlowhttptest(cacheFolder: string): Promise<{ path: string } | { reason: string }> {
  const cached = join(cacheFolder, 'debian-slowhttptest', 'usr', 'bin', 'slowhttptest');
  for (const path of ['slowhttptest', cached]) if (await works(path)) return { path };
  try {
    await unpackDebianPackage(cacheFolder);
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    return { reason: /^E: (.+)$/m.exec(stderr ?? '')?.[1] ?? message.split('\n')[0]! };
  }
  return (await works(cached)) ? { path: cached } : { reason: "Debian's package does not run here" };
}

async function works(path: string): Promise<boolean> {
  // Its help ends with a code of its own; what counts is that it starts.
  return run(path, ['-h']).then(
    () => true,
    ({ stdout = '' }: { stdout?: string }) => stdout.includes('slowhttptest'),
  );
}

/** Needs no root and installs nothing. The folder takes its final name when it is whole. */
async function unpackDebianPackage(cacheFolder: string): Promise<void> {
  await mkdir(cacheFolder, { recursive: true });
  const work = await mkdtemp(join(cacheFolder, 'debian-slowhttptest.part-'));
  try {
    await run('apt-get', ['-q', 'download', 'slowhttptest'], { cwd: work, timeout: 120_000 });
    const [deb] = (await readdir(work)).filter((name) => name.endsWith('.deb'));
    await run('dpkg', ['-x', join(work, deb!), join(work, 'root')]);
    await rename(join(work, 'root'), join(cacheFolder, 'debian-slowhttptest'));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Runs one attack of the tool beside a well-behaved client. */
export async function runSlowhttptest(path: string, attack: Attack, stage: Stage): Promise<ToolResult> {
  const healthy = startHealthyClient(stage);
  const startedAtMs = performance.now();
  let isRunning = true;
  const running = runTool(path, argumentsOf(attack, stage)).finally(() => {
    isRunning = false;
  });
  const goneAtMs = await lastGone(stage, () => isRunning);
  const output = await running;
  return {
    attack,
    exitStatus: /Exit status: (.+)/.exec(output)?.[1]?.trim() ?? `none: ${output.slice(-300)}`,
    isServiceAvailable: !/service available:\s+NO/.test(output) && /service available:\s+YES/.test(output),
    goneAfterMs: goneAtMs === null ? null : goneAtMs - startedAtMs,
    health: await healthy(),
  };
}

async function runTool(path: string, args: readonly string[]): Promise<string> {
  const options = { maxBuffer: 64 * 1024 * 1024, timeout: (MAX_S + 10) * 1_000 };
  const { stdout } = await run(path, args, options).catch((error: { stdout: string }) => error);
  return stdout.replace(/\x1b\[[0-9;]*[A-Za-z]/g, '');
}

function argumentsOf(attack: Attack, { origin, key }: Stage): string[] {
  const connections = attack === 'X' ? READERS : CONNECTIONS;
  // The tool has no option for further fields; a cookie with a line end in it makes one.
  const cookie = `a=b\r\nAuthorization: Bearer ${key}`;
  const common = ['-c', connections, '-r', 200, '-i', 1, '-l', MAX_S, '-p', 3, '-j', cookie].map(String);
  const own: Readonly<Record<Attack, readonly string[]>> = {
    H: ['-u', `${origin}/slow`, '-x', '8'],
    B: ['-u', `${origin}/slow`, '-x', '8', '-s', '4096'],
    X: ['-u', `${origin}${LARGE}`, '-w', '10', '-y', '20', '-n', '1', '-z', '16'],
    R: ['-u', `${origin}/slow`, '-t', 'HEAD', '-a', '5', '-b', '1500'],
  };
  return [`-${attack}`, ...common, ...own[attack]];
}

/** When the last hostile connection was gone for the gateway: from then on there is the well-behaved client alone. */
async function lastGone({ gateway }: Stage, isRunning: () => boolean): Promise<number | null> {
  const open = async () => (await gateway.metrics()).get('tollgate_connections') ?? 0;
  const deadlineMs = performance.now() + MAX_S * 1_000;
  let wasAttacked = false;
  while (performance.now() < deadlineMs) {
    const count = await open();
    // The tool itself probes with one connection now and then.
    if (count > 3) wasAttacked = true;
    else if (wasAttacked || !isRunning()) return performance.now();
    await delay(25);
  }
  return null;
}
