import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT } from './root.ts';

// `npm run docs:check`: builds the site of the documents and follows every link of every page, to anchors and pictures too.
// Its last line counts the pages, and the build as one more.

const SITE = join(ROOT, 'docs', '.vitepress', 'dist');

const npm = (...words: string[]) =>
  spawnSync('npm', ['--prefix', join(ROOT, 'docs'), ...words], { stdio: 'inherit' }).status === 0;

if (!npm('ci') || !npm('run', '-s', 'build')) finish(0, 1);

const pages = globSync('**/*.html', { cwd: SITE }).filter((page) => page !== '404.html');
const anchors = new Map<string, ReadonlySet<string>>();
const broken = pages.map((page) => [page, deadLinksOf(page)] as const).filter(([, links]) => links.length > 0);
for (const [page, links] of broken) console.log(`${page} links to what is not there: ${links.join(', ')}`);
finish(1 + pages.length - broken.length, broken.length);

function finish(passed: number, failed: number): never {
  console.log(`${passed} passed, ${failed} failed, 0 skipped`);
  process.exit(failed === 0 ? 0 : 1);
}

/** The addresses on a page that lead nowhere on the site. Those of other hosts are not asked. */
function deadLinksOf(page: string): string[] {
  const html = readFileSync(join(SITE, page), 'utf8');
  const links = [...html.matchAll(/\s(?:href|src|srcset)="([^"]*)"/g)].map(([, link]) =>
    link!.replaceAll('&amp;', '&'),
  );
  return [...new Set(links)].filter((link) => !/^[a-z]+:|^\/\//.test(link) && !leadsSomewhere(page, link));
}

function leadsSomewhere(from: string, link: string): boolean {
  const [path = '', anchor] = decodeURI(link).split('#');
  const file = path === '' ? from : fileOf(path.startsWith('/') ? path.slice(1) : join(dirname(from), path));
  return file !== null && (!anchor || anchorsOf(file).has(anchor));
}

/** The file that a server of the site sends for a path; null: none. */
function fileOf(path: string): string | null {
  const files = [path, `${path}.html`, join(path, 'index.html')];
  return files.find((file) => existsSync(join(SITE, file)) && statSync(join(SITE, file)).isFile()) ?? null;
}

function anchorsOf(file: string): ReadonlySet<string> {
  const known = anchors.get(file);
  if (known !== undefined) return known;
  const ids = [...readFileSync(join(SITE, file), 'utf8').matchAll(/\s(?:id|name)="([^"]+)"/g)].map(([, id]) => id!);
  anchors.set(file, new Set(ids));
  return anchors.get(file)!;
}
