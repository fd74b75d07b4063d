import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../test/support/free-port.ts';
import { startProcess, untilListening } from '../process.ts';
import { findTool } from '../tools/debian.ts';
import { CACHE } from '../world.ts';
import type { Contestant } from './contestant.ts';

const run = promisify(execFile);

const WANTED = { program: 'caddy', inPackage: 'usr/bin/caddy', packages: ['caddy'] };

/** A proxy that knows one key; limits it has in no standard build. One thread of Go. */
export const caddy: Contestant = {
  name: 'caddy',
  title: 'caddy, key check, no limits',
  claims: { checksKeys: true, limits: false, proxies: true },
  start: async ({ folder, keys, upstreamPort, atEnd }) => {
    const tool = await findTool(WANTED, CACHE);
    const port = await freePort();
    const file = join(folder, 'Caddyfile');
    await writeFile(file, configuration(port, upstreamPort, keys.good[0]!));
    // It keeps certificates and its last configuration at home, and there is nothing to keep.
    const env = { ...tool.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder, GOMAXPROCS: '1' };
    const args = ['run', '--config', file, '--adapter', 'caddyfile'];
    const server = startProcess({ name: 'caddy', command: tool.path, args, env, folder });
    atEnd(server.stop);
    await untilListening(server, port);
    const { stdout } = await run(tool.path, ['version'], { env: { ...process.env, ...env } });
    return { port, pid: server.pid, version: stdout.trim().split(' ')[0]!, redis: null };
  },
};

function configuration(port: number, upstreamPort: number, key: string): string {
  return `{
  admin off
  auto_https off
  log {
    level ERROR
  }
}
http://:${port} {
  bind 127.0.0.1
  @known header Authorization "Bearer ${key}"
  handle @known {
    reverse_proxy 127.0.0.1:${upstreamPort} {
      transport http {
        keepalive_idle_conns_per_host 512
      }
    }
  }
  handle {
    respond "{}" 401
  }
}
`;
}
