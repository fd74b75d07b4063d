import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { reportSlowhttptest } from '../../test/system/slow/report.ts';
import { runAborts } from './aborts.ts';
import { compareWithUndici } from './answer-oracle.ts';
import { runCampaign } from './campaign.ts';
import { runHandOvers } from './hand-overs.ts';
import { runFrames } from './http2-frames.ts';
import { compareWithNode } from './request-oracle.ts';
import { runWebSockets } from './web-sockets.ts';

const { values } = parseArgs({
  options: {
    exchanges: { type: 'string', default: '100000' },
    answers: { type: 'string', default: '50000' },
    requests: { type: 'string', default: '200000' },
    aborts: { type: 'string', default: '10000' },
    frames: { type: 'string', default: '10000' },
    websockets: { type: 'string', default: '10000' },
    handovers: { type: 'string', default: '20000' },
    seed: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

const GROWTH_MIB = 96;

if (values.help) {
  process.stdout.write(`npm run fuzz -- [--exchanges N] [--answers N] [--requests N] [--aborts N] [--frames N] [--websockets N] [--handovers N] [--seed N]

Runs N generated exchanges (100000 unless told) through a gateway between hostile clients and a hostile upstream,
reads N generated answers (50000 unless told) with the gateway's reader and with undici, and N generated requests
(200000 unless told) with its fast path and with node:http; then lets N clients (10000 unless told) leave at random
moments, then N sessions of generated HTTP/2 frames (10000 unless told), then N WebSockets (10000 unless told) that are
dropped at random moments by either side, then N connections (20000 unless told) on which requests of all kinds follow each
other, cut and left at random, then slowhttptest in its four modes. After each of them the gateway must hold no socket, timer,
descriptor or request more than before. The seed is printed; with it everything runs again.
`);
} else process.exitCode = (await main()) ? 0 : 1;

async function main(): Promise<boolean> {
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  const exchanges = Number(values.exchanges);
  const aborts = Number(values.aborts);
  process.stdout.write(`Seed ${seed}.\n`);
  const fuzzed = await runCampaign({ exchanges, seed, onProgress: progressOf('exchanges', exchanges) });
  const { rssMib, failures, left } = fuzzed;
  const memory = `${rssMib.early.toFixed(0)} MiB after a tenth, ${rssMib.end.toFixed(0)} MiB at the end`;
  report(
    `${fuzzed.exchanges} exchanges in ${seconds(fuzzed.tookMs)}, ${fuzzed.forwarded} requests forwarded, ${memory}.`,
  );
  const answers = Number(values.answers);
  const disagreements = await compareWithUndici({ answers, seed });
  report(`${answers} answers read like undici reads them, but for ${disagreements.length}.`);
  const requests = Number(values.requests);
  const { problems: misread, taken, withBody } = compareWithNode({ requests, seed });
  report(
    `${requests} requests, ${taken} of them read by the fast path (${withBody} with a body) and all like node:http reads them, but for ${misread.length}.`,
  );
  const aborted = await runAborts({ clients: aborts, seed, onProgress: progressOf('aborts', aborts) });
  const grown = `${aborted.rssMib.before.toFixed(0)} MiB before, ${aborted.rssMib.after.toFixed(0)} MiB after`;
  report(`${aborted.clients} clients left in ${seconds(aborted.tookMs)}, ${aborted.lines} access lines, ${grown}.`);
  const frames = Number(values.frames);
  const framed = await runFrames({ sessions: frames, seed, onProgress: progressOf('HTTP/2 sessions', frames) });
  report(
    `${framed.sessions} HTTP/2 sessions of ${framed.frames} frames in ${seconds(framed.tookMs)}, ${framed.forwarded} requests forwarded.`,
  );
  const websockets = Number(values.websockets);
  const dropped = await runWebSockets({ clients: websockets, seed, onProgress: progressOf('WebSockets', websockets) });
  const kept = `${dropped.rssMib.before.toFixed(0)} MiB before, ${dropped.rssMib.after.toFixed(0)} MiB after`;
  report(`${dropped.clients} WebSockets in ${seconds(dropped.tookMs)}, ${dropped.opened} of them opened, ${kept}.`);
  const handovers = Number(values.handovers);
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
  return problems.length === 0;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function report(line: string): void {
  process.stdout.write(`${process.stdout.isTTY ? '\r\x1b[K' : ''}${line}\n`);
}

/** A line that is rewritten, on a terminal only. */
function progressOf(what: string, total: number): (done: number) => void {
  if (!process.stdout.isTTY) return () => {};
  return (done) => {
    if (done % 100 === 0) process.stdout.write(`\r${done} of ${total} ${what}`);
  };
}
