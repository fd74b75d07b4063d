import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { slugOf } from '../../src/cli/documents/slug.ts';
import { ROOT } from './root.ts';

/** What of a JSON Schema the settings' schemas use. */
interface Schema {
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema | false;
  readonly prefixItems?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | false;
}

const NOTATION = `Durations are written \`250ms\`, \`10s\`, \`1m\`, \`24h\` or \`7d\`, sizes \`16KiB\`, \`1MiB\` or a whole number of bytes. A name
in capitals stands for a name that you choose, and \`[]\` for each entry of a list.`;

export function gatewayYamlPage(): string {
  return page('gateway.yaml', 'config/gateway.schema.json', 'config/gateway.yaml', [
    `\`config/gateway.yaml\` (TOLLGATE_CONFIG names another file) says how the gateway runs. The environment beats it; the
[contract](../contract.md#section-2) lists the variables. The gateway reads the file again when it changes and on SIGHUP: either the
whole new file counts, or the old one stays in force. \`tollgate gateway check\` warns of routes that are probably wrong.`,
    NOTATION,
  ]);
}

export function plansYamlPage(): string {
  return page('plans.yaml', 'config/plans.schema.json', 'plans.yaml', [
    `\`plans.yaml\` (TOLLGATE_PLANS names another file) says what each plan allows. \`tollgate plans check\` checks it and \`tollgate
plans diff\` says what a new version changes. The gateway reads the file again when it changes and on SIGHUP; counters and
bans stay, and a raised limit helps a throttled key at once. The [contract](../contract.md#section-3) says how windows and bans work.`,
    NOTATION,
  ]);
}

export function keysYamlPage(): string {
  return page('keys.yaml', 'config/keys.schema.json', 'config/keys.yaml', [
    `\`tollgate keys apply FILE\` makes and changes API keys so that they are as such a file says. No gateway reads it, and it holds no
secrets. [The guide](../guides/keys.md#keys-in-a-file) says how apply works. A name in capitals stands for a name that you choose.`,
  ]);
}

function page(name: string, schemaFile: string, exampleFile: string, intro: readonly string[]): string {
  const all = settingsOf(JSON.parse(read(schemaFile)) as Schema, '');
  // The forms of a setting have members in common.
  const settings = [...new Map(all.map((one) => [JSON.stringify([one.heading, one.schema]), one])).values()];
  const example = `## An example\n\nThe file \`${exampleFile}\` of the repository:\n\n\`\`\`yaml\n${read(exampleFile)}\`\`\``;
  const rows = settings.map(({ path, heading, schema, isRequired }) => {
    const value = isRequired ? 'required' : (defaultAsCode(schema) ?? '');
    const first = firstSentence(schema.description ?? '');
    return `| [\`${path}\`](#${slugOf(heading)}) | ${value.replaceAll('|', '\\|')} | ${first.replaceAll('|', '\\|')} |`;
  });
  const table = `## All settings\n\n| Setting | Default | What it says |\n|---|---|---|\n${rows.join('\n')}`;
  const sections = settings.map((setting) => sectionOf(setting));
  return `${[`# ${name}`, ...intro, example, table, ...sections].join('\n\n')}\n`;
}

/** A setting, or neighbours that are alike. */
interface Setting {
  /** `listen.tls.cert`, or `plans.NAME.limits.second, minute`. */
  readonly path: string;
  readonly heading: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
  /** The setting under which the page describes the members of this one; null if they follow here, or if it has no members. */
  readonly asIn: string | null;
}

function sectionOf({ path, heading, schema, isRequired, asIn }: Setting): string {
  const mark = path.includes('.') || path.includes('[]') ? '###' : '##';
  const same = asIn === null ? [] : [`Below it are the settings of [\`${asIn}\`](#${slugOf(asIn)}).`];
  return [`${mark} ${heading}`, ...about(schema, isRequired), ...same].join('\n\n');
}

/** The first sentence of a text. */
function firstSentence(text: string): string {
  return /^.*?\.(?=\s|$)/s.exec(text)?.[0] ?? text;
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** How often the settings below one must have been described before another place refers to them. */
const SHARED_FROM = 3;

/**
 * Every setting that a schema holds, at whatever depth, in its order. Neighbours that are alike are one. What is the same in several
 * places, as windows are, is described where it comes first.
 * @param described where the settings below a schema have been described
 */
function settingsOf(schema: Schema, path: string, described = new Map<string, string>()): Setting[] {
  if (schema.items) return settingsOf(schema.items, `${path}[]`, described);
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap((one) => settingsOf(one, path, described));
  if (schema.additionalProperties) return settingsOf(schema.additionalProperties, `${path}.NAME`, described);
  const groups = new Map<string, [keys: string[], schema: Schema]>();
  for (const [key, inner] of Object.entries(schema.properties ?? {})) {
    const isRequired = schema.required?.includes(key) === true;
    const group = groups.get(JSON.stringify([inner, isRequired]));
    if (group === undefined) groups.set(JSON.stringify([inner, isRequired]), [[key], inner]);
    else group[0].push(key);
  }
  return [...groups.values()].flatMap(([keys, inner]) => {
    const at = path === '' ? '' : `${path}.`;
    const heading = `${at}${keys.join(', ')}`;
    const below = settingsOf(inner, `${at}${keys[0]}`, new Map(described));
    // A window has the same settings, whatever it counts.
    const shape = below.map((one) => one.path.slice(`${at}${keys[0]}`.length)).join(' ');
    const asIn = below.length >= SHARED_FROM ? (described.get(shape) ?? null) : null;
    if (asIn === null) {
      described.set(shape, heading);
      // What is below it has been described by it.
      settingsOf(inner, `${at}${keys[0]}`, described);
    }
    const isRequired = schema.required?.includes(keys[0]!) === true;
    return [{ path: heading, heading, schema: inner, isRequired, asIn }, ...(asIn === null ? below : [])];
  });
}

function about(schema: Schema, isRequired: boolean): string[] {
  const value = isRequired ? ', required' : defaultOf(schema);
  return [`*${kindOf(schema)}*${value}`, ...(schema.description === undefined ? [] : [schema.description])];
}

function defaultOf(schema: Schema): string {
  const value = defaultAsCode(schema);
  return value === null ? '' : `, default ${value}`;
}

/** The default as code; null without one, and for a mapping, whose members have theirs. */
function defaultAsCode({ default: value }: Schema): string | null {
  if (value === undefined) return null;
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return null;
  return `\`${typeof value === 'string' ? value || "''" : JSON.stringify(value)}\``;
}

/** What a value has to be, in words. */
function kindOf(schema: Schema): string {
  if (schema.title !== undefined) return schema.title;
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(', ');
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(kindOf))].join(', or ');
  if (schema.prefixItems !== undefined) return 'list of two such numbers';
  if (schema.items) return `list: ${kindOf(schema.items)}`;
  switch (schema.type) {
    case 'boolean':
      return '`true` or `false`';
    case 'integer':
      return `whole number from ${number(schema.minimum)} to ${number(schema.maximum)}`;
    case 'number':
      return schema.exclusiveMinimum === undefined
        ? `number from ${number(schema.minimum)} to ${number(schema.maximum)}`
        : `number above ${number(schema.exclusiveMinimum)}, at most ${number(schema.maximum)}`;
    case 'object':
      return schema.additionalProperties ? 'mapping by name' : 'mapping';
    default:
      return 'text';
  }
}

function number(value = Number.NaN): string {
  return value.toLocaleString('en-US');
}
