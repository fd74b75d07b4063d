import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../test/support/free-port.ts';
import { LIMITS } from '../limits.ts';
import { startProcess, untilListening } from '../process.ts';
import { fillRedis } from '../redis.ts';
import { fileOf, findTool, type Tool } from '../tools/debian.ts';
import { CACHE, type KeySet, type World } from '../world.ts';
import type { Contestant, Running } from './contestant.ts';

const run = promisify(execFile);

const SERVERS = join(import.meta.dirname, '..', 'servers');
const LUA = 'usr/share/lua/5.1';
const MODULES = ['ndk_http_module.so', 'ngx_http_lua_module.so'].map((file) => `usr/lib/nginx/modules/${file}`);
const WANTED = {
  program: 'nginx',
  inPackage: 'usr/sbin/nginx',
  // Dependencies that the machine has would not be unpacked with it unless they are named.
  packages: [
    ...['nginx-core', 'nginx', 'libnginx-mod-http-ndk', 'libnginx-mod-http-lua'],
    ...['lua-resty-core', 'lua-resty-lrucache', 'lua-nginx-redis'],
  ],
};

/** The bar: the plain core of Kong and APISIX. It writes no log and counts no metrics. */
export const nginxLua: Contestant = {
  name: 'nginx-lua',
  title: 'nginx + Lua + Redis',
  claims: { checksKeys: true, limits: true, proxies: true },
  start: (world) => startLua(world, 1),
};

export const nginxLuaWith2Workers: Contestant = {
  ...nginxLua,
  name: 'nginx-lua-2-workers',
  title: 'nginx + Lua + Redis, 2 workers',
  start: (world) => startLua(world, 2),
};

async function startLua(world: World, workers: number): Promise<Running> {
  const tool = await findTool(
    { ...WANTED, needs: [...MODULES, ...['resty/core.lua', 'nginx/redis.lua'].map((file) => `${LUA}/${file}`)] },
    CACHE,
  );
  const redis = await world.redis();
  await fillRedis(redis.port, limitsOf(world.keys));
  const modules = await Promise.all(MODULES.map((file) => fileOf(tool, file)));
  const lua = dirname(dirname((await fileOf(tool, `${LUA}/resty/core.lua`))!));
  const config = {
    top: modules.map((file) => `load_module ${file};`).join('\n'),
    http: `
  lua_package_path '${SERVERS}/?.lua;${lua}/?.lua;;';
  lua_shared_dict keys 256m;
  init_by_lua_block { gate = require 'gate' }`,
    workers,
    location: `access_by_lua_block { gate(${redis.port}) }`,
  };
  return { ...(await start(`nginx-lua-${workers}`, tool, config, world)), redis };
}

/** A proxy and nothing else: what forwarding alone costs in C. */
export const nginx: Contestant = {
  name: 'nginx',
  title: 'nginx, proxy alone',
  claims: { checksKeys: false, limits: false, proxies: true },
  start: async (world) =>
    start('nginx', await findTool(WANTED, CACHE), { top: '', http: '', location: '', workers: 1 }, world),
};

/** As Tollgate: a body is passed on as it comes, not written into a file before. */
const BODIES = '    client_max_body_size 8m;\n    proxy_request_buffering off;\n';

interface Config {
  readonly top: string;
  readonly http: string;
  readonly location: string;
  readonly workers: number;
}

async function start(name: string, tool: Tool, config: Config, world: World): Promise<Running> {
  const prefix = join(world.folder, name);
  await mkdir(prefix);
  const port = await freePort();
  const file = join(prefix, 'nginx.conf');
  await writeFile(file, configuration(prefix, port, world, config));
  const args = ['-p', prefix, '-c', file, '-e', 'stderr'];
  const server = startProcess({ name, command: tool.path, args, env: tool.env, folder: world.folder });
  world.atEnd(server.stop);
  await untilListening(server, port);
  return { port, pid: server.pid, version: await versionOf(tool), redis: null };
}

function configuration(prefix: string, port: number, world: World, config: Config): string {
  const { certificate, upstreamPort, scenario } = world;
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  // Started by root, its worker would be nobody and could not read the folder.
  const user = process.getuid?.() === 0 ? 'user root root;' : '';
  return `${config.top}
${user}
daemon off;
worker_processes ${config.workers};
pid ${prefix}/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  tcp_nodelay on;
  keepalive_requests 1000000000;
${temporary.map((what) => `  ${what}_temp_path ${prefix}/${what};`).join('\n')}${config.http}
  upstream service {
    server 127.0.0.1:${upstreamPort};
    keepalive 512;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096${config.workers > 1 ? ' reuseport' : ''}${certificate === null ? '' : ' ssl http2'};
${certificate === null ? '' : `    ssl_certificate ${certificate.cert};\n    ssl_certificate_key ${certificate.key};\n`}${scenario.family === 'bodies' ? BODIES : ''}    location / {
      ${config.location}
      proxy_pass http://service;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`;
}

function* limitsOf({ good, ...others }: KeySet): Generator<readonly string[]> {
  for (const key of good) yield ['SET', `k:${key}`, `${LIMITS.good.minute} ${LIMITS.good.day}`];
  for (const kind of ['tiny', 'spent', 'banned'] as const) {
    yield ['SET', `k:${others[kind]}`, `${LIMITS[kind].minute} ${LIMITS[kind].day}`];
  }
}

async function versionOf({ path, env }: Tool): Promise<string> {
  const { stderr } = await run(path, ['-v', '-e', 'stderr'], { env: { ...process.env, ...env } });
  return /nginx\/(\S+)/.exec(stderr)?.[1] ?? 'unknown';
}
