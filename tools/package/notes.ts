import { Failure } from '../../src/failure.ts';

/**
 * The section of a version in CHANGELOG.md, without its heading.
 * @param version `0.1.0`, or `unreleased`; null for the latest that was released
 * @throws Failure `not_found`, with the versions that there are
 */
export function releaseNotes(changelog: string, version: string | null): string {
  const sections = new Map(
    [...changelog.matchAll(/^## \[([^\]]+)\].*\n([\s\S]*?)(?=^## \[|^\[[^\]]+\]: |$(?![\s\S]))/gm)].map(
      ([, name, text]): [string, string] => [name!.toLowerCase(), text!.trim()],
    ),
  );
  const wanted = version?.toLowerCase() ?? [...sections.keys()].find((name) => name !== 'unreleased');
  const found = sections.get(wanted ?? '');
  if (found !== undefined) return `${found}\n`;
  throw new Failure('not_found', `CHANGELOG.md has no version ${version}. It has ${[...sections.keys()].join(', ')}.`);
}
