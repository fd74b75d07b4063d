import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { Agent as HttpAgent, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { type EncryptedGateway, startEncrypted } from '../../support/encrypted.ts';
import { freePort } from '../../support/free-port.ts';
import { startProcess, temporaryFolder } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';

/*
 * Uploads of clients and load balancers as people install them, from Debian: golang-go, default-jdk-headless, python3-requests, ruby,
 * curl, nginx and haproxy. A client that is not installed fails its test.
 *
 * Fault: the gateway took the next request of a kept connection for a pipelined one, and closed the connection in its body. The client had
 * the whole response before the gateway knew that it was sent, which over TLS is one turn of the event loop later.
 */

const UPLOADS = 200;
const SIZES = [66_000, 200_000];
const PATH = '/pub/echo';
const ROUTES = `
  - { path: ${PATH}, methods: [POST, PUT], upstream: store, auth: none, limits: { minute: 1000000 } }
`;
const CLIENTS = join(import.meta.dirname, 'clients');

let encrypted: EncryptedGateway;
let ca: string;

beforeAll(async () => {
  const upstream = await startUpstream();
  encrypted = await startEncrypted({ upstream: upstream.origin, routes: ROUTES });
  ca = encrypted.authority.cert;
});

const origin = () => `https://localhost:${encrypted.gateway.port}`;
const all = { '200': UPLOADS };

describe.each(SIZES)(`${UPLOADS} uploads of %i bytes, one after the other, over TLS`, (bytes) => {
  test.each([
    ['Go, net/http', 'go', ['run', 'uploads.go']],
    ['Java, HttpClient, HTTP/1.1', 'java', ['Uploads.java']],
    ['Python, requests', '/usr/bin/python3', ['uploads.py']],
    ['Ruby, Net::HTTP', 'ruby', ['uploads.rb']],
  ])('%s: none is lost', async (_, program, words) => {
    const args = [...words, `${origin()}${PATH}`, ca, String(bytes), String(UPLOADS)];
    expect(JSON.parse(await outputOf(program, args))).toEqual(all);
  });

  test('Java, HttpClient, HTTP/2: none is lost', async () => {
    const args = ['Uploads.java', `${origin()}${PATH}`, ca, String(bytes), String(UPLOADS), 'HTTP_2'];
    expect(JSON.parse(await outputOf('java', args))).toEqual(all);
  });

  test.each(['--http1.1', '--http2'])('curl %s: none is lost', async (version) => {
    const body = join(await temporaryFolder(), 'body');
    await writeFile(body, Buffer.alloc(bytes));
    const one = ['-X', 'POST', '-T', body, '-o', '/dev/null', `${origin()}${PATH}`];
    const args = ['-s', version, '--cacert', ca, '-w', '%{http_code}\n', ...one];
    for (let i = 1; i < UPLOADS; i++) args.push(...one.slice(2));
    const statuses = (await outputOf('curl', args)).trim().split('\n');
    expect(statuses).toEqual(Array.from({ length: UPLOADS }, () => '200'));
  });

  test('Node.js, https.Agent: none is lost', async () => {
    const agent = new HttpsAgent({ keepAlive: true, maxSockets: 1, ca: encrypted.ca });
    expect(await statusesOf(() => upload(`${origin()}${PATH}`, bytes, agent))).toEqual(all);
    agent.destroy();
  });

  test.each([
    ['nginx', 'nginx', nginxArgs],
    ['haproxy', 'haproxy', haproxyArgs],
  ] as const)('%s, which encrypts again to the gateway: none is lost', async (_, program, argsOf) => {
    const port = await freePort();
    const balancer = startProcess(program, await argsOf(port, encrypted.gateway.port));
    await eventually(async () => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      socket.destroy();
    });
    const agent = new HttpAgent({ keepAlive: true, maxSockets: 1 });
    expect(await statusesOf(() => upload(`http://127.0.0.1:${port}${PATH}`, bytes, agent))).toEqual(all);
    agent.destroy();
    await balancer.stop();
  });
});

async function nginxArgs(port: number, gateway: number): Promise<string[]> {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'logs'), { recursive: true });
  const file = join(folder, 'nginx.conf');
  await writeFile(
    file,
    `user root; daemon off; pid ${folder}/pid; error_log stderr; events {}
http {
  access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/f;
  uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  upstream gateway { server 127.0.0.1:${gateway}; keepalive 4; }
  server {
    listen 127.0.0.1:${port};
    client_max_body_size 100m;
    location / { proxy_pass https://gateway; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`,
  );
  return ['-p', folder, '-c', file];
}

async function haproxyArgs(port: number, gateway: number): Promise<string[]> {
  const file = join(await temporaryFolder(), 'haproxy.cfg');
  await writeFile(
    file,
    `defaults
  mode http
  timeout connect 10s
  timeout client 60s
  timeout server 60s
frontend front
  bind 127.0.0.1:${port}
  default_backend gateway
backend gateway
  http-reuse always
  server gateway 127.0.0.1:${gateway} ssl verify none
`,
  );
  return ['-f', file, '-db'];
}

async function statusesOf(send: () => Promise<string>): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {};
  for (let i = 0; i < UPLOADS; i++) {
    const status = await send();
    statuses[status] = (statuses[status] ?? 0) + 1;
  }
  return statuses;
}

/** @returns the status, or why there is none */
function upload(url: string, bytes: number, agent: HttpAgent): Promise<string> {
  return new Promise((resolve) => {
    const request = url.startsWith('https:') ? requestHttps : requestHttp;
    const sent = request(url, { method: 'POST', agent }, (response) => {
      response.on('end', () => resolve(String(response.statusCode))).resume();
    });
    sent.once('error', (error) => resolve(error.message));
    sent.end(Buffer.alloc(bytes));
  });
}

/** What a client prints. @throws Error with what it prints on standard error */
function outputOf(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd: CLIENTS, maxBuffer: 16 * 1024 * 1024 }, (error, stdout) =>
      error === null ? resolve(stdout) : reject(error),
    );
  });
}
