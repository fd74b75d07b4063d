import { cpSync, globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type DefaultTheme, defineConfig, type MarkdownRenderer } from 'vitepress';
import { pagesOfDocuments } from '../../src/cli/documents/pages.ts';
import { slugOf } from '../../src/cli/documents/slug.ts';

type Token = ReturnType<MarkdownRenderer['parse']>[number];

/** The repository: its Markdown files are the pages, under the paths that they have there, so that links work in both. */
const ROOT = resolve(import.meta.dirname, '../..');
const SITE = resolve(import.meta.dirname, '..');

/** The mark of the console. */
const ICON = `data:image/svg+xml,${encodeURIComponent(readFileSync(join(ROOT, 'src/admin/console/page/icon.svg'), 'utf8'))}`;

export default defineConfig({
  title: 'Tollgate',
  description: 'An API gateway that holds every caller to the quotas of its plan, exactly',
  lang: 'en',
  head: [['link', { rel: 'icon', href: ICON }]],
  srcDir: ROOT,
  srcExclude: ['**/node_modules/**', 'src/**', 'data/**'],
  rewrites: { 'README.md': 'index.md' },
  cleanUrls: true,
  // Addresses of this machine are examples. tools/docs/site-main.ts also follows the links to pictures and anchors.
  ignoreDeadLinks: 'localhostLinks',
  markdown: {
    // Anchors as on GitHub, so that a link works in both.
    anchor: { slugify: slugOf },
    // `{id}` at the end of a heading is text, as on GitHub, and no attribute.
    attrs: { disable: true },
    config: (md) => {
      md.core.ruler.push('links', adaptLinks);
      // Two braces are text in these pages, and no template of Vue.
      for (const rule of ['text', 'code_inline'] as const) {
        const render = md.renderer.rules[rule]!;
        md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;');
      }
    },
  },
  // Pictures that a page links to, instead of showing them, stay under their own paths.
  buildEnd({ outDir }) {
    for (const file of globSync('docs/**/*.png', {
      cwd: ROOT,
      exclude: ['docs/.vitepress/**', 'docs/node_modules/**'],
    }))
      cpSync(join(ROOT, file), join(outDir, file));
  },
  vite: {
    plugins: [
      {
        // The pages lie above the folder of the site, and find its packages all the same.
        name: 'packages-of-the-site',
        enforce: 'pre',
        resolveId(source, importer, options) {
          if (!/^vue(?:$|\/)/.test(source)) return null;
          if (options.ssr) return { id: source, external: true };
          if (importer?.startsWith(SITE)) return null;
          return this.resolve(source, join(SITE, 'package.json'), { ...options, skipSelf: true });
        },
      },
    ],
  },
  themeConfig: {
    logo: { src: ICON, alt: '' },
    search: { provider: 'local' },
    outline: { level: [2, 3] },
    nav: [
      { text: 'Start', link: '/docs/guides/start', activeMatch: '/docs/guides/' },
      { text: 'Operate', link: '/docs/operate/redis', activeMatch: '/docs/operate/' },
      { text: 'Reference', link: '/docs/reference/gateway-yaml', activeMatch: '/docs/reference/' },
      { text: 'Contract', link: '/docs/contract' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar: [
      ...groupsOfReadme(),
      {
        text: 'Project',
        items: ['Contributing', 'Security', 'Changelog'].map((text) => ({ text, link: `/${text.toUpperCase()}` })),
      },
    ],
  },
});

/** The groups of pages of README.md, in its order. */
function groupsOfReadme(): DefaultTheme.SidebarItem[] {
  const pages = pagesOfDocuments().filter(({ group }) => group !== 'Project');
  return [...Map.groupBy(pages, ({ group }) => group)].map(([text, ofGroup]) => ({
    text,
    items: ofGroup.map(({ title, file }) => ({ text: title, link: linkOf(file) })),
  }));
}

function linkOf(file: string): string {
  return file === 'README.md' ? '/' : `/${file.replace(/\.md$/, '')}`;
}

/**
 * Makes links fit the site: those to the README lead to its first page, and those to files that are not on the site, such as
 * sources, become plain text.
 */
function adaptLinks({ tokens }: { tokens: Token[] }): void {
  for (const inline of tokens.flatMap(({ children }) => (children === null ? [] : [children]))) {
    for (const [i, link] of inline.entries()) {
      const target = link.attrGet('href');
      if (link.type !== 'link_open' || target === null || /^[a-z]+:|^#/.test(target)) continue;
      const [file = '', anchor] = target.split('#');
      if (/^(?:\.\.?\/)*README\.md$/.test(file)) link.attrSet('href', anchor === undefined ? '/' : `/#${anchor}`);
      else if (!/\.(?:md|png)$/.test(file)) {
        const end = inline.find(({ type }, at) => at > i && type === 'link_close')!;
        for (const token of [link, end]) Object.assign(token, { type: 'text', content: '', tag: '', nesting: 0 });
      }
    }
  }
}
