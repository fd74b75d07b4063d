import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import module from 'node:module';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import jsTokens from 'js-tokens';
import { inSlices, type Steps } from '../../io/steps.ts';
import { ATTRIBUTES, type Attribute, type AttributeName, SEARCHED } from '../../model/attributes.ts';
import { OPERATIONS } from '../../operations/catalogue/all.ts';
import { isOptional } from '../../operations/catalogue/input.ts';
import { effectOf } from '../../operations/catalogue/operation.ts';
import type { AnyOperation } from '../../operations/catalogue/perform.ts';
import { RECORDED_ACTIONS } from '../../operations/catalogue/recorded-operations.ts';

/** A file of the page, ready to be sent. */
interface Asset {
  readonly type: string;
  readonly body: Buffer;
  /** Null for a font, which is compressed already. */
  readonly zipped: Buffer | null;
  readonly etag: string;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ts': 'text/javascript; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.woff2': 'font/woff2',
};

/**
 * The libraries of the import map in index.html and the fonts of style.css, served from this host: the page asks no other. A bundle
 * has them in files of these names; a clone in its packages.
 */
export const LIBRARIES: Readonly<Record<string, string>> = {
  'lib/preact.js': 'preact',
  'lib/hooks.js': 'preact/hooks',
  'lib/htm.js': 'htm',
  'lib/inter.woff2': '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2',
  'lib/inter-ext.woff2': '@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2',
};

/**
 * Serves the page of the console below `/console/`. Every path that names no file is a screen of the page, so it gets
 * index.html. The files hold no data: those come from the admin API, which asks who is signed in. They are read, and the
 * types are removed from the scripts, at the first request, in slices: together they take 130 ms.
 */
export function consoleAssets(): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  let loading: Promise<Page> | null = null;
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
    loading ??= inSlices(load());
    const loaded = await loading;
    const name = path.slice('/console/'.length);
    // The name of a screen may end like that of a file: a request id in its path is up to the client.
    const isScreen = !(extname(name) in TYPES) || request.headers.accept?.includes('text/html');
    const asset = loaded.assets.get(name) ?? (isScreen ? loaded.assets.get('index.html') : undefined);
    if (asset === undefined) {
      response.writeHead(404, { 'Content-Type': 'text/plain' }).end('There is no such file.');
      return;
    }
    send(request, response, asset, loaded.fields);
  };
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  { type, body, zipped, etag }: Asset,
  fields: Readonly<Record<string, string>>,
): void {
  const takesGzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(request.headers['accept-encoding'] ?? '');
  const shared = { ...fields, ETag: etag, Vary: 'Accept-Encoding', 'Cache-Control': 'no-cache' };
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

interface Page {
  readonly assets: ReadonlyMap<string, Asset>;
  readonly fields: Readonly<Record<string, string>>;
}

function* load(): Steps<Page> {
  const folder = fileURLToPath(new URL('page', import.meta.url));
  const assets = new Map<string, Asset>();
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const type = TYPES[extname(file)];
    if (type === undefined || file.endsWith('.d.ts')) continue;
    assets.set(file.split(sep).join('/'), assetOf(type, sentText(file, readFileSync(join(folder, file), 'utf8'))));
    yield;
  }
  for (const [name, specifier] of Object.entries(LIBRARIES)) {
    const bundled = join(folder, '..', name);
    const file = existsSync(bundled) ? bundled : fileURLToPath(import.meta.resolve(specifier));
    assets.set(name, assetOf(TYPES[extname(name)]!, readFileSync(file)));
    yield;
  }
  assets.set('attributes.js', assetOf(TYPES['.js']!, attributesScript()));
  const words = operationWords();
  // Apart from OPERATIONS, which Explain would load for this alone.
  const endings = words.flatMap(({ action, endsBan }) => (endsBan === true ? [action] : []));
  const scripts = { OPERATIONS: words, ACTIONS: RECORDED_ACTIONS, ENDINGS: endings };
  for (const [name, value] of Object.entries(scripts)) {
    assets.set(`${name.toLowerCase()}.js`, assetOf(TYPES['.js']!, `export const ${name} = ${JSON.stringify(value)};`));
  }
  const importMap = /<script type="importmap">([\s\S]*?)<\/script>/.exec(
    assets.get('index.html')!.body.toString(),
  )![1]!;
  return { assets, fields: securityFields(importMap) };
}

/** What the page knows of an operation that changes a key or a customer. */
export interface OperationWords
  extends Required<Pick<AnyOperation, 'line' | 'role' | 'action'>>,
    Pick<AnyOperation, 'isFinal' | 'endsBan'> {
  /** What becomes of the key or the customer, in plain sentences. */
  readonly effect: string;
  readonly needsInput?: true;
}

function operationWords(): readonly OperationWords[] {
  return OPERATIONS.flatMap((operation): OperationWords[] => {
    const { line, role, action, isFinal, endsBan, input } = operation;
    const effect = effectOf(operation);
    if (action === undefined || effect === undefined) return [];
    return [
      {
        ...{ line, role, action, effect },
        ...(isFinal === true ? { isFinal } : {}),
        ...(endsBan === true ? { endsBan } : {}),
        ...(input === undefined || isOptional(input) ? {} : { needsInput: true }),
      },
    ];
  });
}

/** What the page knows of an attribute of keys and customers. */
export interface AttributeWords extends Pick<Attribute, 'label' | 'hint' | 'form' | 'max'> {
  readonly name: AttributeName;
  readonly isOfKeysAlone: boolean;
  readonly isFilter: boolean;
  readonly hasColumn: boolean;
}

/** What `page/attributes.d.ts` declares. */
function attributesScript(): string {
  const [first, ...rest] = SEARCHED.map((name) => ATTRIBUTES[name].label);
  const searched = [first, ...rest.map((label) => label.toLowerCase())].join(', ');
  return `export const ATTRIBUTES = ${JSON.stringify(attributeWords())}; export const SEARCHED = ${JSON.stringify(searched)};`;
}

function attributeWords(): readonly AttributeWords[] {
  return Object.entries<Attribute>(ATTRIBUTES).map(
    ([name, { label, hint, form, max, ofKeysAlone, isFilter, rank }]) => ({
      name: name as AttributeName,
      label,
      ...(hint === undefined ? {} : { hint }),
      form,
      max,
      isOfKeysAlone: ofKeysAlone === true,
      isFilter: isFilter === true,
      hasColumn: rank !== undefined,
    }),
  );
}

/** What the browser gets of a text of the page. */
function sentText(file: string, text: string): string {
  if (file.endsWith('.ts')) return withoutComments(withoutTypes(text));
  return file.endsWith('.css') ? bareStyle(text) : text;
}

/**
 * Removes the types from a script, for the browser. Node documents the function, and runs its own `.ts` files by the same code,
 * but marks it experimental: its first call emits a warning, which would be the first line that an operator reads.
 */
export function withoutTypes(script: string): string {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return module.stripTypeScriptTypes(script);
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Leaves the comments out of a script. The code stays as it is and keeps its lines. */
function withoutComments(script: string): string {
  return Array.from(jsTokens(script), ({ type, value }) =>
    type === 'SingleLineComment' || type === 'MultiLineComment' ? value.replace(/[^\n]+/g, ' ') : value,
  ).join('');
}

/** A style sheet without comments and indentation. No text of style.css contains either. */
function bareStyle(text: string): string {
  return text.replace(/\/\*[^*]*\*\//g, '').replace(/\n\s*/g, '\n');
}

function assetOf(type: string, content: string | Buffer): Asset {
  const body = Buffer.from(content);
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  return { type, body, zipped: type === TYPES['.woff2'] ? null : gzipSync(body, { level: 9 }), etag };
}

/**
 * What the browser must not do with the page. The import map is the only script that is not a file; its hash allows it.
 * Names of keys come from outside, so the page has no way to parse text as HTML or to run it.
 */
function securityFields(importMap: string): Readonly<Record<string, string>> {
  const hash = createHash('sha256').update(importMap).digest('base64');
  const policy = [
    "default-src 'none'",
    `script-src 'self' 'sha256-${hash}'`,
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
  return {
    'Content-Security-Policy': policy.join('; '),
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
  };
}
