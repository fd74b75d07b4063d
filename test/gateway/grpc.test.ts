import { once } from 'node:events';
import { constants } from 'node:http2';
import {
  type ClientDuplexStream,
  type ClientReadableStream,
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type Metadata,
  type ServerUnaryCall,
  type ServiceError,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { accessLines, type EncryptedGateway, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { PLANS } from '../support/gateway.ts';
import { echoClient, metadata, startGrpcService } from '../support/grpc.ts';
import { startUpstream } from '../support/upstream.ts';

// gRPC through the gateway, with its official client and server for Node.js: over TLS to the gateway, and h2c to the service.

const ROUTES = `
  - { path: '/test.Echo/**', methods: [POST], upstream: store }
  - { path: /test.Gone/Unary, methods: [POST], upstream: store, deprecated: { since: 2020-01-01, sunset: 2021-01-01 } }
  - { path: /test.Away/Unary, methods: [POST], upstream: away }
  - { path: /test.Web/Unary, methods: [POST], upstream: web }
`;
const OWN_PLANS = PLANS.replace('plans:', 'plans:\n  single: { limits: { minute: 1000 }, in-flight: 1 }');

/** The calls that the service has got and not answered. */
const open: ServerUnaryCall<string, string>[] = [];

const unary: handleUnaryCall<string, string> = (call, done) => {
  const trailer = metadata({ 'x-said': 'bye', 'x-ratelimit-limit': '7' });
  call.sendMetadata(metadata({ 'x-saw': String(call.metadata.get('x-mark')) }));
  if (call.request === 'hang') open.push(call);
  else if (call.request === 'fail') done({ code: status.NOT_FOUND, details: 'none: 100 % "ä"', metadata: trailer });
  else done(null, call.request.toUpperCase(), trailer);
};
const upload: handleClientStreamingCall<string, string> = async (call, done) => {
  const texts: string[] = [];
  for await (const text of call) texts.push(text as string);
  done(null, texts.join('+'));
};
const download: handleServerStreamingCall<string, string> = (call) => {
  if (call.request === 'break') {
    call.write('half');
    call.emit('error', { code: status.DATA_LOSS, details: 'broke' });
    return;
  }
  for (let i = 1; i <= Number(call.request); i++) call.write(`${i}`);
  call.end(metadata({ 'x-said': 'bye' }));
};
const talk: handleBidiStreamingCall<string, string> = (call) => {
  call.sendMetadata(metadata({ 'x-ready': 'yes' }));
  call.on('data', (text: string) => (text === 'stop' ? call.end() : call.write(text.toUpperCase())));
  call.on('end', () => call.end());
};

let encrypted: EncryptedGateway;
let client: ReturnType<typeof echoClient>;
let key: string;

beforeAll(async () => {
  const { origin } = await startGrpcService({ unary, upload, download, talk });
  const web = await startUpstream();
  const more = [`  web: { targets: [${web.origin}] }`, '  away: { targets: [http://127.0.0.1:1], protocol: h2c }'];
  encrypted = await openEncrypted({
    upstream: origin,
    plans: OWN_PLANS,
    upstreamSettings: { protocol: `h2c\n${more.join('\n')}` },
    routes: ROUTES,
  });
  ({ key } = await encrypted.gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
  client = echoClient(encrypted.gateway.port, encrypted.ca);
});

beforeEach(() => {
  open.length = 0;
});

const withKey = (fields: Record<string, string> = {}, own = key) =>
  metadata({ authorization: `Bearer ${own}`, ...fields });

interface Outcome {
  readonly text: string | undefined;
  readonly error: ServiceError | null;
}

function call(
  text: string,
  meta: Metadata = withKey(),
  options: object = {},
  method = client.unary!,
): Promise<Outcome> {
  return new Promise((resolve) =>
    method.call(client, text, meta, options, (error: ServiceError | null, answer?: string) =>
      resolve({ text: answer, error }),
    ),
  );
}

const readAll = async (stream: AsyncIterable<unknown>): Promise<unknown[]> => Array.fromAsync(stream);

describe('a call', () => {
  test('of one message gets its message, its metadata and its trailers; a trailer cannot be one of the gateway (reliability 529)', async () => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const running = client.unary!('hello', withKey({ 'x-mark': 'one' }), (error: ServiceError | null, text: string) =>
      error === null ? resolve(text) : reject(error),
    );
    const [[head], [end]] = (await Promise.all([once(running, 'metadata'), once(running, 'status')])) as [
      [Metadata],
      [StatusObject],
    ];
    expect(await promise).toBe('HELLO');
    expect(head.get('x-saw')).toEqual(['one']);
    expect(head.get('x-ratelimit-limit')).toEqual(['100000']);
    expect(end.code).toBe(status.OK);
    expect(end.metadata.get('x-said')).toEqual(['bye']);
    expect(end.metadata.get('x-ratelimit-limit')).toEqual([]);
  });

  test('that the service refuses gets its status, message and trailers', async () => {
    const { error } = await call('fail');
    expect(error).toMatchObject({ code: status.NOT_FOUND, details: 'none: 100 % "ä"' });
    expect(error!.metadata.get('x-said')).toEqual(['bye']);
  });

  test('that the service does not have gets UNIMPLEMENTED, which comes as trailers alone', async () => {
    const { error } = await call('hello', withKey(), {}, missing('/test.Echo/Missing'));
    expect(error!.code).toBe(status.UNIMPLEMENTED);
  });

  test('may stream to the service, from it, and in both directions', async () => {
    const uploaded = new Promise<string>((resolve, reject) => {
      const stream = client.upload!(withKey(), (error: ServiceError | null, text: string) =>
        error === null ? resolve(text) : reject(error),
      );
      for (const text of ['a', 'b', 'c']) stream.write(text);
      stream.end();
    });
    expect(await uploaded).toBe('a+b+c');

    const down = client.download!('1000', withKey()) as ClientReadableStream<string>;
    const end = once(down, 'status');
    expect(await readAll(down)).toEqual(Array.from({ length: 1000 }, (_, i) => `${i + 1}`));
    expect((await end)[0]).toMatchObject({ code: status.OK });

    const both = client.talk!(withKey()) as ClientDuplexStream<string, string>;
    // The service speaks first, before a message of the client.
    expect(((await once(both, 'metadata'))[0] as Metadata).get('x-ready')).toEqual(['yes']);
    for (const text of ['one', 'two']) {
      both.write(text);
      expect((await once(both, 'data'))[0]).toBe(text.toUpperCase());
    }
    both.end();
    expect((await once(both, 'status'))[0]).toMatchObject({ code: status.OK });
  });

  test('that the service ends while the client still sends gets its status (reliability 528)', async () => {
    const both = client.talk!(withKey()) as ClientDuplexStream<string, string>;
    both.on('data', () => {});
    both.write('stop');
    expect((await once(both, 'status'))[0]).toMatchObject({ code: status.OK });
  });

  test('that breaks in the middle gets an error after what had come', async () => {
    const down = client.download!('break', withKey()) as ClientReadableStream<string>;
    const texts: string[] = [];
    down.on('data', (text: string) => texts.push(text));
    const [error] = await once(down, 'error').catch((thrown: unknown) => [thrown]);
    expect((error as ServiceError).code).toBe(status.DATA_LOSS);
    expect(texts).toEqual(['half']);
  });

  test('sends its deadline to the service, which is cancelled when it passes', async () => {
    const late = call('hang', withKey(), { deadline: Date.now() + 500 });
    await eventually(() => expect(open).toHaveLength(1));
    expect(open[0]!.getDeadline()).not.toBe(Number.POSITIVE_INFINITY);
    expect((await late).error!.code).toBe(status.DEADLINE_EXCEEDED);
    await eventually(() => expect(open[0]!.cancelled).toBe(true));
  });

  test('that the client cancels is cancelled at the service', async () => {
    const running = client.unary!('hang', withKey(), () => {});
    await eventually(() => expect(open).toHaveLength(1));
    running.cancel();
    await eventually(() => expect(open[0]!.cancelled).toBe(true));
  });
});

/** A method of one message, which no definition has. */
function missing(path: string): typeof client.unary {
  const text = (bytes: Buffer) => bytes.toString();
  return ((message: string, ...rest: [Metadata, object, (error: ServiceError | null, text?: string) => void]) =>
    client.makeUnaryRequest(path, (it: string) => Buffer.from(it), text, message, ...rest)) as typeof client.unary;
}

describe('a refusal of the gateway is a status of gRPC', () => {
  const refused = async (meta: Metadata, path = '/test.Echo/Unary') =>
    (await call('hello', meta, {}, missing(path))).error!;

  test('401: UNAUTHENTICATED', async () => {
    const error = await refused(metadata({}));
    expect(error).toMatchObject({
      code: status.UNAUTHENTICATED,
      details: expect.stringContaining('No API key was sent'),
    });
    expect(error.metadata.get('x-request-id')).toHaveLength(1);
  });

  test('429: RESOURCE_EXHAUSTED, with the wait that clients of gRPC obey', async () => {
    const { key: small } = await encrypted.gateway.createKey('small');
    for (let i = 0; i < 3; i++) expect((await call('hello', withKey({}, small))).text).toBe('HELLO');
    const error = await refused(withKey({}, small));
    expect(error).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: expect.stringContaining('3 per minute') });
    const [wait] = error.metadata.get('retry-after');
    expect(Number(wait)).toBeGreaterThan(0);
    expect(error.metadata.get('grpc-retry-pushback-ms')).toEqual([String(Number(wait) * 1000)]);
    expect(error.metadata.get('x-ratelimit-remaining')).toEqual(['0']);
    await eventually(() => {
      const line = accessLines(encrypted.gateway).find(({ code }) => code === 'rate_limit_exceeded');
      expect(line).toMatchObject({ status: 429 });
    });
  });

  test('429 for too many in flight, until the call is over', async () => {
    const { key: single } = await encrypted.gateway.createKey('single');
    const first = client.unary!('hang', withKey({}, single), () => {});
    await eventually(() => expect(open).toHaveLength(1));
    expect(await refused(withKey({}, single))).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    first.cancel();
    await eventually(async () => expect((await call('hello', withKey({}, single))).text).toBe('HELLO'));
  });

  test('403: PERMISSION_DENIED', async () => {
    const { key: suspended, id } = await encrypted.gateway.createKey('free');
    await encrypted.gateway.command('keys', 'suspend', id, '--reason', 'unpaid');
    await eventually(async () => expect((await refused(withKey({}, suspended))).code).toBe(status.PERMISSION_DENIED));
  });

  test.each([
    ['404', '/test.None/Unary', status.UNIMPLEMENTED],
    ['410', '/test.Gone/Unary', status.UNIMPLEMENTED],
    ['502', '/test.Away/Unary', status.UNAVAILABLE],
  ])('%s: %s is %i', async (_, path, code) => {
    expect((await refused(withKey(), path)).code).toBe(code);
  });

  test('in one HEADERS frame, and for gRPC-Web in a frame of the body', async () => {
    const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
    const ask = async (type: string) => {
      const stream = session.request({ ':method': 'POST', ':path': '/test.Web/Unary', 'content-type': type });
      stream.end('x');
      const [head, flags] = await once(stream, 'response');
      stream.resume();
      return {
        status: head[':status'],
        grpc: head['grpc-status'],
        isWhole: (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0,
      };
    };
    expect(await ask('application/grpc+proto')).toEqual({ status: 200, grpc: '16', isWhole: true });
    expect(await ask('application/grpc-web+proto')).toEqual({ status: 200, grpc: undefined, isWhole: false });
  });
});
