import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { inSlices, type Steps } from '../../io/steps.ts';

/** A file of the page, ready to be sent. */
interface Asset {
  readonly type: string;
  readonly body: Buffer;
  /** Null for a font, which is compressed already. */
  readonly zipped: Buffer | null;
  readonly etag: string;
  /** Other content would have another name. */
  readonly isFixed: boolean;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.js': 'text/javascript; charset=utf-8',
  '.woff2': 'font/woff2',
};

/** What `npm run build:page` writes, and a package has. */
const BUILT = fileURLToPath(new URL('built', import.meta.url));
/** The name of a script or style that ends with the hash of its content. */
const HASHED = /-[\w-]{8}\.(?:js|css)$/;

/**
 * Serves the page of the console below `/console/`. Every path that names no file is a screen of the page, so it gets
 * index.html. The files hold no data: those come from the admin API, which asks who is signed in. They are read
 * and compressed at the first request, in slices.
 * @param folder with the built page
 */
export function consoleAssets(folder = BUILT): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  let loading: Promise<ReadonlyMap<string, Asset>> | null = null;
  return async (request, response) => {
    request.resume();
    const path = (request.url ?? '').split('?')[0]!;
    if (path === '/console') {
      response.writeHead(308, { Location: '/console/' }).end();
      return;
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { Allow: 'GET, HEAD' }).end();
      return;
    }
    if (loading === null && !existsSync(join(folder, 'index.html'))) {
      response.writeHead(503, { 'Content-Type': 'text/plain' });
      response.end('The page of the console is not built. Run `npm ci` or `npm run build:page` in the clone.');
      return;
    }
    loading ??= inSlices(load(folder));
    const assets = await loading;
    const name = path.slice('/console/'.length);
    // The name of a screen may end like that of a file: a request id in its path is up to the client.
    const isScreen = !(extname(name) in TYPES) || request.headers.accept?.includes('text/html');
    const asset = assets.get(name) ?? (isScreen ? assets.get('index.html') : undefined);
    if (asset === undefined) {
      response.writeHead(404, { 'Content-Type': 'text/plain' }).end('There is no such file.');
      return;
    }
    send(request, response, asset);
  };
}

function send(request: IncomingMessage, response: ServerResponse, { type, body, zipped, etag, isFixed }: Asset): void {
  const takesGzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(request.headers['accept-encoding'] ?? '');
  const caching = isFixed ? 'public, max-age=31536000, immutable' : 'no-cache';
  const shared = { ...SECURITY_FIELDS, ETag: etag, Vary: 'Accept-Encoding', 'Cache-Control': caching };
  if (request.headers['if-none-match'] === etag) {
    response.writeHead(304, shared).end();
    return;
  }
  const isZipped = takesGzip && zipped !== null;
  const bytes = isZipped ? zipped : body;
  response.writeHead(200, {
    ...shared,
    'Content-Type': type,
    'Content-Length': bytes.length,
    ...(isZipped ? { 'Content-Encoding': 'gzip' } : {}),
  });
  response.end(bytes);
}

function* load(folder: string): Steps<ReadonlyMap<string, Asset>> {
  const assets = new Map<string, Asset>();
  for (const name of readdirSync(folder)) {
    const type = TYPES[extname(name)];
    if (type === undefined) continue;
    assets.set(name, assetOf(name, type, readFileSync(join(folder, name))));
    yield;
  }
  return assets;
}

function assetOf(name: string, type: string, body: Buffer): Asset {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  return {
    type,
    body,
    zipped: type === TYPES['.woff2'] ? null : gzipSync(body, { level: 9 }),
    etag,
    isFixed: HASHED.test(name),
  };
}

/**
 * What the browser must not do with the page. Names of keys come from outside, so the page has no way to parse text as HTML or to run it.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
];

const SECURITY_FIELDS = {
  'Content-Security-Policy': POLICY.join('; '),
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};
