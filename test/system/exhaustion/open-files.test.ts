import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metric } from '../../support/web-sockets.ts';
import { startWorkers } from '../workers/fleet.ts';

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

function connectTo(port: number, length: number) {
  const crowd = Array.from({ length }, () => ({ socket: createConnection(port, '127.0.0.1'), closed: false }));
  for (const one of crowd) {
    one.socket.on('error', () => {}).resume();
    one.socket.once('close', () => {
      one.closed = true;
    });
  }
  atEnd(() => crowd.map(({ socket }) => socket.destroy()));
  return crowd;
}

/** Opens connections until the gateway has no file left; nothing is sent on them. */
async function crowdOf(gateway: TestGateway) {
  const crowd = connectTo(gateway.port, CROWD);
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
  'connections beyond the open files are shed: no crash, no busy loop, and served as soon as there is room (reliability 69, 164)',
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

/** Lets one address have as many connections as there may be in all. */
const FROM_PROXY = { trustedProxies: '[127.0.0.1]' };

// Attack: the limit of open files is lower than `maxConnections`. Connections then take all files before any bound of the
// gateway's is reached, and no request on them can be forwarded.
test.skipIf(!hasPrlimit)(
  'a `maxConnections` that does not fit into the open files is lowered, with a warning, and requests are forwarded (reliability 69, 164, 487)',
  async () => {
    const { origin } = await startUpstream();
    const gateway = await startGateway({
      upstream: origin,
      upstreamSettings: { maxConnections: 60 },
      listen: FROM_PROXY,
      openFiles: 424,
    });
    // Those of the upstream, 96 of operators, 64 of commands, and 64 of its own.
    await gateway.process.until(
      /"level":40,.*listen\.maxConnections: 10000 do not fit: this process may have 424 files open and keeps 284 of them .*, so 140 connections are taken .* to 10284 /,
    );
    const { key } = await gateway.createKey('endless');
    const crowd = connectTo(gateway.port, 300);
    const openOnes = () => crowd.filter(({ closed }) => !closed).length;
    await eventually(() => expect(openOnes()).toBe(140), { withinMs: 10_000 });
    expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    expect(await metric(gateway, 'tollgate_connections_evicted_total{reason="connections"}')).toBe(161);
  },
);

// Attack: something else takes the files, so that the bound of connections is never reached.
test.skipIf(!hasPrlimit)(
  'a connection for which the last open files would be needed makes an idle one go or is closed, and each is counted (reliability 69, 164)',
  async () => {
    const upstream = await startUpstream(() => {});
    const gateway = await startGateway({
      upstream: upstream.origin,
      upstreamSettings: { maxConnections: 1 },
      listen: FROM_PROXY,
      openFiles: 128,
    });
    const own = filesOf(gateway);
    const { key } = await gateway.createKey('endless');
    const operators = connectTo(gateway.adminPort, 40);
    const keepAlive = () => operators.map(({ socket }) => socket.write('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'));
    keepAlive();
    const timer = setInterval(keepAlive, 1_000);
    atEnd(() => clearInterval(timer));
    await eventually(() => expect(filesOf(gateway)).toBeGreaterThanOrEqual(own + 40));
    const counted = async (what: string) => metric(gateway, `tollgate_connections_${what}_total{reason="descriptors"}`);
    const idle = connectTo(gateway.port, 60);
    const closed = (crowd: typeof idle) => crowd.filter((one) => one.closed).length;
    await eventually(async () => {
      const evicted = await counted('evicted');
      expect(evicted).toBeGreaterThan(5);
      // Those that are accepted in one turn count towards the limit of connections before their files are free again.
      const others = await metric(gateway, 'tollgate_connections_evicted_total{reason="connections"}');
      expect(evicted + others).toBe(closed(idle));
    });
    for (const { socket } of idle) socket.destroy();
    await eventually(async () => expect(await metric(gateway, 'tollgate_connections')).toBe(0));
    const before = { evicted: await counted('evicted'), dropped: await counted('dropped') };
    // One after the other, so that each that is open has a request that is being served.
    const busy: typeof idle = [];
    for (let asked = 1; asked <= 60; asked++) {
      const [one] = connectTo(gateway.port, 1);
      one!.socket.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
      busy.push(one!);
      await eventually(async () => expect((await metric(gateway, 'tollgate_in_flight')) + closed(busy)).toBe(asked));
    }
    expect(closed(busy)).toBeGreaterThan(5);
    expect(await counted('dropped')).toBe(before.dropped + closed(busy));
    expect(await counted('evicted')).toBe(before.evicted);
    expect(filesOf(gateway)).toBeLessThan(112 - 10);
  },
);

test.skipIf(!hasPrlimit)(
  'each worker has the limit of open files for itself, and one warning tells of all',
  async () => {
    const { origin } = await startUpstream();
    const gateway = await startWorkers(2, {
      upstream: origin,
      upstreamSettings: { maxConnections: 60 },
      openFiles: 300,
    });
    // The lines of the workers may come after that of the supervisor.
    await gateway.process.stop();
    const warnings = gateway.process.stdout.split('\n').filter((line) => line.includes('do not fit'));
    // Of the 60 connections to the upstream, each has 30.
    expect(warnings).toEqual([expect.stringMatching(/each of 2 workers .* 300 .* 190 of them .*, so 220 connections/)]);
  },
);
