import { execFile } from 'node:child_process';
import type { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { handleUnaryCall, UntypedServiceImplementation } from '@grpc/grpc-js';
import { status } from '@grpc/grpc-js';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { type EncryptedGateway, newAuthority, startEncrypted } from '../../support/encrypted.ts';
import { metadata, startGrpcService } from '../../support/grpc.ts';
import { startProcess, temporaryFolder } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';

/*
 * Clients of HTTP/2 and gRPC as people install them, from Debian: golang-go, golang-google-grpc-dev and nghttp2-client. A client that is not
 * installed fails its test.
 */

const run = promisify(execFile);
const CLIENTS = join(import.meta.dirname, 'clients');
/** Debian has Go's packages as sources in one folder. */
const GO = { ...process.env, GO111MODULE: 'off', GOPATH: '/usr/share/gocode' };

describe('Go, google.golang.org/grpc', () => {
  let program: string;

  beforeAll(async () => {
    program = join(await temporaryFolder(), 'grpc');
    await run('go', ['build', '-o', program, 'grpc.go'], { cwd: CLIENTS, env: GO });
  }, 300_000);

  test.each([
    ['Go over h2c', 'h2c'],
    ['Go over TLS', 'h2'],
    ['Node.js over h2c', 'node'],
  ])('calls a service in %s: all four kinds, deadline, cancellation, refusals', async (_, kind) => {
    const { origin, settings } = await (kind === 'node' ? nodeService() : goService(program, kind));
    const encrypted = await startEncrypted({
      upstream: origin,
      upstreamSettings: settings,
      routes: "\n  - { path: '/test.Echo/**', methods: [POST], upstream: store }",
    });
    const { gateway, authority } = encrypted;
    const [{ key }, { key: small }] = [await gateway.createKey('endless'), await gateway.createKey('gentle')];
    const { stdout } = await run(program, ['call', `127.0.0.1:${gateway.port}`, authority.cert, key, small]);
    expect(JSON.parse(stdout)).toEqual({
      ...{
        unary: 'HELLO',
        metadata: ['one', 'bye'],
        failed: 'NotFound none: 100 % "ä"',
        details: kind === 'node' ? 0 : 1,
      },
      ...{ upload: ['a+b+c'], download: 1000, talk: ['ONE', 'TWO'] },
      ...{ deadline: 'DeadlineExceeded', cancel: 'Canceled', cancelled: 2 },
      ...{ 401: 'Unauthenticated', 429: 'ResourceExhausted 1 1', 404: 'Unimplemented', missing: 'Unimplemented' },
    });
  });
});

async function goService(program: string, kind: string) {
  const authority = await newAuthority();
  const { cert, key } = await authority.issue('localhost');
  const service = startProcess(program, kind === 'h2' ? ['serve', cert, key] : ['serve']);
  const port = await eventually(() => {
    expect(service.stdout).toMatch(/^\d+\n/);
    return service.stdout.trim();
  });
  return kind === 'h2'
    ? { origin: `https://localhost:${port}`, settings: { protocol: 'h2', tls: `{ ca: ${authority.cert} }` } }
    : { origin: `http://127.0.0.1:${port}`, settings: { protocol: 'h2c' } };
}

async function nodeService() {
  let cancelled = 0;
  const unary: handleUnaryCall<string, string> = (call, done) => {
    call.sendMetadata(metadata({ 'x-saw': String(call.metadata.get('x-mark')) }));
    const trailer = metadata({ 'x-said': 'bye' });
    if (call.request === 'hang') call.on('cancelled', () => cancelled++);
    else if (call.request === 'fail') done({ code: status.NOT_FOUND, details: 'none: 100 % "ä"' });
    else if (call.request === 'cancelled') done(null, String(cancelled));
    else done(null, call.request.toUpperCase(), trailer);
  };
  const streams: UntypedServiceImplementation = {
    upload: async (call: AsyncIterable<string>, done: (error: null, text: string) => void) =>
      done(null, (await Array.fromAsync(call)).join('+')),
    download: (call: { request: string; write(text: string): void; end(): void }) => {
      for (let i = 1; i <= Number(call.request); i++) call.write(`${i}`);
      call.end();
    },
    talk: (call: EventEmitter & { write(text: string): void; end(): void }) => {
      call.on('data', (text: string) => call.write(text.toUpperCase()));
      call.on('end', () => call.end());
    },
  } as unknown as UntypedServiceImplementation;
  const { origin } = await startGrpcService({ unary, ...streams });
  return { origin, settings: { protocol: 'h2c' } };
}

describe('nghttp2', () => {
  let encrypted: EncryptedGateway;
  let key: string;

  beforeAll(async () => {
    const upstream = await startUpstream();
    encrypted = await startEncrypted({ upstream: upstream.origin });
    ({ key } = await encrypted.gateway.createKey('endless'));
  });

  const url = () => `https://127.0.0.1:${encrypted.gateway.port}/v1/pets`;
  const field = () => `authorization: Bearer ${key}`;

  test('h2load: none of 2,000 requests of 200 streams on four connections fails', async () => {
    const { stdout } = await run('h2load', ['-n', '2000', '-c', '4', '-m', '50', '-H', field(), url()]);
    expect(stdout).toContain('2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout');
    expect(stdout).toContain('status codes: 2000 2xx');
  });

  test.each([
    ['requests', []],
    ['requests with priorities of RFC 7540', ['--weight=200']],
    ['padded requests', ['--padding=64']],
    [
      'an upload with trailers and Expect',
      ['-H:method: POST', '-d', 'grpc.go', '--trailer', 'x-a: b', '--expect-continue'],
    ],
  ])('nghttp: %s, ten on one connection, are answered with 200', async (_, options) => {
    const { stdout } = await run('nghttp', ['-nv', '-m', '10', ...options, '-H', field(), url()], {
      cwd: CLIENTS,
      maxBuffer: 16 * 1024 * 1024,
    });
    expect(stdout.match(/:status: 200/g)).toHaveLength(10);
  });
});
