import { readFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { createServer as createEncryptedServer } from 'node:https';
import { createServer as createSilentServer, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createAuthority } from '../../../support/certificates.ts';
import { eventually } from '../../../support/conditions.ts';
import { atEnd } from '../../../support/endings.ts';
import { openGateway, type TestGateway } from '../../../support/gateway.ts';
import { temporaryFolder } from '../../../support/processes.ts';
import { paced } from '../../../support/room.ts';
import { stopwatch } from '../../../support/stopwatch.ts';
import { startRawUpstream, startUpstream } from '../../../support/upstream.ts';

const LIMITLESS = ['--limit', 'minute=1000000', '--limit', 'day=1000000'];

const answering = (name: string, port = 0) => startUpstream((_request, response) => response.end(name), { port });

const gatewayBefore = async (targets: string[], upstreamSettings: Record<string, string | number> = {}) => {
  const gateway = await openGateway({ upstream: targets.join(', '), upstreamSettings });
  const { key } = await gateway.createKey('enterprise', ...LIMITLESS);
  return { gateway, key };
};

/** Statuses and bodies of so many requests, `at` a time. */
const ask = async (gateway: TestGateway, key: string, count: number, at = 1) => {
  const told: string[] = [];
  let left = count;
  const worker = async () => {
    while (left-- > 0) {
      const answer = await gateway.get('/v1/pets', key);
      told.push(
        `${answer.status} ${answer.status === 200 ? await answer.text() : ((await answer.json()) as { code: string }).code}`,
      );
    }
  };
  await Promise.all(Array.from({ length: at }, worker));
  return told;
};

const count = (told: readonly string[]) => {
  const counts: Record<string, number> = {};
  for (const it of told) counts[it] = (counts[it] ?? 0) + 1;
  return counts;
};

describe('several targets', () => {
  test('share the requests evenly, and of busy ones the one with the fewest in flight is taken', async () => {
    let held = true;
    const slow = await startUpstream(async (_request, response) => {
      await eventually(() => !held, { withinMs: 10_000 });
      response.end('slow');
    });
    const [one, two] = [await answering('one'), await answering('two')];
    const even = await gatewayBefore([one.origin, two.origin]);
    expect(count(await ask(even.gateway, even.key, 40))).toEqual({ '200 one': 20, '200 two': 20 });
    const uneven = await gatewayBefore([slow.origin, one.origin]);
    const waiting = ask(uneven.gateway, uneven.key, 1);
    await eventually(() => expect(slow.requests.length).toBe(1));
    expect(count(await ask(uneven.gateway, uneven.key, 20))).toEqual({ '200 one': 20 });
    held = false;
    expect(await waiting).toEqual(['200 slow']);
  });

  test('one that is killed is left out without a failed request where nothing had been sent to it, and is let back in', async () => {
    const [one, two] = [await answering('one'), await answering('two')];
    const { gateway, key } = await gatewayBefore([one.origin, two.origin]);
    await ask(gateway, key, 10);
    await two.close();
    // The requests that were on their way when it died may fail, and only they; here there were none.
    expect(count(await ask(gateway, key, 50))).toEqual({ '200 one': 50 });
    const back = await answering('two again', two.port);
    await eventually(async () => expect(await ask(gateway, key, 2)).toContain('200 two again'), { withinMs: 8_000 });
    await eventually(() => {
      expect(gateway.process.stdout).toMatch(/"target":"http:[^"]+","cause":"[^"]*ECONNREFUSED[^"]*","msg":"left out"/);
      expect(gateway.process.stdout).toContain('"msg":"let back in"');
    });
    expect(back.requests.length).toBeGreaterThan(0);
  });

  test('one that was left out gets few requests at first: what has just come up is not buried', async () => {
    const [one, two] = [await answering('one'), await answering('two')];
    const { gateway, key } = await gatewayBefore([one.origin, two.origin]);
    await two.close();
    await ask(gateway, key, 4);
    const held: ServerResponse[] = [];
    await startUpstream((_request, response) => void held.push(response), { port: two.port });
    const atOnce = await eventually(
      async () => {
        const before = one.requests.length;
        const round = ask(gateway, key, 40, 20);
        // The other one answers while the first request waits here.
        await eventually(() => expect(one.requests.length - before + held.length).toBe(40));
        const arrived = held.splice(0);
        for (const response of arrived) response.end('two');
        await round;
        return arrived.length > 0 && arrived.length;
      },
      { withinMs: 8_000 },
    );
    expect(atOnce).toBe(1);
  });

  test('one that hangs costs 504 to few, then is left out', async () => {
    const [good, hung] = [await answering('good'), await startRawUpstream(() => {})];
    const { gateway, key } = await gatewayBefore([good.origin, hung.origin], { responseTimeout: `${paced(300)}ms` });
    const took = stopwatch();
    const counts = count(await ask(gateway, key, 60, 4));
    expect(Object.keys(counts).sort()).toEqual(['200 good', '504 upstream_timeout']);
    expect(counts['504 upstream_timeout']).toBeLessThanOrEqual(8 + took() / 1_000);
  });

  test('one that answers rubbish costs 502 to few, then is left out', async () => {
    const [good, odd] = [await answering('good'), await startRawUpstream((socket) => socket.end('rubbish\r\n'))];
    const { gateway, key } = await gatewayBefore([good.origin, odd.origin]);
    const took = stopwatch();
    const counts = count(await ask(gateway, key, 60));
    expect(Object.keys(counts).sort()).toEqual(['200 good', '502 upstream_unavailable']);
    // Half of all, if it were not. It is tried again after a second at the earliest.
    expect(counts['502 upstream_unavailable']).toBeGreaterThanOrEqual(3);
    expect(counts['502 upstream_unavailable']).toBeLessThanOrEqual(8 + took() / 1_000);
  });

  test('one client’s uploads, which targets refuse and close on, take no target out for the others', async () => {
    const refusing = () =>
      startRawUpstream((socket, bytes) => {
        if (bytes.toString('latin1').startsWith('GET'))
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood');
        else
          socket.end('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno', () =>
            socket.destroy(),
          );
      });
    const targets = [(await refusing()).origin, (await refusing()).origin].join(', ');
    const gateway = await openGateway({ upstream: targets, listen: { maxBodyBytes: '64MiB' } });
    const { key } = await gateway.createKey('enterprise', ...LIMITLESS);
    for (let i = 0; i < 8; i++) {
      const body = Buffer.alloc(8 * 1024 * 1024);
      await gateway.get('/v1/pets', key, { method: 'POST', body }).then(
        (answer) => answer.text(),
        () => {},
      );
    }
    expect(await ask(gateway, key, 4)).toEqual(Array(4).fill('200 good'));
    await gateway.process.stop();
    expect(gateway.process.stdout).not.toContain('left out');
  });

  test('a target that is left out does not give its whole share to its neighbour', async () => {
    const targets = await Promise.all(['one', 'two', 'three'].map((name) => answering(name)));
    const { gateway, key } = await gatewayBefore(targets.map(({ origin }) => origin));
    await targets[2]!.close();
    await ask(gateway, key, 6);
    const counts = count(await ask(gateway, key, 24));
    expect(Object.keys(counts).sort()).toEqual(['200 one', '200 two']);
    // A neighbour that took it all would get 16. Now and then the one that is gone is tried, and its request goes elsewhere.
    expect(Math.max(...Object.values(counts))).toBeLessThanOrEqual(14);
  });

  test('however many targets hang while they are connected to, responseTimeout bounds all the tries together', async () => {
    // They accept and never speak, so that the TLS handshake has no end.
    let tries = 0;
    const silent = () =>
      listening(
        createSilentServer((socket) => {
          tries++;
          socket.on('error', () => {}).resume();
        }),
        { port: 0, host: '127.0.0.1' },
      );
    const targets = await Promise.all(Array.from({ length: 4 }, async () => `https://127.0.0.1:${await silent()}`));
    const { gateway, key } = await gatewayBefore(targets, { connectTimeout: '500ms', responseTimeout: '800ms' });
    expect(await ask(gateway, key, 1)).toEqual(['504 upstream_timeout']);
    // The third of the four would begin after 1 s at the earliest.
    expect([1, 2]).toContain(tries);
  });

  test('a 500 of its own is an answer, and no reason to leave a target out', async () => {
    const failing = await startUpstream((_request, response) => response.writeHead(500).end('{"code":"own"}'));
    const { gateway, key } = await gatewayBefore([failing.origin, (await answering('good')).origin]);
    expect(count(await ask(gateway, key, 40))).toEqual({ '200 good': 20, '500 own': 20 });
  });

  test('503 no_upstream with Retry-After when none is left; it counts; Retry-After is enough', async () => {
    const [one, two] = [await answering('one'), await answering('two')];
    const { gateway, key } = await gatewayBefore([one.origin, two.origin]);
    await one.close();
    await two.close();
    // The request that finds out gets 502, and those of the next second 503.
    let asked = 0;
    const answer = await eventually(async () => {
      asked++;
      const each = await gateway.get('/v1/pets', key);
      expect(each.status).toBe(503);
      return each;
    });
    expect(await answer.json()).toEqual({ code: 'no_upstream', message: expect.any(String), status: 503 });
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(answer.headers.get('x-ratelimit-remaining')).toBe(String(1_000_000 - asked));
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics.match(/^tollgate_upstream_target_up\{[^}]*\} 0$/gm)).toHaveLength(2);
    await answering('one', one.port);
    await eventually(async () => expect(await ask(gateway, key, 1)).toEqual(['200 one']), { withinMs: 4_000 });
  });
});

describe('active checks', () => {
  test('a target that says it is unhealthy gets nothing; when it is well again it is let back in', async () => {
    let healthy = false;
    const ailing = await startUpstream((request, response) => {
      if (request.url === '/healthz') response.writeHead(healthy ? 200 : 503).end();
      else response.end('ailing');
    });
    const good = await answering('good');
    const { gateway, key } = await gatewayBefore([ailing.origin, good.origin], {
      health: '{ path: /healthz, interval: 50ms }',
    });
    await eventually(() => expect(gateway.process.stdout).toContain('"cause":"answered 503","msg":"left out"'));
    expect(count(await ask(gateway, key, 20))).toEqual({ '200 good': 20 });
    healthy = true;
    await eventually(() => expect(gateway.process.stdout).toContain('"msg":"let back in"'));
    await eventually(async () => expect(await ask(gateway, key, 4)).toContain('200 ailing'));
    expect(ailing.requests.find(({ url }) => url === '/healthz')?.values('authorization')).toEqual([]);
  });

  test('the only target that is unhealthy: 503 no_upstream, without a connection to it', async () => {
    const ailing = await startUpstream((_request, response) => response.writeHead(500).end());
    const { gateway, key } = await gatewayBefore([ailing.origin], { health: '{ path: /, interval: 50ms }' });
    await eventually(() => expect(gateway.process.stdout).toContain('left out'));
    expect(await ask(gateway, key, 3)).toEqual(Array(3).fill('503 no_upstream'));
    expect(ailing.requests.every(({ url }) => url === '/')).toBe(true);
  });
});

const listening = async (server: Server, where: object) => {
  await new Promise<void>((resolve) => server.listen(where, resolve));
  atEnd(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return (server.address() as { port: number }).port;
};

test('a Unix socket is a target like any other', async () => {
  const path = join(await temporaryFolder(), 'pets.sock');
  const server = createServer((request, response) => response.end(`host ${request.headers.host}`));
  await listening(server, { path });
  const { gateway, key } = await gatewayBefore([`unix:${path}`]);
  expect(await ask(gateway, key, 3)).toEqual(Array(3).fill('200 host localhost'));
});

describe('TLS to the upstream', async () => {
  const folder = await temporaryFolder();
  const authority = await createAuthority(folder);
  const server = await authority.issue('server');
  const own = await authority.issue('gateway');
  const start = async (options: object = {}) => {
    const [cert, key] = await Promise.all([readFile(server.cert), readFile(server.key)]);
    const port = await listening(
      createEncryptedServer({ cert, key, ...options }, (_request, response) => response.end('encrypted')),
      { port: 0, host: '127.0.0.1' },
    );
    return `https://127.0.0.1:${port}`;
  };
  const got = async (target: string, tls?: string) => {
    const { gateway, key } = await gatewayBefore([target], tls === undefined ? {} : { tls });
    return (await ask(gateway, key, 1))[0];
  };

  test('is verified: a certificate of nobody that is trusted is 502', async () => {
    expect(await got(await start())).toBe('502 upstream_unavailable');
  });

  test('takes a certificate that the given authority has signed', async () => {
    expect(await got(await start(), `{ ca: ${authority.cert} }`)).toBe('200 encrypted');
  });

  test('checks the name: another one is 502, the one that is asked for is good', async () => {
    const target = await start();
    expect(await got(target, `{ ca: ${authority.cert}, serverName: pets.internal }`)).toBe('502 upstream_unavailable');
    expect(await got(target, `{ ca: ${authority.cert}, serverName: localhost }`)).toBe('200 encrypted');
  });

  test('shows a certificate of its own where one is asked for', async () => {
    const target = await start({ requestCert: true, rejectUnauthorized: true, ca: await readFile(authority.cert) });
    expect(await got(target, `{ ca: ${authority.cert} }`)).toBe('502 upstream_unavailable');
    expect(await got(target, `{ ca: ${authority.cert}, cert: ${own.cert}, key: ${own.key} }`)).toBe('200 encrypted');
  });

  test('goes unverified only where the settings say so, and says so at the start', async () => {
    const { gateway, key } = await gatewayBefore([await start()], { tls: '{ verify: false }' });
    expect(await ask(gateway, key, 1)).toEqual(['200 encrypted']);
    await gateway.process.until(/accepts any certificate/);
  });

  test('a file that is not there is said at the start', async () => {
    await expect(
      openGateway({ upstream: 'https://127.0.0.1:1', upstreamSettings: { tls: '{ ca: /nowhere/ca.pem }' } }),
    ).rejects.toThrow(/upstreams\.store\.tls\.ca: \/nowhere\/ca\.pem cannot be read \(ENOENT\)/);
  });
});

// Attack: a few calls that the service is slow to answer, until every target is left out, and nobody is served.
test('where all targets were too slow for some, they serve on: none of them is unreachable', async () => {
  const slow = () => startUpstream((request, response) => void (request.url?.includes('slow') || response.end('[]')));
  const upstreams = [await slow(), await slow()];
  const { gateway, key } = await gatewayBefore(
    upstreams.map(({ origin }) => origin),
    { responseTimeout: `${paced(250)}ms` },
  );
  const late = await Promise.all(Array.from({ length: 12 }, () => gateway.get('/v1/pets?slow', key)));
  expect(late.map(({ status }) => status)).toEqual(Array(12).fill(504));
  expect(count(await ask(gateway, key, 10))).toEqual({ '200 []': 10 });
});
