import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { consoleAssets, withoutTypes } from '../../../src/admin/console/console-assets.ts';

const PAGE = join(import.meta.dirname, '../../../src/admin/console/page');

/** A dialog among the other parts, and an editor no taller than its text. */
const STYLE = 'dialog, dialog .dialog-actions { position: static; margin: 0 } .editor textarea { height: 13rem }';

/** Serves `/console/kit`, the page of all parts. No gateway has it: it is no part of the package. */
export async function serveKit(port = 0): Promise<{ readonly origin: string; close(): void }> {
  const assets = consoleAssets();
  const server = createServer((request, response) => {
    const send = (type: string, text: string) => {
      response.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' }).end(text);
    };
    if (request.url === '/console/kit') send('text/html; charset=utf-8', page());
    else if (request.url === '/console/parts.ts') send('text/javascript; charset=utf-8', script());
    else if (request.url?.startsWith('/console/')) void assets(request, response);
    else response.writeHead(404).end();
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

function page(): string {
  const html = readFileSync(join(PAGE, 'index.html'), 'utf8').replaceAll('/console/main.ts', '/console/parts.ts');
  return html.replace('</head>', `<style>${STYLE}</style></head>`);
}

function script(): string {
  const text = readFileSync(join(import.meta.dirname, 'page/parts.ts'), 'utf8');
  return withoutTypes(text).replaceAll('../../../../src/admin/console/page/', './');
}
