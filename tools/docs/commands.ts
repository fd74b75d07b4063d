import { outputOf } from './sources.ts';

/** A command as its help text describes it. */
export interface CommandHelp {
  /** The words that name it: `keys create`. */
  readonly name: string;
  readonly about: string;
  /** `tollgate keys create [options]` */
  readonly usage: string;
  /** Each option with its sentence, `--plan PLAN`. */
  readonly options: readonly (readonly [option: string, about: string])[];
  /** The environment variables that it reads, by name. */
  readonly environment: readonly string[];
  readonly examples: readonly string[];
}

const INTRO = `# Commands

In a clone, \`export PATH=/path/to/clone/bin:$PATH\` makes \`tollgate\` work in every folder. Commands work on the same store as the
gateway, which REDIS_URL, KEY_PEPPER and TOLLGATE_DATA name, whether or not a gateway runs. A running gateway applies them
within a second. Those with \`--gateway\` can [ask a gateway on another machine](../guides/admin-api.md#commands-on-another-machine) instead. Paths are
relative to the folder that you are in.

The exit code is 0 for done, 1 for refused or failed, 2 for wrong usage. Errors go to standard error. On a terminal
tables are aligned and cut to its width, and times are relative to now. Elsewhere each row is a line with tabs, for \`cut\`,
under a header that \`--no-header\` leaves out, and times are ISO 8601 in UTC; \`--json\` is for programs.

This page has the help text of each command.`;

export async function commandsPage(): Promise<string> {
  const commands = await commandHelps();
  const index = commands.map(({ name, about }) => `| [\`${name}\`](#tollgate-${slug(name)}) | ${cell(about)} |`);
  const sections = commands.map(({ name, about, usage, options, environment, examples }) => {
    const rows = options.map(([option, sentence]) => `| \`${option.replaceAll('|', '\\|')}\` | ${cell(sentence)} |`);
    const reads =
      environment.length === 0 ? '' : `\n\nReads ${environment.map((variable) => `\`${variable}\``).join(', ')}.`;
    return `## tollgate ${name}\n\n${text(about)}\n\n\`\`\`text\n${usage}\n\`\`\`\n\n| option | does |\n|---|---|\n${rows.join('\n')}${reads}${examples.length === 0 ? '' : `\n\n\`\`\`sh\n${examples.join('\n')}\n\`\`\``}`;
  });
  return `${INTRO}\n\n| command | does |\n|---|---|\n${index.join('\n')}\n\n${sections.join('\n\n')}\n`;
}

/** Every command, as the program itself tells. */
export async function commandHelps(): Promise<CommandHelp[]> {
  const overview = await outputOf('--help');
  const names = [...overview.matchAll(/^ {2}(\w+(?: [\w-]+)?) {2,}\S/gm)].map(([, name]) => name!);
  return Promise.all(names.map(async (name) => readHelp(name, await outputOf(...name.split(' '), '--help'))));
}

function readHelp(name: string, help: string): CommandHelp {
  const [, about, usage, options, variables = '', examples = ''] =
    /^([\s\S]*?)\n\nUsage: (.*)\n\nOptions:\n([\s\S]*?)(?:\n\nEnvironment:\n([\s\S]*?))?(?:\n\nExamples:\n([\s\S]*))?$/.exec(
      help,
    ) ?? [];
  if (about === undefined) throw new Error(`The help text of \`tollgate ${name}\` has another form.`);
  const rows = unwrapped(options!)
    .split('\n')
    .map((line): readonly [string, string] => {
      const [, option, sentence] = /^ {2}(\S.*?) {2,}(.*)$/.exec(line) ?? [];
      if (option === undefined) throw new Error(`\`tollgate ${name}\` has an option in another form: ${line}`);
      return [option, sentence!];
    });
  const environment = [...variables.matchAll(/^ {2}([A-Z_]+) /gm)].map(([, variable]) => variable!);
  const lines = examples.split('\n').map((line) => line.trim());
  return {
    name,
    about: about.replaceAll(/(?<!\n)\n(?!\n)/g, ' '),
    usage: unwrapped(usage!),
    options: rows,
    environment,
    examples: lines.filter((line) => line !== ''),
  };
}

/** Joins what the help wraps: a line that is indented by more than two blanks continues the one before, after two blanks if that has no sentence yet. */
function unwrapped(text: string): string {
  return text.replaceAll(/\n {3,}/g, (_, at: number) =>
    /(?:^|\n) {2}-\S+(?: \S+)*$/.test(text.slice(0, at)) ? '  ' : ' ',
  );
}

function slug(name: string): string {
  return name.replaceAll(' ', '-');
}

function cell(sentence: string): string {
  return text(sentence).replaceAll('|', '\\|');
}

/** A help text is no Markdown: what would pass for markup is escaped. */
function text(sentence: string): string {
  return sentence.replace(/[<>*_{}]/g, (character) => `\\${character}`);
}
