import { basename, extname } from 'node:path';
import { type Import, importsOf, type Sources } from './imports.ts';

/** One rule of the house: what breaks it, each a sentence that names the file and says what to do. */
export type Rule = (sources: Sources) => string[];

const STEPS = ['identify', 'admit', 'annotate', 'forward'];
const HOLDERS_OF_REQUESTS = ['listen', 'gateway', 'forward', 'pets', 'admin'];
// The interfaces that the steps own and stores implement, and the one decision with its numbers.
const FOR_STORES = [
  'src/identify/key-store.ts',
  'src/admit/ledger.ts',
  'src/admit/decide.ts',
  'src/admit/plan.ts',
  'src/annotate/deprecated-calls.ts',
];

/** The arrows between the rooms of `src`, and what goes with them. */
export const RULES: Readonly<Record<string, Rule>> = {
  'main is the top, cli below it, and nothing imports them': (sources) =>
    offenders(
      sources,
      ({ from, to }) => inSrc(to) && ['main', 'cli'].includes(room(to)) && !['main', 'cli'].includes(room(from)),
      'only main and cli may: move what is needed down into the room that it is about',
    ),

  'gateway imports the steps and nothing else of ours (types aside)': (sources) =>
    offenders(
      sources,
      (it) => room(it.from) === 'gateway' && loads(it) && !['gateway', 'failure', ...STEPS].includes(room(it.to)),
      'take it as an argument, and let cli/serve.ts hand it in',
    ),

  'a step imports nothing of ours but itself and failure.ts (types aside)': (sources) =>
    offenders(
      sources,
      (it) => STEPS.includes(room(it.from)) && loads(it) && ![room(it.from), 'failure'].includes(room(it.to)),
      'steps know neither each other nor stores, listen, config, telemetry and cli: take it as an argument, or use `import type`',
    ),

  'simulate is pure: it imports nothing but itself, admit, failure.ts and types': (sources) =>
    offenders(
      sources,
      ({ from, to, typeOnly }) =>
        room(from) === 'simulate' && !typeOnly && !['simulate', 'admit', 'failure'].includes(inSrc(to) ? room(to) : to),
      'it decides what was recorded: files, clocks and terminals are for cli, which hands them in',
    ),

  'a store loads only itself, the interfaces of the steps, admit/decide.ts, admit/plan.ts and failure.ts': (sources) =>
    offenders(
      sources,
      (it) => isStore(it.from) && loads(it) && !isOwnRoom(it) && !isForStores(it.to),
      'a store implements the interface of the step that uses it and takes the rest as arguments',
    ),

  'a store takes its types from the steps, never from another store': (sources) =>
    offenders(
      sources,
      (it) => isStore(it.from) && it.typeOnly && inSrc(it.to) && !isOwnRoom(it) && !isStepOrFailure(it.to),
      'the interface belongs to the step that uses the store: put the type there',
    ),

  'only cli opens stores': (sources) =>
    offenders(
      sources,
      (it) => isStore(it.to) && loads(it) && room(it.from) !== 'cli' && !isStore(it.from),
      'only the top wires: take the interface of the step as an argument',
    ),

  'failure.ts imports nothing': (sources) =>
    offenders(
      sources,
      ({ from }) => from === 'src/failure.ts',
      'everything imports failure.ts, so it must stand alone',
    ),

  'nothing but cli imports pets': (sources) =>
    offenders(
      sources,
      ({ from, to }) => inSrc(to) && room(to) === 'pets' && !['pets', 'cli'].includes(room(from)),
      'the pet service and the gateway meet on the network only',
    ),

  'pets imports nothing of ours but itself and failure.ts': (sources) =>
    offenders(
      sources,
      ({ from, to }) => room(from) === 'pets' && inSrc(to) && !['pets', 'failure'].includes(room(to)),
      'the pet service and the gateway meet on the network only',
    ),

  'no circle of imports (types and dynamic imports aside)': (sources) =>
    circlesIn(importsOf(sources).filter((it) => loads(it) && !it.dynamic)).map(
      (circle) => `${circle.join(' → ')}: take out what they share, or turn one arrow round with an argument`,
    ),

  'request and response objects are touched in listen, gateway, forward, admin and pets only': (sources) =>
    offenders(
      sources,
      ({ from, to, names }) =>
        /^node:http(s|2)?$/.test(to) && !names.every(isTable) && !HOLDERS_OF_REQUESTS.includes(room(from)),
      'take plain values out of the request before calling it',
    ),

  'no file or folder is named utils or helpers': (sources) =>
    [...sources.keys()]
      .filter((path) => path.split('/').some((part) => /^_?(utils?|helpers?)$/i.test(basename(part, extname(part)))))
      .map((path) => `${path}: name it after what it is about`),

  'no module of src keeps a variable': (sources) =>
    [...sources]
      .filter(([path, text]) => inSrc(path) && path.endsWith('.ts') && /^(export\s+)?(let|var)\b/m.test(text))
      .map(([path]) => `${path} has a module-level let or var: keep state in the object that owns it`),
};

function offenders(sources: Sources, isWrong: (it: Import) => boolean, whatToDo: string): string[] {
  return importsOf(sources)
    .filter((it) => inSrc(it.from) && isWrong(it))
    .map(({ from, to, typeOnly }) => `${from} imports ${typeOnly ? 'a type of ' : ''}${to}: ${whatToDo}`);
}

function inSrc(path: string): boolean {
  return path.startsWith('src/');
}

/** The folder below `src`, with the store's name for stores; of a file right below it, its name. */
function room(path: string): string {
  const [, first = '', second = ''] = path.split('/');
  return first === 'stores' ? `stores/${second}` : first.replace(/\.ts$/, '');
}

/** Whether another file of ours is loaded at run time. */
function loads({ to, typeOnly }: Import): boolean {
  return inSrc(to) && !typeOnly;
}

function isStore(path: string): boolean {
  return path.startsWith('src/stores/');
}

function isOwnRoom({ from, to }: Import): boolean {
  return inSrc(to) && room(from) === room(to);
}

function isForStores(path: string): boolean {
  return [...FOR_STORES, 'src/failure.ts'].includes(path);
}

/** Plain tables of words and numbers, which say nothing about any one request. */
function isTable(name: string): boolean {
  return ['METHODS', 'STATUS_CODES'].includes(name);
}

function isStepOrFailure(path: string): boolean {
  return ['failure', ...STEPS].includes(room(path));
}

/** Every circle that a walk down the imports closes, from its first file back to it. */
function circlesIn(imports: readonly Import[]): string[][] {
  const targets = Map.groupBy(imports, ({ from }) => from);
  const done = new Set<string>();
  const circles: string[][] = [];
  const walk = (file: string, way: readonly string[]) => {
    const start = way.indexOf(file);
    if (start !== -1) circles.push([...way.slice(start), file]);
    if (start !== -1 || done.has(file)) return;
    for (const { to } of targets.get(file) ?? []) walk(to, [...way, file]);
    done.add(file);
  };
  for (const file of targets.keys()) walk(file, []);
  return circles;
}
