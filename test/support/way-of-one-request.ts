import { Agent, createServer, get } from 'node:http';
import { Session } from 'node:inspector/promises';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { createGateway } from '../../src/library.ts';

// A program: serves an admitted GET on the embedded store, from a connection that is kept, and writes as JSON which functions of
// `src` run for it, in their order, each as the file that holds it. V8's coverage finds the functions that run for one request. Each
// of them then gets a breakpoint whose condition notes its file and is never true, and further requests run through them. The
// request with the fewest functions counts, without those that did not run for each request: beside the others a response arrived in
// pieces, or a timer ran. What also runs while there is no request belongs to a timer, which on a slow machine runs beside each of them.

const SOURCES = new URL('../../src/', import.meta.url).href;
const WARM_UP = 20;
const TRACED = 30;
const IDLE_MS = 1_500;

const service = createServer((_request, response) => response.end('{"pets":[]}'));
await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
const gateway = await createGateway({
  gateway: {
    upstreams: { pets: { targets: [`http://127.0.0.1:${(service.address() as AddressInfo).port}`] } },
    routes: [{ path: '/pets', methods: ['GET'], upstream: 'pets' }],
  },
  plans: { plans: { free: { limits: { minute: 1_000 } } } },
});
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const { key } = await gateway.operations.createKey({ plan: 'free' });
for (let i = 0; i < WARM_UP; i++) await ask();

const session = new Session();
session.connect();
const scripts = new Map<string, string>();
session.on('Debugger.scriptParsed', ({ params }) => {
  if (params.url.startsWith(SOURCES)) scripts.set(params.scriptId, params.url.slice(SOURCES.length));
});
await session.post('Debugger.enable');
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
await session.post('Profiler.takePreciseCoverage');
await ask();
const { result } = await session.post('Profiler.takePreciseCoverage');
await session.post('Profiler.stopPreciseCoverage');

const ran: number[] = [];
const fileOf: string[] = [];
Reflect.set(globalThis, 'ran', ran);
for (const { scriptId, functions } of result) {
  const file = scripts.get(scriptId);
  if (file === undefined) continue;
  const { scriptSource } = await session.post('Debugger.getScriptSource', { scriptId });
  for (const { ranges } of functions) {
    const [{ startOffset, endOffset, count } = { startOffset: 0, endOffset: 0, count: 0 }] = ranges;
    if (count === 0) continue;
    const { locations } = await session.post('Debugger.getPossibleBreakpoints', {
      start: { scriptId, ...placeOf(scriptSource, startOffset) },
      end: { scriptId, ...placeOf(scriptSource, endOffset) },
      restrictToFunction: true,
    });
    const [location] = locations;
    if (location === undefined) continue;
    const condition = `void globalThis.ran.push(${fileOf.push(file) - 1})`;
    await session.post('Debugger.setBreakpoint', { location, condition });
  }
}
ran.length = 0;
await setTimeout(IDLE_MS);
const ofTimers = new Set(ran);
// On a slow machine the gateway may have closed the idle connection meanwhile.
await ask().catch(ask);
const traces: (readonly number[])[] = [];
for (let i = 0; i < TRACED; i++) {
  ran.length = 0;
  await ask();
  traces.push(ran.filter((step) => !ofTimers.has(step)));
}
const [fewest] = traces.toSorted((a, b) => a.length - b.length);
const ofEach = traces.map((steps) => new Set(steps)).reduce((common, steps) => common.intersection(steps));
process.stdout.write(`${JSON.stringify(fewest!.filter((step) => ofEach.has(step)).map((step) => fileOf[step]))}\n`);
session.disconnect();
agent.destroy();
service.close();
await gateway.close();

function ask(): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` };
    get(`${gateway.url}/pets`, { agent, headers }, (response) => {
      response.resume().once('end', () => setImmediate(() => setImmediate(() => setImmediate(resolve))));
      if (response.statusCode !== 200) reject(new Error(`The request was answered with ${response.statusCode}.`));
    }).once('error', reject);
  });
}

function placeOf(source: string, offset: number): { lineNumber: number; columnNumber: number } {
  const before = source.slice(0, offset).split('\n');
  return { lineNumber: before.length - 1, columnNumber: before.at(-1)!.length };
}
