import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../../test/support/free-port.ts';
import { startProcess, untilListening } from '../process.ts';
import { expectationOf } from '../scenarios.ts';
import type { Contestant } from './contestant.ts';

const SERVER = join(import.meta.dirname, '..', 'servers', 'bare.ts');

/** node:http that answers by itself, with the body that Tollgate's answer has. It closes the connection where Tollgate does. */
export const bareNode: Contestant = {
  name: 'bare-node',
  title: 'bare node:http answer',
  claims: { checksKeys: false, limits: false, proxies: false },
  start: async (world, { answer }) => {
    const port = await freePort();
    const file = join(world.folder, 'bare-answer.json');
    // Where Tollgate does not take part, a body of about the size of its refusals.
    const status = answer?.status ?? (expectationOf(world.scenario) === 'refused' ? 429 : 200);
    const type = answer?.headers.get('content-type') ?? 'application/json';
    const closes = answer?.headers.get('connection') === 'close';
    await writeFile(file, JSON.stringify({ status, type, closes, body: answer?.body ?? 'x'.repeat(284) }));
    const args = [SERVER, String(port), file];
    const server = startProcess({ name: 'bare-node', command: process.execPath, args, folder: world.folder });
    world.atEnd(server.stop);
    await untilListening(server, port);
    return { port, pid: server.pid, version: process.versions.node, redis: null };
  },
};
