import { once } from 'node:events';
import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { consoleAssets } from '../../src/admin/console/console-assets.ts';
import { countTurns } from '../support/count-turns.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Of all files that a screen loads, as they are on the wire. */
const MAX_BYTES = 60 * 1024;
/** Of the whole page. */
const MAX_ALL_BYTES = 90 * 1024;
const MAX_SCRIPTS = 3;

let base: string;
beforeAll(async () => {
  const server = createServer(consoleAssets()).listen(0, '127.0.0.1');
  atEnd(() => server.close());
  await once(server, 'listening');
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/console/`;
});

interface Loaded {
  readonly text: string;
  readonly bytes: number;
  readonly caching: string | null;
}

async function load(name: string): Promise<Loaded> {
  const url = new URL(name, base).href;
  const response = await fetch(url, { headers: { 'Accept-Encoding': 'gzip', Connection: 'close' } });
  const { status, headers } = response;
  expect([status, headers.get('content-encoding')], url).toEqual([200, 'gzip']);
  return {
    text: await response.text(),
    bytes: Number(headers.get('content-length')),
    caching: headers.get('cache-control'),
  };
}

/** Loads the page and all that it names, each file once. */
async function loadAll(): Promise<ReadonlyMap<string, Loaded>> {
  const loaded = new Map<string, Loaded>();
  // A set continues with what is added to it meanwhile.
  const names = new Set(['']);
  for (const name of names) {
    const file = await load(name);
    loaded.set(name, file);
    for (const [, to] of file.text.matchAll(/["'`](?:\/console\/|\.\/)([\w-]+\.(?:js|css|svg))["'`]/g)) names.add(to!);
  }
  return loaded;
}

/** What a script loads with itself. */
function importsOf({ text }: Loaded): readonly string[] {
  return Array.from(text.matchAll(/(?:from|import)["'`]\.\/([\w-]+\.js)["'`]/g), ([, name]) => name!);
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
  expect(counted.turns).toBeGreaterThan(7);
});

describe('the page of the console', () => {
  test('is at most 90 KB compressed in all', async () => {
    const loaded = await loadAll();
    const bytes = [...loaded.values()].reduce((sum, file) => sum + file.bytes, 0);
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThanOrEqual(MAX_ALL_BYTES);
  });

  test('loads at most three scripts and 60 KB for any screen', async () => {
    const loaded = await loadAll();
    const scripts = [...loaded.keys()].filter((name) => name.endsWith('.js'));
    const main = scripts.find((name) => name.startsWith('main-'))!;
    const shared = [...loaded].filter(([name]) => !name.endsWith('.js')).reduce((sum, [, { bytes }]) => sum + bytes, 0);
    expect(scripts.length).toBeGreaterThan(3);
    // Fault: the first script imported a group of screens that imported it, and no screen came up.
    expect(importsOf(loaded.get(main)!)).toEqual([]);
    for (const screen of scripts) {
      const needed = new Set([main, screen]);
      for (const name of needed) for (const to of importsOf(loaded.get(name)!)) needed.add(to);
      const bytes = [...needed].reduce((sum, name) => sum + loaded.get(name)!.bytes, shared);
      expect(bytes, screen).toBeLessThanOrEqual(MAX_BYTES);
      // With the dialogs, which any screen may open.
      const opened = scripts.find((name) => name.startsWith('dialogs-'))!;
      expect(needed.add(opened).size, screen).toBeLessThanOrEqual(MAX_SCRIPTS);
    }
  });

  test('has scripts and a style that are kept for good, by the hashes in their names, and asks again for the rest', async () => {
    for (const [name, { caching }] of await loadAll()) {
      const isHashed = /-[\w-]{8}\.(?:js|css)$/.test(name);
      expect(isHashed, name).toBe(/\.(?:js|css)$/.test(name));
      expect(caching, name).toBe(isHashed ? 'public, max-age=31536000, immutable' : 'no-cache');
    }
  });

  test('has no script in its HTML, and its policy allows none', async () => {
    const response = await fetch(base);
    expect(await response.text()).not.toMatch(/<script(?![^>]* src=)/);
    expect(response.headers.get('content-security-policy')).toContain("script-src 'self';");
  });

  test('says how to build it where it is not built', async () => {
    const server = createServer(consoleAssets(join(await temporaryFolder(), 'none'))).listen(0, '127.0.0.1');
    atEnd(() => server.close());
    await once(server, 'listening');
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/console/`);
    expect([response.status, await response.text()]).toEqual([503, expect.stringContaining('npm run build:page')]);
  });
});
