import {
  type ChannelOptions,
  credentials,
  Metadata,
  makeClientConstructor,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { atEnd } from './endings.ts';

const method = (name: string, requestStream: boolean, responseStream: boolean) => ({
  ...{ path: `/test.Echo/${name}`, requestStream, responseStream },
  requestSerialize: (text: string) => Buffer.from(text),
  requestDeserialize: (bytes: Buffer) => bytes.toString(),
  responseSerialize: (text: string) => Buffer.from(text),
  responseDeserialize: (bytes: Buffer) => bytes.toString(),
});

/** A service whose messages are texts. */
export const ECHO = {
  unary: method('Unary', false, false),
  upload: method('Upload', true, false),
  download: method('Download', false, true),
  talk: method('Talk', true, true),
} satisfies ServiceDefinition;

/** Starts a service of gRPC without TLS. @returns its address, as a target */
export async function startGrpcService(methods: UntypedServiceImplementation): Promise<{ readonly origin: string }> {
  const server = new Server();
  server.addService(ECHO, methods);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  atEnd(() => server.forceShutdown());
  return { origin: `http://127.0.0.1:${port}` };
}

const EchoClient = makeClientConstructor(ECHO, 'Echo');

/** The official client, over TLS, as a channel of its own. */
export function echoClient(port: number, ca: string, options: ChannelOptions = {}): InstanceType<typeof EchoClient> {
  const client = new EchoClient(`127.0.0.1:${port}`, credentials.createSsl(Buffer.from(ca)), {
    'grpc.ssl_target_name_override': 'localhost',
    'grpc.use_local_subchannel_pool': 1,
    ...options,
  });
  atEnd(() => client.close());
  return client;
}

export function metadata(fields: Readonly<Record<string, string>>): Metadata {
  const all = new Metadata();
  for (const [name, value] of Object.entries(fields)) all.set(name, value);
  return all;
}
