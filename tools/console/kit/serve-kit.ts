import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { consoleAssets } from '../../../src/admin/console/console-assets.ts';
import { ROOT } from '../../docs/root.ts';
import { buildPage, writePage } from '../../package/page.ts';

/** A dialog among the other parts, and an editor no taller than its text. */
const STYLE = 'dialog, dialog .dialog-actions { position: static; margin: 0 } .editor textarea { height: 13rem }';

/** Serves `/console/kit`, the page of all parts. No gateway has it: it is no part of the package. */
export async function serveKit(port = 0): Promise<{ readonly origin: string; close(): void }> {
  const folder = join(ROOT, 'node_modules', '.cache', 'console-kit');
  writePage(await buildPage({ entry: join(import.meta.dirname, 'page', 'parts.tsx'), style: STYLE }), folder);
  const assets = consoleAssets(folder);
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/console/')) void assets(request, response);
    else response.writeHead(404).end();
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
