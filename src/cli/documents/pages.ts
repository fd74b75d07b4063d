import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../failure.ts';
import { slugOf } from './slug.ts';

// The documents that come with Tollgate, as Markdown. README.md lists them, for people, for the site and here.

/** The folder of the clone or of the package. */
const ROOT = join(import.meta.dirname, '..', '..', '..');

/** One page. */
export interface Page {
  /** The group of README.md that has it. */
  readonly group: string;
  readonly title: string;
  /** Its file below the folder of the package: `docs/guides/limits.md`. */
  readonly file: string;
  /** What a person types: `guides/limits`. */
  readonly name: string;
}

/**
 * The pages, in the order of README.md, which comes first.
 * @throws Failure `not_found` in an image, which has no documents
 */
export function pagesOfDocuments(): readonly Page[] {
  if (!existsSync(join(ROOT, 'README.md'))) {
    const message =
      'The documents do not come with the image. They are in the npm package, the executable and a clone.';
    throw new Failure('not_found', message);
  }
  const [about = '', list = ''] = textOf('README.md').split('\n## Documents\n');
  const title = /^# (.*)$/m.exec(about)?.[1] ?? 'README';
  const groups = [...list.matchAll(/^\*\*(\w+)\*\*: ((?:.+\n)+)/gm)];
  return [
    { group: 'Start', title, file: 'README.md', name: 'readme' },
    ...groups.flatMap(([, group, links]) =>
      [...links!.matchAll(/\[([^[\]]+)\]\(([^()]+\.md)\)/g)].map(([, name, file]) => pageOf(group!, name!, file!)),
    ),
    ...['CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'].map((file) =>
      pageOf('Project', `${file[0]}${file.slice(1, -3).toLowerCase()}`, file),
    ),
  ];
}

function pageOf(group: string, title: string, file: string): Page {
  const name = file
    .replace(/^docs\//, '')
    .replace(/\.md$/, '')
    .toLowerCase();
  return { group, title: title.replaceAll(/\s+/g, ' '), file, name };
}

/** The Markdown of a page. @param file below the folder of the package */
export function textOf(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

/**
 * The page that a person means: by its name, the end of it (`limits`) or its title.
 * @throws Failure `not_found`
 */
export function pageNamed(word: string, pages: readonly Page[]): Page {
  if (word === '') throw new Failure('bad_usage', 'PAGE is empty. `tollgate docs` lists the pages.');
  const asked = word
    .toLowerCase()
    .replace(/^(?:\.{1,2}\/)+/, '')
    .replace(/^docs\//, '')
    .replace(/\.md$/, '');
  const tests: readonly ((page: Page) => boolean)[] = [
    ({ name }) => name === asked,
    ({ name, title }) => name.endsWith(`/${asked}`) || title.toLowerCase() === asked,
    ({ name, title }) => name.includes(asked) || title.toLowerCase().includes(asked),
  ];
  for (const test of tests) {
    const found = pages.filter(test);
    if (found.length === 1) return found[0]!;
    if (found.length > 1)
      throw new Failure(
        'not_found',
        `Several pages have this name: ${found
          .slice(0, 5)
          .map(({ name }) => name)
          .join(', ')}.`,
      );
  }
  throw new Failure('not_found', `There is no page '${asked.slice(0, 60)}'. \`tollgate docs\` lists them.`);
}

/**
 * A section of a page, with the sections in it. The anchor of a place within a section leads to that section.
 * @param anchor as a link has it: `limits-for-some-routes`, `section-3`
 * @throws Failure `not_found`
 */
export function sectionOf(page: Page, anchor: string): string {
  const lines = linesOf(page);
  const wanted = anchor.toLowerCase();
  const place = lines.findIndex(({ anchors }) => anchors.includes(wanted));
  if (place === -1) {
    const all = lines.filter(({ level }) => level > 1).map(({ anchors }) => anchors[0]!);
    const more = all.length > MAX_NAMED ? `, and ${all.length - MAX_NAMED} more` : '';
    throw new Failure(
      'not_found',
      `The page ${page.name} has no section '${anchor.slice(0, 60)}'. Its sections are: ${all.slice(0, MAX_NAMED).join(', ')}${more}.`,
    );
  }
  // An anchor may stand alone in a line above its heading.
  const isAlone = /^<a id="[^"]*"><\/a>$/.test(lines[place]!.text);
  const next = lines.findIndex(({ text }, i) => i > place && text !== '');
  const at = isAlone && next !== -1 && lines[next]!.level > 0 ? next : place;
  const begin = lines.findLastIndex(({ level }, i) => i <= at && level > 0);
  const end = lines.findIndex(({ level }, i) => i > begin && level > 0 && level <= lines[begin]!.level);
  const section = lines.slice(begin, end === -1 ? undefined : end);
  return section.map(({ text }) => text).join('\n');
}

/** How many sections an error lists. */
const MAX_NAMED = 12;

interface Line {
  readonly text: string;
  /** Of the heading, 1 for the title of the page; 0 for other lines. */
  readonly level: number;
  /** What links to the line may name: first that of the heading, then those that are written in it. */
  readonly anchors: readonly string[];
}

function linesOf({ file }: Page): readonly Line[] {
  let isCode = false;
  const seen = new Map<string, number>();
  /** As GitHub has it: the second of two equal headings ends with `-1`. */
  const slugIn = (heading: string) => {
    const slug = slugOf(heading);
    const before = seen.get(slug) ?? 0;
    seen.set(slug, before + 1);
    return before === 0 ? slug : `${slug}-${before}`;
  };
  return textOf(file)
    .split('\n')
    .map((text) => {
      if (/^ *```/.test(text)) isCode = !isCode;
      const [, marks = '', heading = null] = (isCode ? null : /^(#+) (.*)$/.exec(text)) ?? [];
      const written = isCode ? [] : [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id!.toLowerCase());
      return {
        text,
        level: marks.length,
        anchors: [...(heading === null ? [] : [slugIn(heading)]), ...written],
      };
    });
}
