import { Failure } from '../failure.ts';
import { type Command, type Option, optionsOf } from './terminal/command.ts';

/** The shells for which `tollgate completion` writes a script. */
const SHELLS = ['bash', 'zsh', 'fish'] as const;

/**
 * The script that completes the commands and options in a shell, made of their own declarations.
 * @throws Failure `bad_usage` for another shell
 */
export function completionScript(shell: string, commands: readonly Command[]): string {
  if (shell === 'bash') return bashScript(commands);
  if (shell === 'zsh') return zshScript(commands);
  if (shell === 'fish') return fishScript(commands);
  throw new Failure('bad_usage', `SHELL must be one of ${SHELLS.join(', ')}. See \`tollgate completion --help\`.`);
}

/** The first words of the commands, each once. */
function firstWords(commands: readonly Command[]): string[] {
  return [...new Set(commands.map(({ name }) => name.split(' ')[0]!))];
}

/** The second words that may follow a first one. */
function secondWords(commands: readonly Command[], first: string): string[] {
  return commands.flatMap(({ name }) => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []));
}

const flagsOf = (command: Command) => [...Object.keys(optionsOf(command)).map((name) => `--${name}`), '--help'];

/** The values of an option whose placeholder lists them: `csv|ndjson`. */
function valuesOf({ value }: Option): string[] {
  return value !== undefined && /^[a-z]+(\|[a-z]+)+$/.test(value) ? value.split('|') : [];
}

function choicesOf(commands: readonly Command[]) {
  return commands.flatMap((command) =>
    Object.entries(optionsOf(command)).flatMap(([name, option]) => {
      const values = valuesOf(option);
      return values.length === 0 ? [] : [{ name: command.name, option: `--${name}`, values }];
    }),
  );
}

function bashScript(commands: readonly Command[]): string {
  const firsts = firstWords(commands);
  const groups = firsts
    .map((first) => [first, secondWords(commands, first)] as const)
    .filter(([, seconds]) => seconds.length > 0);
  const isTwo = ({ name }: Command) => name.includes(' ');
  const offer = (words: readonly string[]) => `COMPREPLY=($(compgen -W "${words.join(' ')}" -- "$cur"))`;
  return `# bash completion for tollgate. Load it with: source <(tollgate completion bash)
_tollgate() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" one="\${COMP_WORDS[1]}" command options=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then ${offer([...firsts, '--help', '--version'])}; return; fi
  command="$one"
  case "$one \${COMP_WORDS[2]}" in
    ${commands
      .filter(isTwo)
      .map(({ name }) => `"${name}"`)
      .join('|')}) [ "$COMP_CWORD" -gt 2 ] && command="$one \${COMP_WORDS[2]}" ;;
  esac
  case "$command $prev" in
${choicesOf(commands)
  .map(({ name, option, values }) => `    "${name} ${option}") ${offer(values)}; return ;;\n`)
  .join('')}    "completion completion") ${offer(SHELLS)}; return ;;
  esac
  case "$command" in
${commands.map((command) => `    "${command.name}") options="${flagsOf(command).join(' ')}" ;;\n`).join('')}  esac
  if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur")); return; fi
  if [ "$COMP_CWORD" -eq 2 ]; then
    case "$one" in
${groups.map(([first, seconds]) => `      ${first}) ${offer(seconds)} ;;\n`).join('')}      help) ${offer(firsts)} ;;
    esac
  fi
}
complete -o default -F _tollgate tollgate
`;
}

/** A text within single quotes of a shell that doubles the backslash for none of them. */
const quotedText = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** The first sentence, or what fits into a line of a menu. */
function brief(about: string): string {
  const [first = about] = about.split(/(?<=\w)[.:;] /);
  const text = first.replace(/\.$/, '');
  return text.length > 76 ? `${text.slice(0, 75)}…` : text;
}

function zshScript(commands: readonly Command[]): string {
  const described = (entries: readonly (readonly [string, string])[]) =>
    entries.map(([word, about]) => quotedText(`${word.replaceAll(':', '\\:')}:${brief(about)}`)).join(' ');
  const aboutOf = (first: string) =>
    commands.find(({ name }) => name === first)?.about ?? secondWords(commands, first).join(', ');
  const groups = firstWords(commands).filter((first) => secondWords(commands, first).length > 0);
  // In a specification, brackets and colons end a part.
  const plain = (text: string) => brief(text).replace(/[[\]:\\]/g, ' ');
  const specification = (name: string, option: Option) => {
    const values = valuesOf(option);
    const action =
      values.length > 0 ? `(${values.join(' ')})` : /FILE|FOLDER/.test(option.value ?? '') ? ' _files' : ' ';
    const value = option.type === 'string' ? `:${(option.value ?? 'VALUE').replace(/[:\\]/g, ' ')}:${action}` : '';
    return quotedText(`${option.multiple ? '*' : ''}--${name}[${plain(option.about)}]${value}`);
  };
  const branch = (command: Command) => {
    const options = Object.entries(optionsOf(command)).map(([name, option]) => specification(name, option));
    const words = command.name === 'completion' ? `'1:SHELL:(${SHELLS.join(' ')})'` : "'*:FILE:_files'";
    return `    ${quotedText(command.name)}) _arguments ${[...options, "'--help[Shows the help]'", words].join(' ')} ;;\n`;
  };
  return `#compdef tollgate
# zsh completion for tollgate. Load it with: source <(tollgate completion zsh)
_tollgate() {
  local -a entries
  local command="$words[2]"
  if (( CURRENT == 2 )); then
    entries=(${described(firstWords(commands).map((first) => [first, aboutOf(first)]))})
    _describe command entries
    return
  fi
  if (( CURRENT == 3 )) && [[ "$words[3]" != -* ]]; then
    case "$command" in
${groups.map((first) => `      ${first}) entries=(${described(secondWords(commands, first).map((second) => [second, aboutOf(`${first} ${second}`)]))}); _describe command entries; return ;;\n`).join('')}    esac
  fi
  case "$command $words[3]" in
    ${commands
      .filter(({ name }) => name.includes(' '))
      .map(({ name }) => quotedText(name))
      .join('|')}) command="$command $words[3]"; shift words; (( CURRENT-- )) ;;
  esac
  shift words; (( CURRENT-- ))
  case "$command" in
${commands.map(branch).join('')}  esac
}
if [ "$funcstack[1]" = _tollgate ]; then _tollgate "$@"; else compdef _tollgate tollgate; fi
`;
}

function fishScript(commands: readonly Command[]): string {
  // In single quotes, fish interprets the backslash.
  const text = (about: string) => `'${brief(about).replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const firsts = firstWords(commands);
  const lines = firsts.map((first) => {
    const about = commands.find(({ name }) => name === first)?.about ?? secondWords(commands, first).join(', ');
    return `complete -c tollgate -f -n __fish_use_subcommand -a ${first} -d ${text(about)}`;
  });
  for (const command of commands) {
    const [first, second] = command.name.split(' ') as [string, string?];
    const seconds = secondWords(commands, first);
    const after = `__fish_seen_subcommand_from ${first}`;
    if (second !== undefined) {
      lines.push(
        `complete -c tollgate -f -n '${after}; and not __fish_seen_subcommand_from ${seconds.join(' ')}' -a ${second} -d ${text(command.about)}`,
      );
    }
    const isHere =
      second !== undefined
        ? `${after}; and __fish_seen_subcommand_from ${second}`
        : seconds.length === 0
          ? after
          : `${after}; and not __fish_seen_subcommand_from ${seconds.join(' ')}`;
    for (const [name, option] of Object.entries(optionsOf(command))) {
      const values = valuesOf(option);
      const value = option.type === 'boolean' ? '' : values.length > 0 ? ` -x -a '${values.join(' ')}'` : ' -r';
      lines.push(`complete -c tollgate -n '${isHere}' -l ${name}${value} -d ${text(option.about)}`);
    }
    if (command.name === 'completion') lines.push(`complete -c tollgate -f -n '${isHere}' -a '${SHELLS.join(' ')}'`);
  }
  return `# fish completion for tollgate. Load it with: tollgate completion fish | source\n${lines.join('\n')}\n`;
}
