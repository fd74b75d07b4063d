import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { slugOf } from '../../src/cli/documents/slug.ts';
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { gatewaySchema } from '../../src/config/gateway-schema.ts';
import { parseKeysFile } from '../../src/config/keys-file.ts';
import { parsePlans, plansSchema } from '../../src/config/plans-schema.ts';
import { type CommandHelp, commandHelps } from '../../tools/docs/commands.ts';
import { ROOT } from '../support/processes.ts';

/** A document without what is in its blocks of code, and the blocks. */
interface Document {
  readonly path: string;
  readonly prose: string;
  readonly blocks: readonly { readonly language: string; readonly text: string }[];
}

const DOCUMENTS = [
  ...markdownIn('', { isDeep: false }),
  ...markdownIn('docs', { isDeep: true }),
  ...markdownIn('test', { isDeep: true }),
  ...markdownIn('tools', { isDeep: true }),
].map(read);
const PATHS = DOCUMENTS.map(({ path }) => path);
/** Pages whose settings and commands no other test reads: guides.test.ts has those of the guides. */
const OTHERS = PATHS.filter((path) => !/^README\.md$|^docs\/(?:guides|operate|internals)\//.test(path));
const of = (path: string) => DOCUMENTS.find((document) => document.path === path)!;

describe('every link leads somewhere, and so does its anchor', () => {
  test.each(PATHS)('%s', (path) => {
    const { prose } = of(path);
    const broken = [...withoutCode(prose).matchAll(/\]\(<?([^()\s>]+(?:\([^()]*\))?)>?\)|^\[[^\]]+\]: (\S+)/gm)]
      .map(([, inline, defined]) => inline ?? defined!)
      .filter((target) => !/^(?:https?|mailto):/.test(target) && !leadsSomewhere(path, target));
    expect(broken).toEqual([]);
  });
});

test('git has at most twelve pictures, because it keeps all their versions, and the documents show each of theirs', () => {
  const inDocs = globSync('docs/**/*.png', { cwd: ROOT, exclude: ['docs/.vitepress/**', 'docs/node_modules/**'] });
  const kit = globSync('tools/console/kit/pictures/*.png', { cwd: ROOT });
  expect(inDocs.length + kit.length).toBeLessThanOrEqual(12);
  const prose = DOCUMENTS.map((document) => document.prose).join('\n');
  expect(inDocs.filter((file) => !prose.includes(file.replace('docs/guides/', '')))).toEqual([]);
});

describe('every block of YAML is what the gateway would read', () => {
  test.each(OTHERS.filter((path) => of(path).blocks.some(isYaml)))('%s', (path) => {
    for (const { text } of of(path).blocks.filter(isYaml))
      expect({ text, faults: faultsOf(text) }).toEqual({ text, faults: [] });
  });
});

describe('every command of Tollgate is one, with options that it has', async () => {
  const helps = await commandHelps();
  test.each(OTHERS)('%s', (path) => {
    const { prose, blocks } = of(path);
    const inBlocks = blocks
      .filter(({ language }) => ['sh', 'bash', 'console', ''].includes(language))
      .flatMap(({ text }) => text);
    const inline = [...prose.matchAll(/`([^`]+)`/g)].map(([, code]) => code!.replace(/\s+/g, ' '));
    const unknown = [...inBlocks, ...inline].flatMap(commandsIn).filter((words) => !isCommand(words, helps));
    expect(unknown.map((words) => words.join(' '))).toEqual([]);
  });
});

describe('every file that a page names is there', () => {
  // Older entries of the changelog and measurements name files as they were.
  test.each(PATHS.filter((path) => !/^CHANGELOG|^test\/|^tools\//.test(path)))('%s', (path) => {
    const named = [...of(path).prose.matchAll(/`((?:src|test|tools|config|bin)\/[\w./-]*\w)`/g)].map(
      ([, file]) => file!,
    );
    expect(named.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  });
});

test('a broken link, a fault in YAML and an unknown option are found', async () => {
  expect(leadsSomewhere('README.md', 'docs/contract.md#section-3')).toBe(true);
  expect(leadsSomewhere('README.md', 'docs/contract.md#section-9')).toBe(false);
  expect(leadsSomewhere('docs/contract.md', 'docs/contract.md')).toBe(false);
  expect(faultsOf('listen: { prot: 80 }')).not.toEqual([]);
  expect(faultsOf('plans: { a: { limits: { minut: 1 } } }')).not.toEqual([]);
  expect(faultsOf('- path: /a\n  method: [GET]')).not.toEqual([]);
  const helps = await commandHelps();
  const isKnown = (line: string) => commandsIn(line).every((words) => isCommand(words, helps));
  expect(isKnown('tollgate keys create --plan pro | jq')).toBe(true);
  expect(isKnown('$ tollgate keys create --plna pro')).toBe(false);
  expect(isKnown('A=b npm run -s tollgate -- keys mint')).toBe(false);
});

/** Paths of Markdown files, relative to the repository. */
function markdownIn(folder: string, { isDeep }: { isDeep: boolean }): string[] {
  return readdirSync(join(ROOT, folder), { recursive: isDeep, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && !/(?:^|\/)(?:node_modules|\.vitepress)\//.test(file))
    .map((file) => join(folder, file))
    .sort();
}

function read(path: string): Document {
  const blocks: Document['blocks'][number][] = [];
  const prose = readFileSync(join(ROOT, path), 'utf8').replace(
    /^([ \t]*)(`{3,})(\w*)[^\n]*\n([\s\S]*?)^[ \t]*\2[ \t]*$/gm,
    (_, indent: string, __, language: string, text: string) => {
      blocks.push({ language, text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), '') });
      return '';
    },
  );
  return { path, prose, blocks };
}

function withoutCode(prose: string): string {
  return prose.replace(/(`+)[\s\S]*?\1/g, '');
}

function leadsSomewhere(from: string, target: string): boolean {
  const [file = '', anchor] = target.split('#');
  const path = file === '' ? from : relative(ROOT, resolve(ROOT, dirname(from), decodeURI(file)));
  if (!existsSync(join(ROOT, path))) return false;
  if (anchor === undefined) return true;
  return !statSync(join(ROOT, path)).isDirectory() && path.endsWith('.md') && anchorsOf(read(path)).has(anchor);
}

function anchorsOf({ prose }: Document): ReadonlySet<string> {
  const anchors = new Set([...prose.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id]) => id!));
  const counts = new Map<string, number>();
  for (const [, heading] of prose.matchAll(/^#{1,6} (.*)$/gm)) {
    const slug = slugOf(heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, ''));
    const before = counts.get(slug) ?? 0;
    anchors.add(before === 0 ? slug : `${slug}-${before}`);
    counts.set(slug, before + 1);
  }
  return anchors;
}

function isYaml({ language }: { readonly language: string }): boolean {
  return language === 'yaml' || language === 'yml';
}

/**
 * What the readers of the settings find wrong with a block: whole files, a part of one, which is completed, or a list of
 * routes. Of other YAML, such as a manifest, only that it is none.
 */
function faultsOf(text: string): readonly unknown[] {
  const content: unknown = parse(text);
  if (Array.isArray(content) && content.some((one) => one !== null && typeof one === 'object' && 'path' in one)) {
    return faultsOf(`routes:\n${text.replace(/^/gm, '  ')}`);
  }
  const keys = content !== null && typeof content === 'object' && !Array.isArray(content) ? Object.keys(content) : [];
  if (keys.includes('set') && keys.includes('keys')) return faultsIn(parseKeysFile(text, 'keys.yaml', ['pro']));
  const isPartOf = (schema: { readonly shape: object }) => keys.some((key) => key in schema.shape);
  if (isPartOf(plansSchema)) {
    const plans = keys.includes('plans') ? '' : 'plans: { some: { limits: { minute: 1 } } }\n';
    return faultsIn(parsePlans(`${plans}${text}`, 'plans.yaml'));
  }
  if (!isPartOf(gatewaySchema)) return [];
  const { upstreams, routes = [] } = content as { upstreams?: object; routes?: { upstream?: string }[] };
  const names = upstreams === undefined ? new Set(routes.map(({ upstream }) => upstream ?? 'store')) : [];
  const missing = [
    ...(upstreams === undefined
      ? [
          `upstreams:\n${[...names, 'other'].map((name) => `  ${name}: { targets: [http://127.0.0.1:9000] }`).join('\n')}`,
        ]
      : []),
    ...(routes.length === 0
      ? [`routes: [{ path: /, methods: [GET], upstream: ${Object.keys(upstreams ?? { other: null })[0]} }]`]
      : []),
  ];
  return faultsIn(parseGatewayFile([...missing, text].join('\n'), 'gateway.yaml'));
}

function faultsIn(parsed: object): readonly unknown[] {
  return 'faults' in parsed ? (parsed.faults as readonly unknown[]) : [];
}

/** The words behind `tollgate` of each command in a text. What stands for any word is none. */
function commandsIn(text: string): string[][] {
  const lines = text.replace(/\\\n\s*/g, ' ').split(/\n|&&|\|(?!\w)|;|\$\(/);
  return lines.flatMap((line) => {
    const [, rest] =
      /^(?:\$ )?(?:\S+=\S* )*(?:docker compose exec \S+ )?(?:npm run (?:-s )?tollgate -- |tollgate )(.*)$/.exec(
        line.trim(),
      ) ?? [];
    const words =
      rest
        ?.replace(/\s#.*$/, '')
        .trim()
        .split(/\s+/) ?? [];
    return words.length === 0 || /^(?:[A-Z…]|\.\.\.)/.test(words[0]!) ? [] : [words];
  });
}

function isCommand(words: readonly string[], helps: readonly CommandHelp[]): boolean {
  const options = words.filter((word) => /^\[?--?[a-z]/.test(word)).map((word) => /--?[a-z][a-z0-9-]*/.exec(word)![0]);
  // `usage reset` stands behind `usage`, which is a command too.
  const help = helps.findLast(({ name }) => name === words.slice(0, name.split(' ').length).join(' '));
  if (help === undefined) {
    const isGroup = words.length === 1 && helps.some(({ name }) => name.startsWith(`${words[0]} `));
    return isGroup || ['--help', '--version', 'COMMAND'].includes(words[0]!);
  }
  const known = new Set(help.options.flatMap(([option]) => option.match(/--?[a-z][a-z0-9-]*/g) ?? []));
  return options.every((option) => known.has(option));
}
