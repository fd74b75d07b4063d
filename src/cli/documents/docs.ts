import type { ExitCode } from '../../failure.ts';
import { PLAIN } from '../../io/terminal-text.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { type Page, pageNamed, pagesOfDocuments, sectionOf, textOf } from './pages.ts';

/** `tollgate docs`: the documents that come along, without the internet. */
export const docs: Command = {
  name: 'docs',
  about: 'Lists the documents of this version, or prints one as Markdown. Nothing is read from the internet.',
  positionals: ['[PAGE]'],
  environment: [],
  examples: ['tollgate docs', 'tollgate docs limits | less -R', 'tollgate docs migrate#the-file'],
  options: {},
  async run({ positionals: [word] }, terminal): Promise<ExitCode> {
    const pages = pagesOfDocuments();
    terminal.out(word === undefined ? listOf(pages, terminal) : shown(textNamed(word, pages), terminal));
    return 0;
  },
};

/** A page, or a section of it as links name it: `limits`, `guides/limits.md#sliding-windows`. */
function textNamed(word: string, pages: readonly Page[]): string {
  const [name, anchor = ''] = word.split('#', 2) as [string, string?];
  const page = pageNamed(name, pages);
  return anchor === '' ? textOf(page.file) : sectionOf(page, anchor);
}

function listOf(pages: readonly Page[], { style = PLAIN }: Terminal): string {
  const width = Math.max(...pages.map(({ name }) => name.length));
  const groups = Map.groupBy(pages, ({ group }) => group);
  return [...groups]
    .map(([group, ofGroup]) => {
      const rows = ofGroup.map(({ name, title }) => `  ${name.padEnd(width)}  ${title}\n`);
      return `${style('bold', group)}\n${rows.join('')}`;
    })
    .join('\n');
}

/** Markdown as it is, with its headings and blocks of code in tones. */
function shown(text: string, { style = PLAIN }: Terminal): string {
  let isCode = false;
  return text
    .split('\n')
    .map((line) => {
      const isFence = /^ *```/.test(line);
      if (isFence) isCode = !isCode;
      if (isFence || isCode) return style('cyan', line);
      return /^#+ /.test(line) ? style('bold', line) : line;
    })
    .join('\n');
}
