import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { releaseNotes } from '../../../tools/package/notes.ts';
import { ROOT } from '../../support/processes.ts';

const CHANGELOG = `# Changelog

## [Unreleased]

### Added

- Next.

## [1.1.0] - 2026-11-20

- Second, see [1.0.0].

## [1.0.0] - 2026-11-01

- First.

[1.1.0]: https://example.com/1.1.0
`;

describe('the release notes', () => {
  test.each([
    [null, '- Second, see [1.0.0].\n'],
    ['1.1.0', '- Second, see [1.0.0].\n'],
    ['1.0.0', '- First.\n'],
    ['unreleased', '### Added\n\n- Next.\n'],
  ])('of %s are its section of CHANGELOG.md', (version, notes) => {
    expect(releaseNotes(CHANGELOG, version)).toBe(notes);
  });

  test('of a version that there is not are refused, with those that there are', () => {
    expect(() => releaseNotes(CHANGELOG, '2.0.0')).toThrow('It has unreleased, 1.1.0, 1.0.0.');
  });

  test('are there for the version of package.json', () => {
    const changelog = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8');
    expect(releaseNotes(changelog, manifest.version)).toContain('- ');
    expect(releaseNotes(changelog, null)).toBe(releaseNotes(changelog, manifest.version));
  });
});
