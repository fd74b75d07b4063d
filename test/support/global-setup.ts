import type { TestProject } from 'vitest/node';
import { findSharedRedis } from './redis-finder.ts';

/**
 * Runs once before the queued tests: finds a Redis (contract section 1, `npm test`), says in one line which, and tells
 * the workers. Without one, the tests that need none still run, and those that do fail with the same line.
 */
export default async function globalSetup(project: TestProject): Promise<() => Promise<void>> {
  const { shared, end } = await findSharedRedis(process.env);
  const line =
    shared.kind === 'none' ? shared.reason : `${shared.version} ${shared.origin}, ${withoutCredentials(shared.url)}`;
  console.log(`Redis for the tests: ${line}`);
  project.provide('sharedRedis', shared);
  return end;
}

function withoutCredentials(address: string): string {
  const url = new URL(address);
  return `${url.protocol}//${url.host}${url.pathname}`;
}
