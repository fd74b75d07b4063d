import { join } from 'node:path';
import { expect } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { freePort } from '../../support/free-port.ts';
import { type GatewaySetup, settingsOf } from '../../support/gateway.ts';
import { ROOT, type Running, startProcess } from '../../support/processes.ts';
import { runCommand } from '../../support/run-command.ts';

/** A gateway that is started by a shell, so that a test can say what its output, limits or process id are. */
export interface Relaunched {
  readonly process: Running;
  readonly port: number;
  readonly adminPort: number;
  /** A key of the plan `endless`. */
  readonly key: string;
  get(path: string): Promise<Response>;
  /** The value of a metric without labels. */
  metric(name: string): Promise<number>;
}

/**
 * Makes files and a key for a gateway, then starts it by `script`, where `"$@"` is the command of the gateway, and waits
 * until it is ready.
 */
export async function relaunch(
  setup: GatewaySetup,
  script: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Relaunched> {
  const settings = await settingsOf(setup);
  const made = await runCommand(settings, 'keys', 'create', '--plan', 'endless', '--json');
  const { key } = JSON.parse(made.stdout) as { key: string };
  const port = await freePort();
  const adminPort = await freePort();
  const command = [process.execPath, join(ROOT, 'bin', 'tollgate.js'), 'serve'];
  const running = startProcess('sh', ['-c', script, 'sh', ...command], {
    env: { ...settings, ...env, PORT: String(port), ADMIN_PORT: String(adminPort) },
  });
  const ready = async () => expect((await fetch(`http://127.0.0.1:${adminPort}/readyz`)).status).toBe(200);
  await eventually(ready, { withinMs: 10_000 });
  return {
    process: running,
    port,
    adminPort,
    key,
    get: (path) => fetch(`http://127.0.0.1:${port}${path}`, { headers: { Authorization: `Bearer ${key}` } }),
    metric: (name) => metricOf(adminPort, name),
  };
}

/** The value of a metric without labels. */
export async function metricOf(adminPort: number, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}
