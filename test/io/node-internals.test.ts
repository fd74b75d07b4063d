import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { startGateway } from '../support/gateway.ts';
import { readResponses } from '../support/http-response.ts';
import { ROOT, runTollgate, startProcess } from '../support/processes.ts';
import { startUpstream } from '../support/upstream.ts';

const LACKING = pathToFileURL(join(import.meta.dirname, 'lacking-node.ts')).href;
const INTERNALS = pathToFileURL(join(ROOT, 'src', 'io', 'node-internals.ts')).href;

/** More than fits into one read, and into what the system takes at once. */
const LONG = 'x'.repeat(1024 * 1024);

/** What the self-tests say on a Node.js that lacks something: their warnings, or the failure. */
async function checkedOn(lacks: string, use = { tls: true, http2: true }) {
  const program = `
    import { checkNodeInternals } from '${INTERNALS}';
    const outcome = await checkNodeInternals(${JSON.stringify(use)}).then(
      (warnings) => ({ warnings }), ({ code, message }) => ({ code, message }));
    console.log(JSON.stringify(outcome));`;
  const words = ['--import', LACKING, '--input-type=module', '--eval', program];
  const running = startProcess(process.execPath, words, { env: { NODE_LACKS: lacks || undefined } });
  await running.exit;
  expect(running.stderr).toBe('');
  return JSON.parse(running.stdout) as { warnings?: string[]; code?: string; message?: string };
}

/** What is missing, and what the failure says of it. */
const REFUSED = [
  ['one listener for data', /reads connections in another way, so pipelined requests could be smuggled/],
  ['a parser that leaves the connection alone', /reads connections in another way, so pipelined requests/],
  ['packets that are shown', /does not show the packet that it parses, so malformed request lines could be smuggled/],
  ['bodies that are copied', /does not copy bodies, so those of two clients could be mixed/],
  ['resume by its method', /resumes connections in another way, so request bodies could fill the memory/],
  ['shouldKeepAlive that is obeyed', /keeps a connection open whose last response is written/],
  ['assignSocket', /cannot respond on a connection that its HTTP server has let go of/],
  ['a request without a client', /does not write the target of an upgrade as it was set/],
  ['a path that can be set', /does not write the target of an upgrade as it was set/],
  ['descriptors', /does not reveal the descriptor of a connection/],
  ['carriers', /does not reveal which connection carries an encrypted one/],
  ['handles of HTTP/2', /hides the handles of HTTP\/2/],
  ['the end of a stream of HTTP/2', /ends streams of HTTP\/2 in another way/],
  ['bytes on what was moved', /a connection that is moved to another socket loses bytes or its address/],
  ['the address of what was accepted', /a connection that is taken before a socket is made of it loses bytes/],
  ['a _write that writes once', /a text that is written directly arrives twice, late or not at all/],
] as const;
/** What is missing, and what the warning says of it. */
const WARNED = [
  ['handles that can be moved', /connections cannot be moved to sockets that share a buffer/],
  ['buffers for what is decrypted', /cannot be read into buffers that are used again/],
  ['connections before their sockets', /connections cannot be taken before sockets are made of them/],
  ['_write', /texts cannot be written directly/],
  ['destroySoon that is called', /closes connections in another way/],
  ['destroy that a failed write calls', /closes a connection in another way when a write fails/],
  ['destroy that ends a connection', /ends connections in another way/],
  ['codes of the parser', /has other error codes/],
] as const;

const outcomes = new Map<string, Awaited<ReturnType<typeof checkedOn>>>();

// All at once: several of them wait for what does not come.
beforeAll(async () => {
  const check = async ([lacks]: readonly [string, RegExp]) => outcomes.set(lacks, await checkedOn(lacks));
  await Promise.all([...REFUSED, ...WARNED].map(check));
});

test('the Node.js of the tests passes each self-test', async () => {
  expect(await checkedOn('')).toEqual({ warnings: [] });
});

test.each(REFUSED)('a Node.js without %s is refused', (lacks, sentence) => {
  const { code, message } = outcomes.get(lacks)!;
  const [, reason] = /^Node\.js v\S+ cannot be used: (.*)\. Tollgate is tested on Node\.js (\S+)\.$/.exec(message!)!;
  expect([code, reason]).toEqual(['unsupported_node', expect.stringMatching(sentence)]);
});

test.each(WARNED)('a Node.js without %s is warned of, and serves', (lacks, sentence) => {
  expect(outcomes.get(lacks)).toEqual({ warnings: [expect.stringMatching(sentence)] });
});

test('docs/internals/node-internals.md names each function of the file, and each part that is hidden here', async () => {
  const page = await readFile(join(ROOT, 'docs', 'internals', 'node-internals.md'), 'utf8');
  const rows = page.split('\n').filter((line) => line.split('|').length === 7);
  const cells = (n: number) => rows.slice(2).flatMap((row) => [...row.split('|')[n]!.matchAll(/`([^`]+)`/g)]);
  const named = (n: number) =>
    cells(n)
      .map(([, name]) => name)
      .sort();
  const { checkNodeInternals: _, ...functions } = await import('../../src/io/node-internals.ts');
  expect(named(2)).toEqual(Object.keys(functions).sort());
  expect(named(5)).toEqual([...REFUSED, ...WARNED].map(([lacks]) => lacks).sort());
});

test('what only TLS and HTTP/2 need is not asked for without them', async () => {
  expect(await checkedOn('carriers,handles of HTTP/2', { tls: false, http2: false })).toEqual({ warnings: [] });
});

describe('a gateway', () => {
  const on = (lacks: string) => ({ NODE_OPTIONS: `--import=${LACKING}`, NODE_LACKS: lacks });

  test('does not start, and says in a sentence why, where something is missing that protects', async () => {
    const { code, stdout, stderr } = await runTollgate(['serve'], {
      env: { ...on('packets that are shown'), PORT: '0', ADMIN_PORT: '0' },
    });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^Node\.js v\S+ cannot be used: its HTTP server does not show the packet .*\n$/);
  });

  test('takes the documented paths, and warns once of each, where the rest is missing', async () => {
    const bodies: string[] = [];
    const upstream = await startUpstream(async (request, response) => {
      bodies.push(await text(request));
      response.end(`${request.method} ${request.url} ${LONG}`);
    });
    const env = on(
      'connections before their sockets,handles that can be moved,_write,destroySoon that is called,codes of the parser',
    );
    const gateway = await startGateway({ upstream: upstream.origin, env });
    const warnings = gateway.process.stdout.split('\n').filter((line) => line.includes('"msg":"Node.js v'));
    expect(warnings.map((line) => (JSON.parse(line) as { level: unknown }).level)).toHaveLength(5);

    const { key } = await gateway.createKey('enterprise', '--limit', 'minute=100', '--limit', 'day=100');
    const lines = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
    const last = `${lines}Connection: close\r\n`;
    const received = async (methods: string[], bytes: string) => {
      const client = connect(gateway.port, '127.0.0.1');
      client.write(bytes);
      return readResponses(Buffer.concat((await client.toArray()) as Buffer[]), methods, true);
    };
    // Two by the fast path and one by node:http, in one packet.
    const served = await received(
      ['GET', 'GET', 'POST'],
      `GET /v1/pets?n=1 HTTP/1.1\r\n${lines}\r\nGET /v1/pets?n=2 HTTP/1.1\r\n${lines}\r\n` +
        `POST /v1/pets HTTP/1.1\r\n${last}Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n`,
    );
    const expected = ['GET /v1/pets?n=1', 'GET /v1/pets?n=2', 'POST /v1/pets'].map((line) => `${line} ${LONG}`);
    expect(served.map(({ status, complete }) => [status, complete])).toEqual(served.map(() => [200, true]));
    expect(served.map(({ body }) => body.toString('latin1')).join() === expected.join()).toBe(true);
    expect(bodies).toEqual(['', '', 'body']);
    // A request that is refused while its body is still to come, and one that cannot be parsed.
    const [refused] = await received(['POST'], `POST /v1/nowhere HTTP/1.1\r\n${last}Content-Length: 9\r\n\r\n`);
    const [unparsed] = await received(['GET'], 'GET / HTTP/3.7\r\nHost: a\r\n\r\n');
    expect([refused?.status, unparsed?.status]).toEqual([404, 400]);
  });
});
