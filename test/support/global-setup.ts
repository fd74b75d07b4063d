import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { BUILT, buildPage, writePage } from '../../tools/package/page.ts';
import { bundledProgram } from './bundled-program.ts';
import { findSharedRedis } from './redis-finder.ts';

/**
 * Runs once before the queued tests: finds a Redis (contract section 1, `npm test`), says in one line which, and tells
 * the workers. Without one, the tests that need none still run, and those that do fail with the same line.
 */
export default async function globalSetup(project: TestProject): Promise<() => Promise<void>> {
  const [{ shared, end }, program, page] = await Promise.all([
    findSharedRedis(process.env),
    bundledProgram(),
    buildPage(),
  ]);
  // As `npm ci` does; the sources may have changed since.
  writePage(page, join(import.meta.dirname, '..', '..', BUILT));
  // The workers inherit it, and so do the threads of their gateways: a quarter of the processor went into compiling these anew.
  process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'tollgate');
  process.env.TEST_PROGRAM = program;
  // Where the first test file that needs a release builds it.
  const release = mkdtempSync(join(tmpdir(), 'tollgate-test-release-'));
  process.env.TEST_RELEASE = release;
  const line =
    shared.kind === 'none' ? shared.reason : `${shared.version} ${shared.origin}, ${withoutCredentials(shared.url)}`;
  console.log(`Redis for the tests: ${line}`);
  // The workers have those of vitest.config.ts. This file would choose and measure others, in modules of its own.
  const { TEST_SEED, TEST_ROOM } = project.config.env;
  console.log(`Samples of this run: TEST_SEED=${TEST_SEED}`);
  console.log(`The tests lengthen their deadlines ${TEST_ROOM} times (TEST_ROOM).`);
  project.provide('sharedRedis', shared);
  return async () => {
    rmSync(release, { recursive: true, force: true });
    await end();
  };
}

function withoutCredentials(address: string): string {
  const url = new URL(address);
  return `${url.protocol}//${url.host}${url.pathname}`;
}
