import { type ExitCode, Failure } from '../../failure.ts';
import { PLAIN } from '../../io/terminal-text.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { type Page, pageNamed, pagesOfDocuments, searchPages, sectionOf, textOf } from './pages.ts';

/** At most this many places are listed. */
const MAX_FOUND = 25;

/** `tollgate docs`: the documents that come along, without the internet. */
export const docs: Command = {
  name: 'docs',
  about:
    'Lists the documents of this version, shows one, or searches them. With --serve, a browser shows them. Nothing is read from the internet.',
  positionals: ['[PAGE]', '[WORD...]'],
  environment: [],
  examples: [
    'tollgate docs',
    'tollgate docs limits | less -R',
    'tollgate docs migrate#the-file',
    'tollgate docs --search sliding window',
    'tollgate docs --serve',
  ],
  options: {
    search: { type: 'string', value: 'WORD', about: 'Lists the lines that have this word and every one that follows.' },
    serve: { type: 'boolean', about: 'Serves the documents on 127.0.0.1 until Ctrl-C, and prints the address.' },
    port: { type: 'string', value: 'PORT', about: 'The port of --serve; a free one unless given.' },
  },
  async run({ options, positionals: words }, terminal): Promise<ExitCode> {
    const pages = pagesOfDocuments();
    const [word] = words;
    const ways = [
      word !== undefined && options.search === undefined,
      options.search !== undefined,
      options.serve === true,
    ];
    if (ways.filter(Boolean).length > 1) throw new Failure('bad_usage', 'Give one of PAGE, --search and --serve.');
    if (options.serve === true) return serve(options.port as string | undefined, pages, terminal);
    if (options.port !== undefined) throw new Failure('bad_usage', '--port is for --serve.');
    if (options.search !== undefined) return search([options.search, ...words].join(' '), pages, terminal);
    if (words.length > 1) throw new Failure('bad_usage', 'PAGE is one word. `tollgate docs --search` takes several.');
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

function search(words: string, pages: readonly Page[], terminal: Terminal): ExitCode {
  const { style = PLAIN, columns } = terminal;
  const found = searchPages(words, pages);
  if (found.length === 0) {
    terminal.error('No page has these words.\n');
    return 1;
  }
  for (const { page, section, line } of found.slice(0, MAX_FOUND)) {
    const text = `  ${line}`;
    const width = columns ?? 160;
    terminal.out(
      `${style('bold', page.name)}  ${section}\n${text.length > width ? `${text.slice(0, width - 1)}…` : text}\n`,
    );
  }
  if (found.length > MAX_FOUND) terminal.error(`note: ${found.length - MAX_FOUND} more places have these words.\n`);
  return 0;
}

async function serve(port: string | undefined, pages: readonly Page[], terminal: Terminal): Promise<ExitCode> {
  if (port !== undefined && (!/^[1-9][0-9]{0,4}$/.test(port) || Number(port) > 65_535))
    throw new Failure('bad_usage', `--port is '${port}'; it must be a number from 1 to 65535.`);
  const [{ siteOf }, { serveSite }] = await Promise.all([import('./site.ts'), import('../../listen/site.ts')]);
  const { url, ended } = await serveSite(siteOf(pages), Number(port ?? 0)).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'EADDRINUSE' ? 'is in use' : `cannot be used: ${error.message}`;
    throw new Failure('refused', `Port ${port} ${why}. Name another one, or leave --port out for a free one.`, error);
  });
  terminal.out(`${url}\n`);
  terminal.error('Ctrl-C ends it.\n');
  await ended;
  return 0;
}
