import { posix } from 'node:path';
import { Marked } from 'marked';
import type { SiteAnswer } from '../../listen/site.ts';
import { type Page, pictureOf, searchPages, textOf } from './pages.ts';
import { slugOf } from './slug.ts';

// The documents as HTML, for `tollgate docs --serve`.

const MAX_FOUND = 50;

/**
 * Returns a function that makes the answer to a path, with `q` as the words of a search; null if there is no such page.
 * @param picture returns the bytes of a picture; null if it does not come along
 */
export function siteOf(
  pages: readonly Page[],
  picture: (file: string) => Buffer | null = pictureOf,
): (path: string, q: string | null) => SiteAnswer | null {
  const byPath = new Map(pages.map((page) => [pathOf(page.file), page]));
  return (path, q) => {
    if (path === '/style.css') return { type: 'text/css', body: STYLE };
    if (path === '/search') return htmlOf('Search', foundText(q ?? '', pages), pages, q ?? '');
    if (/\.(?:png|svg)$/.test(path)) return pictureAt(path.slice(1), picture);
    const page = byPath.get(path);
    return page === undefined ? null : htmlOf(page.title, bodyOf(page, byPath, picture), pages);
  };
}

function pathOf(file: string): string {
  return file === 'README.md' ? '/' : `/${file.replace(/\.md$/, '')}`;
}

function pictureAt(file: string, picture: (file: string) => Buffer | null): SiteAnswer | null {
  if (!/^docs\/[\w/-]+\.(?:png|svg)$/.test(file)) return null;
  const body = picture(file);
  return body === null ? null : { type: file.endsWith('.svg') ? 'image/svg+xml' : 'image/png', body };
}

function bodyOf({ file }: Page, byPath: ReadonlyMap<string, Page>, picture: (file: string) => Buffer | null): string {
  const folder = posix.dirname(file);
  const resolved = (href: string) => posix.join(folder, href);
  const isMissing = (href: string) => picture(resolved(href)) === null;
  const isMissingSource = (line: string) => {
    const href = line.trimStart().startsWith('<source ') ? /srcset="([^"]+)"/.exec(line)?.[1] : undefined;
    return href !== undefined && isMissing(href);
  };
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        return `<h${depth} id="${escaped(slugOf(text.replaceAll('`', '')))}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const text = this.parser.parseInline(tokens);
        if (/^(?:https?:|#)/.test(href)) return `<a href="${escaped(href)}">${text}</a>`;
        const [target = '', anchor] = href.split('#');
        const path = pathOf(resolved(target));
        // A file of the sources is not on the site.
        return byPath.has(path)
          ? `<a href="${escaped(path)}${anchor === undefined ? '' : `#${escaped(anchor)}`}">${text}</a>`
          : text;
      },
      image: ({ href, text }) =>
        isMissing(href) ? inPlaceOf(text) : `<img src="/${escaped(resolved(href))}" alt="${escaped(text)}">`,
      // Pictures in two themes, of which a package may have one or none.
      html: ({ text }) =>
        text
          .split('\n')
          .filter((line) => !isMissingSource(line))
          .join('\n')
          .replaceAll(/<img alt="([^"]*)" src="([^"]+)">/g, (img, alt, href) =>
            isMissing(href) ? inPlaceOf(alt) : img,
          )
          .replaceAll(/(src(?:set)?)="\.\/([^"]+)"/g, (_, name, href) => `${name}="/${resolved(href)}"`),
    },
  });
  return marked.parse(textOf(file), { async: false });
}

/** What a picture shows, in words: the screenshots are larger than all the rest of a package. */
function inPlaceOf(alt: string): string {
  return `<em>Only the clone has this picture: ${escaped(alt)}.</em>`;
}

function foundText(q: string, pages: readonly Page[]): string {
  const found = searchPages(q, pages);
  const rows = found.slice(0, MAX_FOUND).map(({ page, section, line }) => {
    const href = `${pathOf(page.file)}#${slugOf(section.replaceAll('`', ''))}`;
    return `<li><a href="${escaped(href)}">${escaped(page.title)}: ${escaped(section)}</a><br><small>${escaped(line.slice(0, 300))}</small></li>`;
  });
  const more = found.length > MAX_FOUND ? `<p>${found.length - MAX_FOUND} more places have these words.</p>` : '';
  return `<h1>Search</h1>${rows.length === 0 ? '<p>No page has these words.</p>' : `<ul>${rows.join('')}</ul>${more}`}`;
}

function htmlOf(title: string, body: string, pages: readonly Page[], q = ''): SiteAnswer {
  const groups = [...Map.groupBy(pages, ({ group }) => group)].map(([group, ofGroup]) => {
    const links = ofGroup.map(
      ({ file, title: of }) =>
        `<li><a href="${pathOf(file)}"${of === title ? ' aria-current="page"' : ''}>${escaped(of)}</a></li>`,
    );
    return `<h2>${escaped(group)}</h2><ul>${links.join('')}</ul>`;
  });
  return {
    type: 'text/html; charset=utf-8',
    body: `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(title)} – Tollgate</title><link rel="stylesheet" href="/style.css">
<nav><form action="/search" role="search"><input name="q" type="search" value="${escaped(q)}" placeholder="Search" aria-label="Search the documents"></form>${groups.join('')}</nav><main>${body}</main></html>`,
  };
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

const STYLE = `:root { color-scheme: light dark; font: 16px/1.6 system-ui, sans-serif; }
body { display: grid; grid-template-columns: 17rem minmax(0, 50rem); gap: 3rem; margin: 0 auto; padding: 2rem; max-width: 74rem; }
nav { font-size: 0.875rem; position: sticky; top: 2rem; align-self: start; max-height: calc(100vh - 4rem); overflow: auto; }
nav h2 { font-size: 0.75rem; margin: 1.2rem 0 0.2rem; opacity: 0.7; border: 0; padding: 0; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: 0.15rem 0; color: inherit; text-decoration: none; }
nav a:hover, nav a[aria-current] { color: light-dark(#1a53d6, #8ab4ff); text-decoration: underline; }
nav input { width: 100%; box-sizing: border-box; font: inherit; padding: 0.4rem 0.6rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid light-dark(#ddd, #333); padding-top: 1rem; }
a { color: light-dark(#1a53d6, #8ab4ff); }
img { max-width: 100%; height: auto; }
pre, code { font: 0.875em/1.5 ui-monospace, monospace; background: light-dark(#f3f4f7, #1c2028); border-radius: 4px; }
code { padding: 0.1em 0.3em; } pre { padding: 0.8rem 1rem; overflow: auto; } pre code { padding: 0; font-size: 1em; }
table { display: block; overflow: auto; border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.8rem 0.4rem 0; border-bottom: 1px solid light-dark(#ddd, #333); }
@media (max-width: 56rem) { body { display: block; padding: 1rem; } nav { position: static; max-height: 12rem; } }
`;
