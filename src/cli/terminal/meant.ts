// What a person probably meant by words and options that Tollgate does not have: habits from kubectl, gh, stripe and the like, and typing
// errors. Nothing here is taken as a command: a message names what to type.

/** Verbs of other programs, each with those that a command may have in its place; the first that there is, is meant. */
const VERBS: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    list: ['show', 'history'],
    ls: ['list', 'show'],
    search: ['list'],
    get: ['list', 'show'],
    show: ['list'],
    describe: ['show', 'list'],
    info: ['show', 'list'],
    inspect: ['show', 'list'],
    view: ['show', 'list'],
    retrieve: ['show', 'list'],
    lookup: ['find', 'show'],
    add: ['create'],
    new: ['create'],
    make: ['create'],
    generate: ['create'],
    edit: ['update'],
    update: ['edit'],
    set: ['update', 'edit'],
    patch: ['update', 'edit'],
    modify: ['update', 'edit'],
    delete: ['lift'],
    del: ['delete', 'lift'],
    rm: ['delete', 'lift'],
    remove: ['delete', 'lift'],
    destroy: ['delete', 'lift'],
    clear: ['lift', 'reset'],
    unban: ['lift'],
    ban: ['suspend'],
    block: ['suspend'],
    disable: ['suspend'],
    pause: ['suspend'],
    enable: ['resume'],
    unblock: ['resume'],
    unsuspend: ['resume'],
    regenerate: ['rotate'],
    roll: ['rotate'],
    validate: ['check'],
    lint: ['check'],
    compare: ['diff'],
  }),
);

const LOG = 'The log is on the standard output of the gateway, one JSON object a line.';
const SERVE = '`tollgate serve` runs the gateway; `tollgate start` also runs a service to try it with.';
const LOOK = '`tollgate doctor` looks at all that a gateway depends on, and `tollgate now` lists who is refused.';
const EVENTS =
  '`tollgate console` opens Live, which shows requests as they come; for programs there is GET /admin/events/requests on the admin port.';
const ACCESS =
  'Commands need no sign-in: they work on the store that REDIS_URL or TOLLGATE_DATA names, or ask the gateway of TOLLGATE_GATEWAY with TOLLGATE_TOKEN. `tollgate console` signs in to the console.';
const SETTINGS =
  'The settings are in config/gateway.yaml, plans.yaml and the environment; `tollgate gateway check` checks them all.';
const PLANS =
  'Plans are in plans.yaml: edit that file, and run `tollgate plans check`. A running gateway takes the change by itself.';
const VERSION = '`tollgate version` prints the version.';

/** What there is in place of words for which there is no command. */
const HINTS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    logs: LOG,
    log: LOG,
    reload: 'A gateway reads changed files by itself, and at once when it gets SIGHUP.',
    stop: 'Send SIGTERM to the gateway: it finishes what is under way and ends.',
    status: LOOK,
    health: LOOK,
    top: LOOK,
    run: SERVE,
    server: SERVE,
    'start-server': SERVE,
    events: EVENTS,
    tail: EVENTS,
    listen: EVENTS,
    auth: ACCESS,
    login: ACCESS,
    logout: ACCESS,
    whoami: ACCESS,
    config: SETTINGS,
    settings: SETTINGS,
    upstreams: SETTINGS,
    'plans create': PLANS,
    'plans update': PLANS,
    'plans delete': PLANS,
    'plans apply': PLANS,
    '-v': VERSION,
    '-V': VERSION,
  }),
);

/** What words mean that name no command: the commands that are probably meant, and a sentence in place of them. */
interface MeantCommands {
  readonly commands: readonly string[];
  readonly sentence: string | null;
}

const UNKNOWN: MeantCommands = { commands: [], sentence: null };

/**
 * What a command line without a command means.
 * @param names of all commands, such as `keys list`
 */
export function commandsMeantBy(args: readonly string[], names: readonly string[]): MeantCommands {
  const behind = commandBehindOptions(args, names);
  if (behind !== null)
    return { commands: [], sentence: `Options follow the command: \`tollgate ${behind} [options]\`.` };
  const [first = '', second, third] = args.filter((word) => !word.startsWith('-'));
  const hint = HINTS.get(args[0] ?? '');
  if (hint !== undefined) return { commands: [], sentence: hint };
  // `keys describe`, as in gh and stripe, or `describe key`, as in kubectl.
  const groups = [...new Set(names.map((name) => name.split(' ')[0]!))];
  const meant = [
    meantIn(groupOf(first, groups) ?? meantBy(first, groups), second, third, names),
    second === undefined ? UNKNOWN : meantIn(groupOf(second, groups), first, third, names),
    { commands: namesWithVerb(first, names), sentence: null },
  ].find(({ commands, sentence }) => commands.length > 0 || sentence !== null);
  if (meant !== undefined) return meant;
  // A group that has no such command is no typing error.
  const typed = groups.includes(first) ? null : meantBy(first, [...names, ...groups]);
  return typed === null ? UNKNOWN : { commands: [typed], sentence: null };
}

/** The command in `--gateway URL keys list` or `keys --json list`; null if the words without options name none. */
function commandBehindOptions(args: readonly string[], names: readonly string[]): string | null {
  const words = ` ${args.filter((word) => !word.startsWith('-')).join(' ')} `;
  // The value of an option may stand before the command.
  const isBehind = (name: string) =>
    args[0]?.startsWith('-') ? words.includes(` ${name} `) : words.startsWith(` ${name} `);
  return names.toSorted((a, b) => b.split(' ').length - a.split(' ').length).find(isBehind) ?? null;
}

/** The group of commands for a word: itself, its plural, or what it abbreviates. */
function groupOf(word: string, groups: readonly string[]): string | null {
  const exact = groups.find((group) => group === word || group === `${word}s`);
  return exact ?? (word.length < 2 ? null : (groups.find((group) => group.startsWith(word)) ?? null));
}

/** The commands of a group that a verb means. @param target the word after both, such as the id of a key */
function meantIn(
  group: string | null,
  verb: string | undefined,
  target: string | undefined,
  names: readonly string[],
): MeantCommands {
  if (group === null || verb === undefined) return UNKNOWN;
  const verbs = names.flatMap((name) => (name.startsWith(`${group} `) ? [name.slice(group.length + 1)] : []));
  const same = verb === 'get' && target !== undefined ? ['show'] : (VERBS.get(verb) ?? []);
  const known = [verb, ...same].find((one) => verbs.includes(one) || HINTS.has(`${group} ${one}`));
  const hint = HINTS.get(`${group} ${known}`);
  if (hint !== undefined) return { commands: [], sentence: hint };
  if (known !== undefined) return { commands: [`${group} ${known}`], sentence: null };
  // `audit list` and `get usage`: the group is a command itself.
  if (VERBS.has(verb) && names.includes(group)) return { commands: [group], sentence: null };
  const typed = meantBy(verb, verbs);
  const abbreviated = verbs.filter((one) => one.startsWith(verb));
  const found = abbreviated.length > 0 ? abbreviated : typed === null ? [] : [typed];
  return { commands: found.map((one) => `${group} ${one}`), sentence: null };
}

/** The commands with this verb, in whatever group: `apply` means `keys apply`. */
function namesWithVerb(verb: string, names: readonly string[]): readonly string[] {
  const all = [verb, ...(VERBS.get(verb) ?? [])].map((one) => names.filter((name) => name.endsWith(` ${one}`)));
  return all.find((found) => found.length > 0) ?? [];
}

interface OptionHabit {
  /** Names of options in other programs, without dashes. */
  readonly names: readonly string[];
  /** The option or the positional that a command must have for this to be meant. */
  readonly needs: string;
  /** In place of `Did you mean --NEEDS?`. */
  readonly sentence?: string;
}

const BY_ITSELF = 'is given by itself, without an option.';

const OPTIONS: readonly OptionHabit[] = [
  { names: ['f', 'file', 'filename'], needs: 'FILE', sentence: `FILE ${BY_ITSELF}` },
  { names: ['o', 'output'], needs: 'out' },
  { names: ['o', 'output', 'format'], needs: 'json' },
  { names: ['jq', 'template'], needs: 'json', sentence: 'Give --json, and pipe the output to jq.' },
  { names: ['n', 'max', 'count', 'page-size', 'max-results'], needs: 'limit' },
  { names: ['l', 'selector', 'filter', 'query'], needs: 'search' },
  { names: ['q', 'quiet'], needs: 'no-header', sentence: '`--no-header | cut -f 1` prints the first column alone.' },
  {
    names: ['sort', 'sort-by', 'order-by'],
    needs: 'no-header',
    sentence: '`--no-header | sort` orders the rows otherwise.',
  },
  { names: ['w', 'watch', 'f', 'follow'], needs: 'no-header', sentence: '`watch tollgate …` repeats a command.' },
  { names: ['force', 'f', 'assume-yes', 'confirm', 'no-input'], needs: 'yes' },
  { names: ['A', 'a', 'all-namespaces'], needs: 'all' },
  ...['KEY_ID', 'CUSTOMER_ID', 'ID'].map((needs) => ({
    names: ['id', 'name', 'key', 'customer'],
    needs,
    sentence: `${needs} ${BY_ITSELF}`,
  })),
  { names: ['s', 'server', 'host', 'url', 'endpoint', 'context'], needs: 'gateway' },
  {
    names: ['token', 'api-key'],
    needs: 'gateway',
    sentence: 'The token of a gateway is in TOLLGATE_TOKEN, because other users may see the arguments of a program.',
  },
];

/**
 * What to type in place of an option that the command lacks; null if that is unknown.
 * @param given its name without dashes
 * @param options the names of those that the command has
 * @param positionals as its usage shows them
 */
export function adviceOnOption(
  given: string,
  options: readonly string[],
  positionals: readonly string[],
): string | null {
  const has = new Set([...options, ...positionals.map((word) => word.replace(/^\[|\|.*|\]$/g, ''))]);
  const habit = OPTIONS.find(({ names, needs }) => names.includes(given) && has.has(needs));
  if (habit?.sentence !== undefined) return habit.sentence;
  const meant = habit?.needs ?? meantBy(given, [...options, 'help']);
  return meant === null ? null : `Did you mean --${meant}?`;
}

/** The word among `known` that was probably meant, with at most two letters wrong or swapped; null if none is close. */
export function meantBy(given: string, known: Iterable<string>): string | null {
  let best: string | null = null;
  let least = Math.min(2, Math.floor(given.length / 3)) + 1;
  // A typing error is short; the distance of a long text would take long.
  if (given.length > 64) return null;
  for (const word of known) {
    const distance = distanceOf(given.toLowerCase(), word.toLowerCase());
    if (distance < least) [best, least] = [word, distance];
  }
  return best;
}

/** How many letters must be inserted, left out, replaced, or swapped with their neighbour. */
function distanceOf(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, replaced, isSwap ? before[j - 2]! + 1 : Infinity));
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
