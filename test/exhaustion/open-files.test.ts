import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
/** Descriptors left to the gateway beyond those that it has open. */
const LEFT = 20;
const CROWD = 150;

const filesOf = ({ process }: TestGateway) => readdirSync(`/proc/${process.pid}/fd`).length;

/** Processor time that the process has used, in milliseconds (the kernel counts in hundredths of a second). */
function cpuMs({ process }: TestGateway): number {
  const fields = readFileSync(`/proc/${process.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Opens connections until the gateway has no file left; nothing is sent on them. */
async function crowdOf(gateway: TestGateway) {
  const crowd = Array.from({ length: CROWD }, () => ({
    socket: createConnection(gateway.port, '127.0.0.1'),
    closed: false,
  }));
  for (const one of crowd) {
    one.socket.on('error', () => {}).resume();
    one.socket.once('close', () => {
      one.closed = true;
    });
  }
  atEnd(() => crowd.map(({ socket }) => socket.destroy()));
  const shed = () => crowd.filter(({ closed }) => closed).length;
  await eventually(() => expect(shed()).toBeGreaterThan(CROWD - LEFT - 5), { withinMs: 5_000 });
  return crowd;
}

async function startTight() {
  // Without a connection that is kept for the next request.
  const upstream = await startUpstream((_request, response) => response.setHeader('Connection', 'close').end('{}'));
  const gateway = await startGateway({ upstream: upstream.origin });
  const { key } = await gateway.createKey('endless');
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  const limit = `--nofile=${filesOf(gateway) + LEFT}`;
  expect(spawnSync('prlimit', ['--pid', String(gateway.process.pid), limit]).status).toBe(0);
  return { gateway, key };
}

const served = async (gateway: TestGateway, key: string) =>
  eventually(async () => expect((await gateway.get('/v1/pets', key)).status).toBe(200), { withinMs: 5_000 });

// Attack: more connections than the process may have files. `accept` fails with EMFILE while the connection stays in the
// kernel's queue, so that a careless server ends with an error that nobody caught, or asks for the same connection again
// and again with all the processor time there is; and it cannot connect to the upstream, nor open any file of its own.
test.skipIf(!hasPrlimit)(
  'connections beyond the open files are shed: no crash, no busy loop, and served as soon as there is room (reliability 69)',
  async () => {
    const { gateway, key } = await startTight();
    const crowd = await crowdOf(gateway);
    const before = cpuMs(gateway);
    await delay(1_000);
    expect(cpuMs(gateway) - before).toBeLessThan(300);
    for (const { socket } of crowd) socket.destroy();
    await served(gateway, key);
    expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
  },
);

// Attack: the same, and then a request on a connection that has been accepted. The one to the upstream cannot be opened.
test.skipIf(!hasPrlimit)(
  'a request for which no connection to the upstream can be opened is a 502, and the next one is served (reliability 69)',
  async () => {
    const { gateway, key } = await startTight();
    const [first, ...others] = await crowdOf(gateway);
    const answer = new Promise<string>((resolve) => first?.socket.once('data', (bytes) => resolve(bytes.toString())));
    first?.socket.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    expect(await answer).toMatch(/^HTTP\/1\.1 502 .*"upstream_unavailable"/s);
    await gateway.process.until(/"cause":"[^"]*EMFILE/, { withinMs: 5_000 });
    for (const { socket } of others) socket.destroy();
    await served(gateway, key);
    expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
  },
);
