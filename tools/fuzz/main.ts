import { join } from 'node:path';
import { reportSlowhttptest } from '../../test/system/slow/report.ts';
import { anySeed } from '../kit/chance.ts';
import { Usage } from '../kit/options.ts';
import { runProgram } from '../kit/program.ts';
import { LiveLines, screenOf } from '../kit/screen.ts';
import { runAborts } from './aborts.ts';
import { compareWithUndici } from './answer-oracle.ts';
import { runCampaign } from './campaign.ts';
import { runHandOvers } from './hand-overs.ts';
import { runFrames } from './http2-frames.ts';
import { compareWithNode } from './request-oracle.ts';
import { runWebSockets } from './web-sockets.ts';

const usage = new Usage('fuzz');
const COUNTS = {
  exchanges: 100_000,
  answers: 50_000,
  requests: 200_000,
  aborts: 10_000,
  frames: 10_000,
  websockets: 10_000,
  handovers: 20_000,
} as const;
type Counts = Readonly<Record<keyof typeof COUNTS, number>>;
const MAX_COUNT = 1_000_000_000;
const MAX_SEED = 2 ** 31 - 1;
const GROWTH_MIB = 96;

const live = new LiveLines(screenOf(process.stdout));

await runProgram({ readOptions, help, run: fuzz });

function help(): string {
  const { exchanges, answers, requests, aborts, frames, websockets, handovers } = COUNTS;
  return `npm run fuzz -- [--exchanges N] [--answers N] [--requests N] [--aborts N] [--frames N] [--websockets N] [--handovers N] [--seed N]

Runs N generated exchanges (${exchanges} by default) through a gateway between hostile clients and a hostile upstream,
reads N generated answers (${answers} by default) with the gateway's reader and with undici, and N generated requests
(${requests} by default) with its fast path and with node:http; then lets N clients (${aborts} by default) leave at random
moments, then N sessions of generated HTTP/2 frames (${frames} by default), then N WebSockets (${websockets} by default) that are
dropped at random moments by either side, then N connections (${handovers} by default) on which requests of all kinds follow each
other, cut and left at random, then slowhttptest in its four modes. After each of them the gateway must hold no socket, timer,
descriptor or request more than before. The seed is printed; with it everything runs again.
`;
}

/** @throws Failure `bad_usage` */
function readOptions(args: readonly string[]): (Counts & { readonly seed: number }) | null {
  const text = { type: 'string' } as const;
  const { exchanges, answers, requests, aborts, frames, websockets, handovers, seed, help } = usage.parse(args, {
    ...{
      exchanges: text,
      answers: text,
      requests: text,
      aborts: text,
      frames: text,
      websockets: text,
      handovers: text,
    },
    seed: text,
    help: { type: 'boolean', short: 'h' },
  });
  if (help === true) return null;
  const given = { exchanges, answers, requests, aborts, frames, websockets, handovers };
  const counts = Object.entries(COUNTS).map(([name, usual]) => {
    return [name, usage.wholeNumber(name, given[name as keyof Counts], usual, 0, MAX_COUNT)];
  });
  return { ...(Object.fromEntries(counts) as Counts), seed: usage.wholeNumber('seed', seed, anySeed(), 0, MAX_SEED) };
}

async function fuzz(options: NonNullable<ReturnType<typeof readOptions>>, interrupted: AbortSignal): Promise<0 | 1> {
  // What was started ends with this process.
  interrupted.addEventListener('abort', () => process.exit(1));
  const { exchanges, answers, requests, aborts, frames, websockets, handovers, seed } = options;
  process.stdout.write(`Seed ${seed}.\n`);
  const fuzzed = await runCampaign({ exchanges, seed, onProgress: progressOf('exchanges', exchanges) });
  const { rssMib, failures, left } = fuzzed;
  const memory = `${rssMib.early.toFixed(0)} MiB after a tenth, ${rssMib.end.toFixed(0)} MiB at the end`;
  report(
    `${fuzzed.exchanges} exchanges in ${seconds(fuzzed.tookMs)}, ${fuzzed.forwarded} requests forwarded, ${memory}.`,
  );
  const disagreements = await compareWithUndici({ answers, seed });
  report(`${answers} answers read like undici reads them, but for ${disagreements.length}.`);
  const { problems: misread, taken, withBody } = compareWithNode({ requests, seed });
  report(
    `${requests} requests, ${taken} of them read by the fast path (${withBody} with a body) and all like node:http reads them, but for ${misread.length}.`,
  );
  const aborted = await runAborts({ clients: aborts, seed, onProgress: progressOf('aborts', aborts) });
  const grown = `${aborted.rssMib.before.toFixed(0)} MiB before, ${aborted.rssMib.after.toFixed(0)} MiB after`;
  report(`${aborted.clients} clients left in ${seconds(aborted.tookMs)}, ${aborted.lines} access lines, ${grown}.`);
  const framed = await runFrames({ sessions: frames, seed, onProgress: progressOf('HTTP/2 sessions', frames) });
  report(
    `${framed.sessions} HTTP/2 sessions of ${framed.frames} frames in ${seconds(framed.tookMs)}, ${framed.forwarded} requests forwarded.`,
  );
  const dropped = await runWebSockets({ clients: websockets, seed, onProgress: progressOf('WebSockets', websockets) });
  const kept = `${dropped.rssMib.before.toFixed(0)} MiB before, ${dropped.rssMib.after.toFixed(0)} MiB after`;
  report(`${dropped.clients} WebSockets in ${seconds(dropped.tookMs)}, ${dropped.opened} of them opened, ${kept}.`);
  const handed = await runHandOvers({
    connections: handovers,
    seed,
    onProgress: progressOf('connections that are handed over', handovers),
  });
  report(
    `${handed.connections} connections handed over and left in ${seconds(handed.tookMs)}, ${handed.forwarded} requests forwarded, ${handed.answers} answers, ${handed.rssMib.early.toFixed(0)} MiB early, ${handed.rssMib.end.toFixed(0)} MiB at the end.`,
  );
  const slow = await reportSlowhttptest(join(import.meta.dirname, '..', '..', 'node_modules', '.cache'));
  for (const line of slow.lines) report(line);
  const problems = [
    ...failures,
    ...disagreements,
    ...misread,
    ...left.map((it) => `Left behind: ${it}`),
    ...aborted.problems,
    ...framed.problems,
    ...dropped.problems,
    ...handed.problems,
    ...slow.problems,
  ];
  if (handed.rssMib.end - handed.rssMib.early > GROWTH_MIB)
    problems.push('Memory grew as connections were handed over');
  if (rssMib.end - rssMib.early > GROWTH_MIB) problems.push(`Memory is not flat: ${memory}`);
  for (const problem of problems) process.stderr.write(`\n${problem}\n`);
  report(problems.length === 0 ? 'Nothing was found.' : `${problems.length} failures, seed ${seed}.`);
  return problems.length === 0 ? 0 : 1;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function report(line: string): void {
  live.print(`${line}\n`);
}

function progressOf(what: string, total: number): (done: number) => void {
  return (done) => {
    if (done % 100 === 0) live.draw([`${done} of ${total} ${what}`]);
  };
}
