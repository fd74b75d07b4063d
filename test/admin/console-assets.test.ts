import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import jsTokens from 'js-tokens';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { consoleAssets } from '../../src/admin/console/console-assets.ts';
import { countTurns } from '../support/count-turns.ts';
import { atEnd } from '../support/endings.ts';

const PAGE = fileURLToPath(new URL('../../src/admin/console/page', import.meta.url));
/** What the browser loads before it knows the screen. */
const FIRST = ['', 'style.css', 'icon.svg', 'main.ts', 'lib/preact.js', 'lib/hooks.js', 'lib/htm.js'];
/** Of all files that a screen loads, as they are on the wire. */
const MAX_BYTES = 60 * 1024;

let base: string;
beforeAll(async () => {
  const server = createServer(consoleAssets()).listen(0, '127.0.0.1');
  atEnd(() => server.close());
  await once(server, 'listening');
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/console/`;
});

async function load(url: string): Promise<{ readonly text: string; readonly bytes: number }> {
  const response = await fetch(url, { headers: { 'Accept-Encoding': 'gzip', Connection: 'close' } });
  expect([response.status, response.headers.get('content-encoding')], url).toEqual([200, 'gzip']);
  return { text: await response.text(), bytes: Number(response.headers.get('content-length')) };
}

/** Loads files and all that they import, each once. @returns the bytes on the wire */
async function loadAll(names: readonly string[]): Promise<number> {
  // A set continues with what is added to it meanwhile.
  const urls = new Set(names.map((name) => new URL(name, base).href));
  let sum = 0;
  for (const url of urls) {
    const { text, bytes } = await load(url);
    sum += bytes;
    for (const [, to] of text.matchAll(/^(?:import|export)[^'"(]*'(\.[^']+)'/gm)) urls.add(new URL(to!, url).href);
  }
  return sum;
}

function templatesIn(script: string): readonly string[] {
  return Array.from(jsTokens(script)).flatMap(({ type, value }) => (type.includes('Template') ? [value] : []));
}

// Fault: the first visit of the console took one turn of the event loop of 130 ms, in which no request was served.
test('the first request for the console is prepared in many turns of the event loop (reliability 419)', async () => {
  // Each look at this clock takes a millisecond, so that a slice ends after one file on any machine.
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs++);
  atEnd(() => clock.mockRestore());
  const counted = countTurns();
  const request = Object.assign(new IncomingMessage(new Socket()), { method: 'GET', url: '/console/' });
  const response = new ServerResponse(request);
  // Without a socket, the only turns that this waits for are those of the preparation.
  await consoleAssets()(request, response);
  expect(response.statusCode).toBe(200);
  expect(counted.turns).toBeGreaterThan(FIRST.length);
});

describe('the console', async () => {
  const scripts = await Array.fromAsync(glob('**/*.ts', { cwd: PAGE, exclude: ['**/*.d.ts'] }));

  test.each(scripts)('serves %s without types and comments, with its lines and its texts as they are', async (name) => {
    const [{ text }, source] = [await load(new URL(name, base).href), readFileSync(join(PAGE, name), 'utf8')];
    expect(Array.from(jsTokens(text), ({ type }) => type).filter((type) => type.endsWith('Comment'))).toEqual([]);
    expect(text.split('\n')).toHaveLength(source.split('\n').length);
    expect(templatesIn(text)).toEqual(templatesIn(source));
  });

  test.each(scripts.filter((name) => name.startsWith('screens')))('loads at most 60 KB for %s', async (name) => {
    const bytes = await loadAll([...FIRST, name]);
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThanOrEqual(MAX_BYTES);
  });
});
