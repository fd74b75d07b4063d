import { basename, extname } from 'node:path';
import { isErrorCode } from '../../src/errors/catalogue.ts';
import { type Import, importsOf, type Sources, withoutComments } from './imports.ts';

/** One rule of the house: what breaks it, each a sentence that names the file and says what to do. */
export type Rule = (sources: Sources) => string[];

/** The rooms of `src` from the top down, as docs/internals/source-map.md shows them. */
export const ROOMS: readonly string[] = [
  ...[
    'main',
    'library',
    'cli',
    'serve',
    'stores',
    'telemetry',
    'admin',
    'operations',
    'simulate',
    'certificates',
    'listen',
    'gateway',
  ],
  ...[
    'config',
    'forward',
    'annotate',
    'validate',
    'policies',
    'routing',
    'identify',
    'admit',
    'meter',
    'engine',
    'model',
    'http1',
    'io',
    'pets',
    'errors',
    'failure',
  ],
];
const STEPS = ['validate', 'policies', 'routing', 'identify', 'admit', 'meter', 'annotate', 'forward'];
/** What every step may stand on: the engine of decisions, the values that cross borders, the text of HTTP/1.1, the craft of sockets, the catalogue of errors, and failures. */
const GROUND = ['engine', 'model', 'http1', 'io', 'errors', 'failure'];
/** What operators work with. */
const FACES = ['library', 'cli', 'admin'];
/** What the admin API has beside the operations: its sessions, and its description. */
const WITH_OWN_SCHEMAS = /^src\/admin\/(?:sign-in|openapi[\w-]*)\.ts$/;
const PAGE = 'src/admin/console/page/';
const TYPES_OF_PAGE = `${PAGE}types.ts`;
/** The type of a response where the page reads one: `useResource<Usage>(`. A closing tag of a template is no type. */
const TYPE_OF_RESPONSE = /\b(?:request|useResource|useMore|changeIfSame)<(?!\/)([^<>(]*)/g;
/** The writer of the record of changes, and the root, which opens it for the admin API. */
const RECORDERS = ['src/operations/recorded.ts', 'src/serve/admin-api.ts'];
const HOLDERS_OF_REQUESTS = ['listen', 'gateway', 'forward', 'http1', 'pets', 'admin', 'certificates'];
// The interfaces that stores implement, each owned by the room that uses it, the records, and the one decision with its numbers.
const FOR_STORES = [
  'src/engine/operator-changes.ts',
  'src/engine/counting.ts',
  'src/engine/history-form.ts',
  'src/engine/history-hours.ts',
  'src/engine/history-moves.ts',
  'src/engine/leasing.ts',
  'src/engine/reconcile.ts',
  'src/engine/special.ts',
  'src/engine/settle.ts',
  'src/engine/decide.ts',
  'src/engine/types.ts',
  'src/model/account.ts',
  'src/model/plan.ts',
  'src/model/record.ts',
  'src/model/values.ts',
  'src/model/windows.ts',
  'src/identify/record-store.ts',
  'src/identify/pepper-record.ts',
  'src/identify/secret-use-store.ts',
  'src/admit/ledger.ts',
  'src/admit/account-changes.ts',
  'src/admit/account-id.ts',
  'src/admit/decision.ts',
  'src/admit/allowance.ts',
  'src/admit/windows.ts',
  'src/admit/history.ts',
  'src/admit/history-store.ts',
  'src/operations/audit-store.ts',
  'src/operations/plans/plans-history-store.ts',
  'src/operations/deprecated-calls.ts',
  'src/operations/explanation-store.ts',
  'src/operations/key-network-store.ts',
  'src/operations/traffic/traffic-store.ts',
  'src/operations/fleet/fleet-store.ts',
  'src/certificates/certificate-store.ts',
];

/** The construction of a class that implements an interface of another room, as the stores name them: `new RedisKeys(`. */
const CLASS_OF_STORE = /\bnew (?:Embedded|Redis)[A-Z]\w*\(/;

const CATALOGUE = 'src/errors/catalogue.ts';
/** They have error codes of their own, of which some have the same names. */
const WITH_OWN_ERRORS = ['admin', 'pets'];
/** A constant that is a table, in the form in which the formatter leaves it: its name, its type and its rows. */
const TABLE = /^([ \t]*)(?:export )?const (?<name>\w+)(?::(?<type>[^;]*?))? = \{\n(?<rows>[\s\S]*?)^\1\}/gm;

const NODE_INTERNALS = 'src/io/node-internals.ts';
const RESOLVER = 'src/io/resolver.ts';
/** The requests that the gateway sends on its own behalf. */
/** Functions of Node.js and ioredis that open connections to other hosts, and look names up by themselves if they are let. */
const CONNECTING = [
  { from: /^node:(?:net|tls|http2)$/, names: ['connect', 'createConnection'] },
  { from: /^node:https?$/, names: ['request', 'get', 'Agent', 'ClientRequest'] },
];
/** They connect to nothing but themselves, not at all, or over a connection that another file has opened. */
const WITHOUT_NAMES = [
  'src/forward/upstream/http2-target.ts',
  'src/io/node-internals.ts',
  'src/forward/websocket/upgrade.ts',
  'src/stores/embedded/owner-socket.ts',
];
const HTTP_EXCHANGE = 'src/io/http-exchange.ts';
/** The second one in a self-test. */
const RESETTING = ['src/io/graceful-close.ts', NODE_INTERNALS];
/** How src would reach what Node does not document: members with an underscore, hidden symbols, and those known by name. */
const UNDOCUMENTED = [
  /[\w)\]!]\??\._[a-z]\w*/,
  /['"`]_[a-z]\w*['"`]/,
  /\{[^{}()]*\b_[a-z]\w*\??\s*[:,}][^{}()]*\}/,
  /\bgetOwnPropertySymbols\b|\bprocess\.binding\b/,
  /\.emit\('listening'|\.(?:assignSocket|detachSocket|getCurrentBuffer)\b/,
  /\.(?:destroySoon|resume|shouldKeepAlive) = (?!=)/,
];

/** The arrows between the rooms of `src`, and what goes with them. */
/** The name that a declaration exports. */
const EXPORTED =
  /^export (?:declare )?(?:async )?(?:abstract )?(?:const|function\*?|class|interface|type|enum) ([A-Za-z_$][\w$]*)/gm;

export const RULES: Readonly<Record<string, Rule>> = {
  'arrows between rooms run downhill, types included': (sources) =>
    offenders(
      sources,
      ({ from, to }) => inSrc(to) && height(from) < height(to),
      'a lower room must not know a higher one: move the declaration down, or take it as an argument',
    ),

  'every room has its place in the order': (sources) =>
    [...sources.keys()]
      .filter((path) => inSrc(path) && !ROOMS.includes(floor(path)))
      .map((path) => `${path} is in a room without a place: add the room to ROOMS and to docs/internals/source-map.md`),

  'gateway imports the steps, the ground and nothing else of ours (types aside)': (sources) =>
    offenders(
      sources,
      (it) => room(it.from) === 'gateway' && loads(it) && !['gateway', ...STEPS, ...GROUND].includes(room(it.to)),
      'take it as an argument, and let serve/dependencies.ts hand it in',
    ),

  'a step imports nothing of ours but itself and the ground (types aside)': (sources) =>
    offenders(
      sources,
      (it) => STEPS.includes(room(it.from)) && loads(it) && ![room(it.from), ...GROUND].includes(room(it.to)),
      'steps know neither each other nor stores, listen, config, telemetry and cli: take it as an argument, or use `import type`',
    ),

  'http1 owns no socket': (sources) =>
    offenders(
      sources,
      ({ from, to, typeOnly, names }) =>
        room(from) === 'http1' &&
        /^node:(net|tls|http2)$/.test(to) &&
        !typeOnly &&
        !names.every((name) => name.startsWith('isIP')),
      'it reads and writes text: what owns a socket belongs in io, listen or forward',
    ),

  'simulate is pure: it imports nothing but itself, admit, engine, model, failure.ts and types': (sources) =>
    offenders(
      sources,
      ({ from, to, typeOnly }) =>
        room(from) === 'simulate' &&
        !typeOnly &&
        !['simulate', 'admit', 'engine', 'model', 'failure'].includes(inSrc(to) ? room(to) : to),
      'it decides what was recorded: files, clocks and terminals are for cli, which hands them in',
    ),

  'the engine imports nothing but itself and types of model': (sources) =>
    offenders(
      sources,
      ({ from, to, typeOnly }) =>
        room(from) === 'engine' && room(to) !== 'engine' && !(room(to) === 'model' && typeOnly),
      'Lua is to be made of it: take the value as an argument',
    ),

  'a store loads only itself, the interfaces that it implements, the decision and the history of admit, io/deadlines.ts, io/resolver.ts and failure.ts':
    (sources) =>
      offenders(
        sources,
        (it) => isStore(it.from) && loads(it) && !isOwnRoom(it) && !isForStores(it.to),
        'a store implements the interface of the room that uses it and takes the rest as arguments',
      ),

  'a store takes its types from the rooms that use it, never from another store': (sources) =>
    offenders(
      sources,
      (it) => isStore(it.from) && it.typeOnly && inSrc(it.to) && !isOwnRoom(it) && !isUserOfStores(it.to),
      'the interface belongs to the room that uses the store: put the type there',
    ),

  'only serve opens stores': (sources) =>
    offenders(
      sources,
      (it) => isStore(it.to) && loads(it) && room(it.from) !== 'serve' && !isStore(it.from),
      'only the composition root wires: take the interface as an argument',
    ),

  'a store opens itself: only its open.ts constructs its classes, and nothing else of it is loaded elsewhere': (
    sources,
  ) => [
    ...offenders(
      sources,
      (it) => isStore(it.to) && loads(it) && !isStore(it.from) && !isOpener(it.to),
      'let open.ts of that store open it, for a command, for a gateway or for `tollgate doctor`',
    ),
    ...[...sources]
      .filter(([path, text]) => inSrc(path) && !isOpener(path) && CLASS_OF_STORE.test(withoutComments(text)))
      .map(([path]) => `${path} constructs a class of a store: that belongs into open.ts of the store`),
  ],

  'no face imports a face': (sources) =>
    offenders(
      sources,
      ({ from, to }) => FACES.includes(room(from)) && inSrc(to) && FACES.includes(room(to)) && room(from) !== room(to),
      'commands, the admin API and the library meet in operations: what two of them need belongs there',
    ),

  'a zod object of an input or output of an operation is described below operations/ only': (sources) =>
    offenders(
      sources,
      ({ from, to, typeOnly }) =>
        FACES.includes(room(from)) && /^zod\b/.test(to) && !typeOnly && !WITH_OWN_SCHEMAS.test(from),
      'describe it in src/operations/catalogue, of which every face is made',
    ),

  'the page of the console takes the types of responses from the operations': (sources) =>
    [...sources]
      .filter(([path]) => path.startsWith(PAGE) && /\.tsx?$/.test(path))
      .flatMap(([path, text]) =>
        ownTypesOfResponses(path, text).map(
          (type) =>
            `${path} describes a response itself, with \`${type}\`: make it of the operation in ${TYPES_OF_PAGE}`,
        ),
      ),

  'the record of changes has one writer': (sources) =>
    offenders(
      sources,
      ({ from, to, typeOnly, names }) =>
        to === 'src/operations/audit-trail.ts' &&
        !typeOnly &&
        names.some((name) => name === 'AuditTrail' || name === 'AuditEntry') &&
        !RECORDERS.includes(from),
      'call `recorded` of src/operations/recorded.ts, and say what changed',
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

  'no circle of imports, types included': (sources) =>
    circlesIn(importsOf(sources).filter(({ to }) => inSrc(to) || to.startsWith('tools/'))).map(
      (circle) => `${circle.join(' → ')}: take out what they share, or turn one arrow round with an argument`,
    ),

  'request and response objects are touched in listen, certificates, gateway, forward, http1, admin, pets, io/node-internals.ts and io/http-exchange.ts only':
    (sources) =>
      offenders(
        sources,
        ({ from, to, names }) =>
          /^node:http(s|2)?$/.test(to) &&
          !names.every(isTable) &&
          !HOLDERS_OF_REQUESTS.includes(room(from)) &&
          from !== NODE_INTERNALS &&
          from !== HTTP_EXCHANGE,
        'take plain values out of the request before calling it',
      ),

  'undocumented members of Node are touched in io/node-internals.ts only': (sources) =>
    [...sources]
      .filter(([path]) => inSrc(path) && path.endsWith('.ts') && path !== NODE_INTERNALS)
      .flatMap(([path, text]) => {
        const found = UNDOCUMENTED.map((pattern) => pattern.exec(withoutComments(text))?.[0]).find(Boolean);
        return found === undefined
          ? []
          : [`${path} has \`${found.trim()}\`: put it into ${NODE_INTERNALS}, with a self-test and a row of its page`];
      }),

  'connections are reset by io/graceful-close.ts and nothing else': (sources) =>
    [...sources]
      .filter(
        ([path, text]) => inSrc(path) && /\bresetAndDestroy\b/.test(withoutComments(text)) && !RESETTING.includes(path),
      )
      .map(
        ([path]) =>
          `${path} resets a connection itself: Node throws or leaves some open, use \`reset\` of io/graceful-close.ts`,
      ),

  'names of hosts are looked up by io/resolver.ts and nothing else': (sources) => [
    ...offenders(
      sources,
      ({ from, to, typeOnly, names }) =>
        (/^node:dns\b/.test(to) && !typeOnly && from !== RESOLVER) ||
        (CONNECTING.some((it) => it.from.test(to) && !typeOnly && names.some((name) => it.names.includes(name))) &&
          !WITHOUT_NAMES.includes(from) &&
          !/\blookup\b/.test(withoutComments(sources.get(from)!))),
      `one silent name server must not keep other names away: give the connection \`lookup\` of ${RESOLVER}`,
    ),
    ...[...sources]
      .filter(([path, text]) => inSrc(path) && !path.startsWith('src/admin/console/page/') && usesOwnLookup(path, text))
      .map(
        ([path]) =>
          `${path} calls \`fetch\`, or makes a client of ioredis without a connector: it would use dns.lookup`,
      ),
  ],

  'a table keyed by error codes has the type Record<ErrorCode, …>': (sources) =>
    [...sources]
      .filter(([path]) => inSrc(path) && path !== CATALOGUE && !WITH_OWN_ERRORS.includes(room(path)))
      .flatMap(([path, text]) =>
        incompleteTables(text).map(
          (name) =>
            `${path} has ${name}, which may lack an error code: give it the type Record<ErrorCode, …>, or make it a member of the entries of ${CATALOGUE}`,
        ),
      ),

  'no file or folder is named utils or helpers': (sources) =>
    [...sources.keys()]
      .filter((path) => path.split('/').some((part) => /^_?(utils?|helpers?)$/i.test(basename(part, extname(part)))))
      .map((path) => `${path}: name it after what it is about`),

  'no module of src keeps a variable': (sources) =>
    [...sources]
      .filter(([path, text]) => inSrc(path) && path.endsWith('.ts') && /^(export\s+)?(let|var)\b/m.test(text))
      .map(([path]) => `${path} has a module-level let or var: keep state in the object that owns it`),

  'what a file exports, another file names': (sources) => {
    const named = new Map<string, number>();
    for (const [, text] of sources) {
      for (const word of new Set(text.match(/[A-Za-z_$][\w$]*/g))) named.set(word, (named.get(word) ?? 0) + 1);
    }
    return [...sources].flatMap(([path, text]) =>
      // What the library exports is named by the programs of others, and the operations are collected without their names.
      !/^src\/(?!library\.ts$|operations\/catalogue\/).*\.ts$/.test(path)
        ? []
        : [...withoutComments(text).matchAll(EXPORTED)]
            .filter(([, name]) => named.get(name!) === 1)
            .map(([, name]) => `${path} exports ${name}, which no other file names: leave out \`export\``),
    );
  },
};

/** The names of the tables that have error codes as keys, and a type that does not ask for all codes. */
function incompleteTables(source: string): string[] {
  return [...withoutComments(source).matchAll(TABLE)].flatMap(({ groups = {} }) => {
    const { name = '', type = '', rows = '' } = groups;
    const hasCodes = [...rows.matchAll(/^\s*'?(\w+)'?:/gm)].some(([, key]) => isErrorCode(key!));
    return hasCodes && !/(?<!\bPartial<)\bRecord<[^>]*\bErrorCode\b/.test(type) ? [name] : [];
  });
}

/** The types of responses in a file of the page that do not come from its types.ts, and the members that types.ts has of its own. */
function ownTypesOfResponses(path: string, source: string): string[] {
  const text = withoutComments(source);
  if (path === TYPES_OF_PAGE) {
    return text.replace(/^(?:import|export) type \{[^}]*\} from .*$/gm, '').match(/^.*\{.*$/gm) ?? [];
  }
  const taken = importsOf(new Map([[path, source]])).flatMap(({ to, names }) => (to === TYPES_OF_PAGE ? names : []));
  return [...text.matchAll(TYPE_OF_RESPONSE)]
    .map(([, type]) => type!.trim())
    .filter((type) => !/^(?:T\b|unknown$)/.test(type) && !taken.includes(type));
}

function usesOwnLookup(path: string, source: string): boolean {
  const text = withoutComments(source);
  if (!path.endsWith('.ts')) return false;
  const isClient = /\bnew (?:Redis|Cluster)\(/.test(text) && !/\bConnector\b|LinkOptions|node\.options/.test(text);
  return isClient || /(?<![\w.])(?:globalThis\.)?fetch\(|\bnew (?:WebSocket|EventSource)\(/.test(text);
}

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

function isOpener(path: string): boolean {
  return isStore(path) && basename(path) === 'open.ts';
}

function isOwnRoom({ from, to }: Import): boolean {
  return inSrc(to) && room(from) === room(to);
}

function isForStores(path: string): boolean {
  return [...FOR_STORES, 'src/io/deadlines.ts', RESOLVER, 'src/failure.ts'].includes(path);
}

/** Plain tables of words and numbers, which say nothing about any one request. */
function isTable(name: string): boolean {
  return ['METHODS', 'STATUS_CODES'].includes(name);
}

function isUserOfStores(path: string): boolean {
  return ['failure', 'model', 'engine', 'operations', 'certificates', ...STEPS].includes(room(path));
}

/** The room of a path, where all stores are one. */
function floor(path: string): string {
  return room(path).split('/')[0] ?? '';
}

/** How far up a file stands; a store is no higher than another one. */
function height(path: string): number {
  return -ROOMS.indexOf(floor(path));
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
