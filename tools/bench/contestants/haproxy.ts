import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../test/support/free-port.ts';
import { LIMITS } from '../limits.ts';
import { startProcess, untilListening } from '../process.ts';
import { findTool, type Tool } from '../tools/debian.ts';
import { CACHE, type KeySet } from '../world.ts';
import type { Contestant } from './contestant.ts';

const run = promisify(execFile);

const WANTED = { program: 'haproxy', inPackage: 'usr/sbin/haproxy', packages: ['haproxy'] };

/** haproxy 2.6 takes a negative number minus a positive one for an overflow: so what is compared is kept positive. */
const OFFSET = 1_000_000_000_000;

/** Keys in a map, minute and day in its own memory: what a limit costs that no other gateway shares. One thread. */
export const haproxy: Contestant = {
  name: 'haproxy',
  title: 'haproxy, limits in memory',
  claims: { checksKeys: true, limits: true, proxies: true },
  start: async (world) => {
    const tool = await findTool(WANTED, CACHE);
    const port = await freePort();
    const file = (name: string) => join(world.folder, `haproxy-${name}`);
    await writeFile(file('minute.map'), mapOf(world.keys, 'minute'));
    await writeFile(file('day.map'), mapOf(world.keys, 'day'));
    await writeFile(file('cfg'), configuration(port, world.upstreamPort, file));
    const args = ['-db', '-f', file('cfg')];
    const server = startProcess({ name: 'haproxy', command: tool.path, args, env: tool.env, folder: world.folder });
    world.atEnd(server.stop);
    await untilListening(server, port);
    return { port, pid: server.pid, version: await versionOf(tool), redis: null };
  },
};

/** Its windows begin with the first request of a key and slide on, which is as near to ours as it comes. */
function configuration(port: number, upstreamPort: number, file: (name: string) => string): string {
  const answer = (status: number, code: string) =>
    `return status ${status} content-type application/json string '{"code":"${code}","message":"Refused.","status":${status}}'`;
  const fields = [
    'hdr X-RateLimit-Limit %[var(txn.limit)]',
    'hdr X-RateLimit-Remaining %[var(txn.remaining)]',
    'hdr X-RateLimit-Reset %[date(60)]',
  ];
  const set = fields.map((field) => `  http-response set-header ${field.slice(4)}`).join('\n');
  return `
global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout connect 5s
  timeout client 65s
  timeout server 65s
  http-reuse always
backend minute
  stick-table type string len 64 size 2m expire 60s store http_req_rate(60s)
backend day
  stick-table type string len 64 size 2m expire 1d store http_req_rate(1d)
frontend public
  bind 127.0.0.1:${port} backlog 4096
  http-request set-var(txn.key) req.hdr(authorization),regsub('^[Bb]earer +','')
  http-request set-var(txn.minute) var(txn.key),map_str_int(${file('minute.map')})
  http-request ${answer(401, 'invalid_api_key')} unless { var(txn.minute) -m found }
  http-request set-var(txn.day) var(txn.key),map_str_int(${file('day.map')})
  http-request track-sc0 var(txn.key) table minute
  http-request track-sc1 var(txn.key) table day
  http-request set-var(txn.used) sc_http_req_rate(0,minute)
  http-request set-var(txn.usedToday) sc_http_req_rate(1,day)
  http-request set-var(txn.minuteLeft) var(txn.minute),sub(txn.used)
  http-request set-var(txn.dayLeft) var(txn.day),sub(txn.usedToday)
  http-request set-var(txn.limit) var(txn.minute)
  http-request set-var(txn.remaining) var(txn.minuteLeft)
  http-request set-var(txn.ofMinute) var(txn.minuteLeft),add(${OFFSET})
  http-request set-var(txn.less) var(txn.dayLeft),add(${2 * OFFSET}),sub(txn.ofMinute)
  http-request set-var(txn.limit) var(txn.day) if { var(txn.less) -m int lt ${OFFSET} }
  http-request set-var(txn.remaining) var(txn.dayLeft) if { var(txn.less) -m int lt ${OFFSET} }
  http-request ${answer(429, 'rate_limit_exceeded')} hdr Retry-After 60 ${fields.map((field) => field.replace('%[var(txn.remaining)]', '0')).join(' ')} if { var(txn.remaining) -m int lt 0 }
${set}
  default_backend service
backend service
  server store 127.0.0.1:${upstreamPort}
`;
}

function mapOf({ good, ...others }: KeySet, window: 'minute' | 'day'): string {
  const lines = good.map((key) => `${key} ${LIMITS.good[window]}\n`);
  for (const kind of ['tiny', 'spent', 'banned'] as const) lines.push(`${others[kind]} ${LIMITS[kind][window]}\n`);
  return lines.join('');
}

async function versionOf({ path, env }: Tool): Promise<string> {
  const { stdout } = await run(path, ['-v'], { env: { ...process.env, ...env } });
  return /version (\S+)/.exec(stdout)?.[1] ?? 'unknown';
}
