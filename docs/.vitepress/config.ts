import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type DefaultTheme, defineConfig } from 'vitepress';
import { slugOf } from '../../tools/docs/slug.ts';

/** The repository: its Markdown files are the pages, under the paths that they have there, so that links work in both. */
const ROOT = resolve(import.meta.dirname, '../..');
const SITE = resolve(import.meta.dirname, '..');

/** Pages of a folder that are read in this order; all others follow by name. */
const FIRST: Readonly<Record<string, readonly string[]>> = {
  guides: [
    ...[
      'your-service',
      'certificates',
      'openapi',
      'keys',
      'callers',
      'change-plans',
      'usage-history',
      'retire-a-route',
      'tokens',
    ],
    ...['admin-api', 'migrate', 'containers', 'kubernetes', 'load-test'],
  ],
  operate: ['redis', 'workers', 'outages', 'alerts', 'observe', 'security', 'audit', 'backup', 'upgrade'],
  reference: [
    'gateway-yaml',
    'plans-yaml',
    'keys-yaml',
    'commands',
    'headers-and-errors',
    'admin-api',
    'metrics',
    'log',
  ],
  internals: ['way-of-a-request', 'source-map', 'simulated-fleet', 'libraries', 'performance', 'glossary'],
};

const GROUPS = { guides: 'Guides', operate: 'Operate', reference: 'Reference', internals: 'Internals' };

/** A barrier. */
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#3451b2" d="M4 8h5v20H4z"/>' +
  '<path fill="#e5484d" d="M6 12 30 4v5L6 17z"/></svg>';

export default defineConfig({
  title: 'Tollgate',
  description: 'An API gateway that holds every caller to the quotas of its plan, exactly',
  lang: 'en',
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  srcDir: ROOT,
  srcExclude: ['**/node_modules/**', 'src/**', 'data/**'],
  rewrites: { 'README.md': 'index.md' },
  cleanUrls: true,
  // test/docs/documents.test.ts checks every link, those to files that are no pages too, which have no address here.
  ignoreDeadLinks: true,
  markdown: {
    // Anchors as on GitHub, so that a link works in both.
    anchor: { slugify: slugOf },
    // `{id}` at the end of a heading is text, as on GitHub, and no attribute.
    attrs: { disable: true },
    config: (md) => {
      // Two braces are text in these pages, and no template of Vue.
      for (const rule of ['text', 'code_inline'] as const) {
        const render = md.renderer.rules[rule]!;
        md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;');
      }
    },
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
    search: { provider: 'local' },
    outline: { level: [2, 3] },
    nav: [
      { text: 'Guides', link: '/docs/guides/your-service', activeMatch: '/docs/guides/' },
      { text: 'Operate', link: '/docs/operate/redis', activeMatch: '/docs/operate/' },
      { text: 'Reference', link: '/docs/reference/gateway-yaml', activeMatch: '/docs/reference/' },
      { text: 'Contract', link: '/docs/contract' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar: [
      {
        text: 'Overview',
        items: [page('Start', 'README.md', '/'), ...pages(['docs/contract.md', 'docs/reliability.md'])],
      },
      ...Object.entries(GROUPS).flatMap(([folder, text]) => group(folder, text)),
      { text: 'Project', items: pages(['CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md']) },
    ],
  },
});

function group(folder: string, text: string): DefaultTheme.SidebarItem[] {
  const first = FIRST[folder] ?? [];
  const place = (name: string) => (first.includes(name) ? first.indexOf(name) : first.length);
  const names = filesOf(`docs/${folder}`)
    .filter((file) => file.endsWith('.md'))
    .map((file) => file.slice(0, -'.md'.length))
    .sort((one, other) => place(one) - place(other) || one.localeCompare(other));
  const items = pages(names.map((name) => `docs/${folder}/${name}.md`));
  return items.length === 0 ? [] : [{ text, items }];
}

function filesOf(folder: string): string[] {
  try {
    return readdirSync(join(ROOT, folder));
  } catch {
    return [];
  }
}

function pages(files: readonly string[]): DefaultTheme.SidebarItem[] {
  return files.flatMap((file) => {
    const heading = headingOf(file);
    return heading === null ? [] : [page(heading, file)];
  });
}

function page(text: string, file: string, link = `/${file.slice(0, -'.md'.length)}`): DefaultTheme.SidebarItem {
  return { text, link };
}

/** The first heading of a page; null where there is no such page. */
function headingOf(file: string): string | null {
  try {
    return /^# (.*)$/m.exec(readFileSync(join(ROOT, file), 'utf8'))?.[1] ?? file;
  } catch {
    return null;
  }
}
