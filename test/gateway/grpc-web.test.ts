import { createServer } from 'node:http';
import { create, createFileRegistry } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, file_google_protobuf_wrappers, type StringValue } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, createClient, type HandlerContext } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import { beforeAll, describe, expect, test } from 'vitest';
import { atEnd } from '../support/endings.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { listen } from '../support/listening.ts';
import { rawExchange } from '../support/raw-http.ts';

// gRPC-Web through the gateway over HTTP/1.1, as pages call it: by fetch, with the client of Connect and its service for Node.js.

const TEXT = '.google.protobuf.StringValue';
const file = create(FileDescriptorProtoSchema, {
  ...{ name: 'echo.proto', package: 'test', syntax: 'proto3', dependency: ['google/protobuf/wrappers.proto'] },
  service: [
    {
      name: 'Echo',
      method: [
        { name: 'Unary', inputType: TEXT, outputType: TEXT },
        { name: 'Download', inputType: TEXT, outputType: TEXT, serverStreaming: true },
      ],
    },
  ],
});
const Echo = createFileRegistry(file, () => file_google_protobuf_wrappers).getService('test.Echo')!;

const methods = {
  unary: ({ value }: StringValue, context: HandlerContext) => {
    context.responseHeader.set('x-saw', context.requestHeader.get('x-mark') ?? 'nothing');
    context.responseTrailer.set('x-said', 'bye');
    if (value === 'fail') throw new ConnectError('none', Code.NotFound, { 'x-why': 'because' });
    return { value: value.toUpperCase() };
  },
  download: async function* ({ value }: StringValue) {
    for (let i = 1; i <= Number(value); i++) yield { value: `${i}` };
  },
};

let gateway: TestGateway;
let key: string;
let client: {
  unary(message: { value: string }, options: object): Promise<StringValue>;
  download(message: { value: string }, options: object): AsyncIterable<StringValue>;
};

beforeAll(async () => {
  const service = createServer(connectNodeAdapter({ routes: (router) => router.service(Echo, methods as object) }));
  const { origin } = await listen(service);
  atEnd(() => service.close().closeAllConnections());
  const routes = `
  - { path: '/test.Echo/**', methods: [POST], upstream: store }
  - { path: '/test.Away/**', methods: [POST], upstream: away }`;
  gateway = await openGateway({
    ...{ upstream: origin, routes },
    upstreamSettings: { responseTimeout: '10s\n  away: { targets: [http://127.0.0.1:1] }' },
  });
  ({ key } = await gateway.createKey('endless'));
  client = createClient(Echo, createGrpcWebTransport({ baseUrl: gateway.origin })) as never;
});

const as = (own: string, more: object = {}) => ({
  headers: { authorization: `Bearer ${own}`, 'x-mark': 'one' },
  ...more,
});
const errorOf = async (call: Promise<unknown>): Promise<ConnectError> => {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConnectError);
  return error as ConnectError;
};

describe('a call', () => {
  test('of one message gets its message, its metadata and its trailers', async () => {
    const seen: Headers[] = [];
    const keep = { onHeader: (it: Headers) => seen.push(it), onTrailer: (it: Headers) => seen.push(it) };
    expect((await client.unary({ value: 'hello' }, as(key, keep))).value).toBe('HELLO');
    expect([seen[0]!.get('x-saw'), seen[1]!.get('x-said')]).toEqual(['one', 'bye']);
  });

  test('gets a stream of messages, and the status of the service', async () => {
    const texts = await Array.fromAsync(client.download({ value: '500' }, as(key)), ({ value }) => value);
    expect(texts).toEqual(Array.from({ length: 500 }, (_, i) => `${i + 1}`));
    const error = await errorOf(client.unary({ value: 'fail' }, as(key)));
    expect([error.code, error.rawMessage, error.metadata.get('x-why')]).toEqual([Code.NotFound, 'none', 'because']);
  });
});

describe('a refusal of the gateway is a status of gRPC', () => {
  test('401: Unauthenticated', async () => {
    const error = await errorOf(client.unary({ value: 'a' }, {}));
    expect([error.code, error.rawMessage]).toEqual([
      Code.Unauthenticated,
      expect.stringContaining('No API key was sent'),
    ]);
  });

  test('429: ResourceExhausted, with the wait', async () => {
    const { key: small } = await gateway.createKey('small');
    for (let i = 0; i < 3; i++) await client.unary({ value: 'a' }, as(small));
    for (let i = 0; i < 2; i++) {
      const error = await errorOf(client.unary({ value: 'a' }, as(small)));
      expect([error.code, error.rawMessage]).toEqual([Code.ResourceExhausted, expect.stringContaining('3 per minute')]);
      const wait = Number(error.metadata.get('retry-after'));
      expect(wait).toBeGreaterThan(0);
      expect(error.metadata.get('grpc-retry-pushback-ms')).toBe(String(wait * 1000));
    }
  });

  test.each([
    ['404', '/test.None/Unary', Code.Unimplemented],
    ['502', '/test.Away/Unary', Code.Unavailable],
  ])('%s: %s is %i', async (_, path, code) => {
    const { status, trailers } = await ask(path, 'application/grpc-web');
    expect([status, trailers['grpc-status']]).toEqual([200, String(code)]);
  });

  test.each([
    ['application/grpc-web', 'application/grpc-web'],
    ['application/grpc-web+proto; charset=x', 'application/grpc-web+proto'],
    ['application/grpc-web-text', 'application/grpc-web-text'],
    ['application/grpc-web-text+thrift', 'application/grpc-web-text+thrift'],
  ])('in a frame of a body of type %s', async (asked, type) => {
    const answer = await ask('/test.None/Unary', asked);
    expect(answer).toMatchObject({ status: 200, type });
    expect(Object.keys(answer.trailers)).toEqual(['grpc-status', 'grpc-message']);
  });

  test('and other types, and other methods, get the errors of other requests', async () => {
    for (const type of ['application/grpc-webx', 'application/grpc', 'application/json']) {
      const response = await gateway.get('/test.None/Unary', key, {
        ...{ method: 'POST', headers: { 'content-type': type }, body: 'x' },
      });
      expect([response.status, await response.json()]).toEqual([404, expect.objectContaining({ status: 404 })]);
    }
    const head = { headers: { 'content-type': 'application/grpc-web' } };
    expect((await gateway.get('/test.None/Unary', key, head)).status).toBe(404);
  });

  test.each(['Content-Length: 1\r\nContent-Length: 2', 'a line without a colon'])(
    'also where the request cannot be read: %j',
    async (fault) => {
      const lines = ['POST /test.Echo/Unary HTTP/1.1', 'Host: a', 'Content-Type: application/grpc-web', fault];
      const { bytes } = await rawExchange(gateway.port, `${lines.join('\r\n')}\r\n\r\n`);
      const [, body = ''] = bytes.toString('latin1').split('\r\n\r\n');
      expect(bytes.toString('latin1')).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(trailersOf(Buffer.from(body, 'latin1'))['grpc-status']).toBe('3');
    },
  );
});

async function ask(path: string, type: string) {
  const response = await gateway.get(path, key, { method: 'POST', headers: { 'content-type': type }, body: 'x' });
  const bytes = Buffer.from(await response.arrayBuffer());
  const frame = type.includes('-text') ? Buffer.from(bytes.toString(), 'base64') : bytes;
  return { status: response.status, type: response.headers.get('content-type'), trailers: trailersOf(frame) };
}

function trailersOf(frame: Buffer): Record<string, string> {
  expect([frame[0], frame.readUInt32BE(1)]).toEqual([0x80, frame.length - 5]);
  const lines = frame.subarray(5).toString().trimEnd().split('\r\n');
  return Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]));
}
