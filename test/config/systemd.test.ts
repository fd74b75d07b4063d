import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { listenEntry } from '../../src/config/gateway-schema.ts';
import { ROOT } from '../support/processes.ts';

/** The directives of the unit by name; one that is given several times has several values. */
const directives = new Map<string, string[]>();
for (const line of readFileSync(join(ROOT, 'config', 'systemd', 'tollgate.service'), 'utf8').split('\n')) {
  const [, name, value] = /^([A-Za-z]+)=(.*)$/.exec(line) ?? [];
  if (name !== undefined) directives.set(name, [...(directives.get(name) ?? []), value!]);
}

describe('the unit of systemd', () => {
  test('gives the gateway the time to drain before it is killed, and its supervisor the time to end its workers', () => {
    const drainMs = listenEntry.shape.drainTimeout.parse(undefined);
    const [stop] = directives.get('TimeoutStopSec')!;
    expect(Number.parseInt(stop!, 10) * 1_000).toBeGreaterThan(drainMs);
    expect(directives.get('KillMode')).toEqual(['mixed']);
  });

  test('reloads with the signal that the gateway obeys', () => {
    expect(directives.get('ExecReload')).toEqual(['/bin/kill -HUP $MAINPID']);
  });

  test('keeps the store where the user of the service alone may read it', () => {
    const [folder] = directives.get('StateDirectory')!;
    expect(directives.get('Environment')).toContain(`TOLLGATE_DATA=/var/lib/${folder}`);
    expect(directives.get('StateDirectoryMode')).toEqual(['0700']);
    expect(directives.get('DynamicUser')).toEqual(['yes']);
  });

  test('leaves a gateway that is broken into no capability, no new privilege and nothing to write but its store', () => {
    expect(directives.get('CapabilityBoundingSet')).toEqual(['']);
    expect(directives.get('NoNewPrivileges')).toEqual(['yes']);
    expect(directives.get('ProtectSystem')).toEqual(['strict']);
    expect(directives.has('ReadWritePaths')).toBe(false);
  });
});
