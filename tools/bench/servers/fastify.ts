import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import type { ServerSettings } from '../contestants/node-servers.ts';
import { loadPeer } from '../tools/npm.ts';

// Fastify as its documentation puts it together. argv: file of settings.
// biome-ignore lint/suspicious/noExplicitAny: it is no dependency of the project, so its types are not there.
type Peer = any;

const settings = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as ServerSettings;
const load = (name: string): Peer => loadPeer(settings.peers!, name);
const keys = new Map(Object.entries(settings.keys));

const app = load('fastify')({ logger: false, keepAliveTimeout: 65_000 });
app.decorateRequest('apiKey', '');
app.addHook('onRequest', async (request: Peer, reply: Peer) => {
  const key = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
  if (key !== undefined && keys.has(key)) request.apiKey = key;
  else return reply.code(401).send({ code: 'invalid_api_key', message: 'This key is not known.', status: 401 });
});
await app.register(load('@fastify/rate-limit'), {
  redis: new Redis({ port: settings.redisPort, host: '127.0.0.1' }),
  keyGenerator: (request: Peer) => request.apiKey,
  max: (_request: Peer, key: string) => keys.get(key)!.day,
  timeWindow: '1 day',
});
await app.register(load('@fastify/http-proxy'), { upstream: `http://127.0.0.1:${settings.upstreamPort}` });
await app.listen({ port: settings.port, host: '127.0.0.1', backlog: 4096 });
