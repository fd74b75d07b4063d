import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { productionPackages } from '../../../tools/package/lock.ts';
import { ROOT } from '../../support/processes.ts';

// docs/reference/licences.md is generated; test/docs/reference.test.ts holds it to the lockfile.

const packages = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));

describe('the packages that the gateway brings along', () => {
  test('may be passed on with a notice alone', () => {
    const permissive = [
      '0BSD',
      'Apache-2.0',
      'BSD-2-Clause',
      'BSD-3-Clause',
      'BlueOak-1.0.0',
      'ISC',
      'MIT',
      // Of a font, which may be passed on with software and its notice; only the font by itself must not be sold.
      'OFL-1.1',
      'Unlicense',
    ];
    // Of alternatives (`A OR B` in SPDX) one is chosen, so one that is permissive is enough.
    const choicesOf = (licence: string) => licence.replace(/^\((.*)\)$/, '$1').split(' OR ');
    const mayBePassedOn = (licence: string) => choicesOf(licence).some((choice) => permissive.includes(choice));
    expect(packages.filter(({ licence }) => !mayBePassedOn(licence))).toEqual([]);
    for (const licence of ['GPL-2.0', '(MIT AND GPL-2.0)', '(GPL-2.0 OR AGPL-3.0)', '']) {
      expect(mayBePassedOn(licence), licence).toBe(false);
    }
  });

  test('are those of the SBOM, each with its hash and licence', () => {
    const printed = execFileSync('npm', ['run', '-s', 'sbom'], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const sbom = JSON.parse(printed) as {
      bomFormat: string;
      components: readonly {
        name: string;
        version: string;
        licenses: readonly unknown[];
        hashes: readonly unknown[];
      }[];
    };
    expect(sbom.bomFormat).toBe('CycloneDX');
    const listed = sbom.components.map(({ name, version }) => `${name}@${version}`);
    expect(listed.sort()).toEqual([...new Set(packages.map(({ name, version }) => `${name}@${version}`))].sort());
    for (const { licenses, hashes } of sbom.components) expect([licenses.length, hashes.length]).toEqual([1, 1]);
  });

  test('with no licence are refused', () => {
    const lock = JSON.stringify({ packages: { '': {}, 'node_modules/@a/b': { version: '1.0.0' } } });
    expect(() => productionPackages(lock)).toThrow('@a/b 1.0.0 has no licence');
  });
});
