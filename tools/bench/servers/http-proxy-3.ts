import { readFileSync } from 'node:fs';
import { Agent, createServer, type ServerResponse } from 'node:http';
import { createProxyServer } from 'http-proxy-3';
import { Redis } from 'ioredis';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { ServerSettings } from '../contestants/node-servers.ts';

// http-proxy-3 behind two limiters of rate-limiter-flexible and a look-up of the ban. argv: file of settings.
const settings = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as ServerSettings;
const keys = new Map(Object.entries(settings.keys));
const redis = new Redis({ port: settings.redisPort, host: '127.0.0.1' });

const proxy = createProxyServer({
  target: `http://127.0.0.1:${settings.upstreamPort}`,
  agent: new Agent({ keepAlive: true, maxSockets: 512 }),
});
proxy.on('error', (_error, _request, response) => {
  if ('writeHead' in response) refuse(response, 502, 'upstream_unavailable');
});

/** A limiter has one number for all; so there is a pair for each number. */
const limiters = new Map<string, RateLimiterRedis>();
function limiterOf(window: 'minute' | 'day', points: number): RateLimiterRedis {
  const name = `${window}:${points}`;
  const known = limiters.get(name);
  if (known !== undefined) return known;
  const duration = window === 'minute' ? 60 : 86_400;
  const limiter = new RateLimiterRedis({ storeClient: redis, keyPrefix: window, points, duration });
  limiters.set(name, limiter);
  return limiter;
}

createServer({ keepAliveTimeout: 65_000 }, async (request, response) => {
  const key = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const limits = keys.get(key);
  if (limits === undefined) return refuse(response, 401, 'invalid_api_key');
  try {
    const [banned, minute, day] = await Promise.all([
      redis.get(`ban:${key}`),
      limiterOf('minute', limits.minute).consume(key),
      limiterOf('day', limits.day).consume(key),
    ]);
    if (banned !== null) return refuse(response, 429, 'api_key_banned');
    const isDay = day.remainingPoints < minute.remainingPoints;
    const [limit, binding] = isDay ? [limits.day, day] : [limits.minute, minute];
    response.setHeader('X-RateLimit-Limit', limit);
    response.setHeader('X-RateLimit-Remaining', binding.remainingPoints);
    response.setHeader('X-RateLimit-Reset', Math.ceil((Date.now() + binding.msBeforeNext) / 1000));
    proxy.web(request, response);
  } catch (reason) {
    if (!(reason instanceof RateLimiterRes)) return refuse(response, 503, 'store_unavailable');
    response.setHeader('Retry-After', Math.ceil(reason.msBeforeNext / 1000));
    refuse(response, 429, 'rate_limit_exceeded');
  }
}).listen(settings.port, '127.0.0.1', 4096);

function refuse(response: ServerResponse, status: number, code: string): void {
  const body = JSON.stringify({ code, message: 'Refused.', status });
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
}
