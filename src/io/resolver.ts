import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { candidatesOf, parseHosts, parseResolvConf, WatchedFile } from './name-files.ts';
import { RecentlyUsed } from './recently-used.ts';

/*
 * The names of all hosts to which this process connects.
 *
 * Attack: one name server is silent for one name. `dns.lookup` is getaddrinfo on two threads of libuv, for 10 s or more, and
 * cannot be cancelled; a few such look-ups kept every other name of the process away for minutes. So names are asked for over
 * sockets (c-ares), where no look-up waits for another one.
 */

/** The type of `dns.lookup`, as node:net takes it. */
export type Lookup = (host: string, options: LookupOptions, callback: LookupCallback) => void;
type LookupCallback = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;

/** What asks name servers; the next one after another has been silent. */
type NameServers = Pick<Resolver, 'resolve4' | 'resolve6'>;

interface ResolverOptions {
  /** Opens sockets to the name servers of resolv.conf, as `nameServers` does. Called again when that file has changed. */
  readonly open?: () => readonly NameServers[];
  /** `dns.lookup`. */
  readonly system?: Lookup;
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs?: () => number;
  readonly hostsFile?: string;
  readonly resolvConf?: string;
}

/** A name has no address, or the name servers did not return one in time (`ETIMEOUT`). */
export class LookupError extends Error {
  readonly code: string;
  readonly hostname: string;
  readonly syscall = 'lookup';

  constructor(code: string, host: string, cause?: unknown) {
    const silent = `the name servers have not answered for ${host}`;
    const message = code === 'ETIMEOUT' ? silent : `the name ${host} has no address`;
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.hostname = host;
  }
}

/** Bounds on the time for which an answer counts, whatever its TTL. */
const MIN_TTL_MS = 1_000;
const MAX_TTL_MS = 300_000;
/** For this long after its TTL an answer is used if no newer one comes (RFC 8767 allows days). */
const STALE_FOR_MS = 3_600_000;
/** A new connection waits this long for a newer answer before it uses an old one. */
const OVERDUE_AFTER_MS = 200;
/** After a failure a name is not asked for again. */
const PAUSE_MS = 1_000;
/** Once there are IPv4 addresses, the wait for those of IPv6 (RFC 8305 section 3). Some name servers never answer for them. */
const GRACE_MS = 50;
/** A question is sent twice to each name server: within 3 s with one, 9 s with three. */
const ASKING = { timeout: 1_000, maxTimeout: 2_000, tries: 2 };
/** An answer of getaddrinfo has no TTL. */
const SYSTEM_TTL_MS = 10_000;
/** A name that getaddrinfo does not know either is left to the name servers for this long. */
const SYSTEM_PAUSE_MS = 30_000;
const MAX_NAMES = 1_000;

/** The name servers say that there is no such name, or none with an address. */
const ABSENT: readonly string[] = ['ENOTFOUND', 'ENODATA'];
/** A name server answers that it does not know. Like glibc, this asks the next one. */
const REFUSING: readonly string[] = ['ESERVFAIL', 'EREFUSED', 'ENOTIMP'];
const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

interface Resolution {
  readonly addresses: readonly LookupAddress[];
  readonly ttlMs: number;
  /** Addresses of IPv6 that come after the grace; null if none can. Never rejects. */
  readonly late: Promise<readonly LookupAddress[]> | null;
}

/** The state of one name. */
class KnownName {
  readonly host: string;
  /** The last answer; null if there is none that may be used. */
  addresses: readonly LookupAddress[] | null = null;
  freshUntilMs = 0;
  /** Why the last look-up failed; null if it succeeded. */
  error: LookupError | null = null;
  pausedUntilMs = 0;
  systemPausedUntilMs = 0;
  /** The callers that wait for the look-up under way; null without one. */
  waiters: Waiter[] | null = null;
  isOverdue = false;
  /** Counts the answers given, so that connections are spread over the addresses. */
  turn = 0;

  constructor(host: string) {
    this.host = host;
  }
}

type Waiter = (error: LookupError | null, addresses: readonly LookupAddress[]) => void;

/**
 * Looks up names: in the hosts file, then with the name servers, in the domains of resolv.conf. Each name has one look-up under
 * way at most, which all callers share and which ends by itself; a caller that gives up before leaves it alone. An answer is
 * kept for its TTL, and an older one is used while the name servers fail.
 */
export class NameResolver {
  readonly #open: () => readonly NameServers[];
  readonly #system: Lookup;
  readonly #monotonicMs: () => number;
  readonly #hosts: WatchedFile<ReadonlyMap<string, readonly LookupAddress[]>>;
  readonly #rules: WatchedFile<ReturnType<typeof parseResolvConf>>;
  readonly #names = new RecentlyUsed<KnownName>(MAX_NAMES);
  #servers: { readonly rules: object; readonly ask: readonly NameServers[] } | null = null;
  /** Whether a getaddrinfo is under way. */
  #isSystemBusy = false;

  constructor({
    open = nameServers,
    system = lookup as Lookup,
    monotonicMs = () => performance.now(),
    hostsFile = '/etc/hosts',
    resolvConf = '/etc/resolv.conf',
  }: ResolverOptions = {}) {
    this.#open = open;
    this.#system = system;
    this.#monotonicMs = monotonicMs;
    this.#hosts = new WatchedFile(hostsFile, hostsOf, monotonicMs);
    this.#rules = new WatchedFile(resolvConf, (text) => parseResolvConf(text, hostname()), monotonicMs);
  }

  /** Replaces `dns.lookup` in the options of a connection. Never calls back before it returns. */
  readonly lookup: Lookup = (host, options, callback) => {
    const give: Waiter = (error, addresses) => {
      const { family, all } = options;
      const wanted = family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : family || null;
      const fitting = wanted === null ? [...addresses] : addresses.filter((one) => one.family === wanted);
      const [first] = fitting;
      if (error !== null) callback(error, []);
      else if (first === undefined) callback(new LookupError('ENODATA', host), []);
      else if (all) callback(null, fitting);
      else callback(null, first.address, first.family);
    };
    const known = this.#local(host);
    if (known !== null) process.nextTick(give, null, known);
    else this.#ask(host, give);
  };

  /** Whether the name servers have been asked for a name and have not answered yet. */
  isAsking(host: string): boolean {
    return (this.#names.peek(keyOf(host))?.waiters ?? null) !== null;
  }

  /** What is known without name servers. */
  #local(host: string): readonly LookupAddress[] | null {
    const family = isIP(host);
    if (family !== 0) return [{ address: host, family }];
    const key = keyOf(host);
    const inFile = this.#hosts.read().get(key.endsWith('.') ? key.slice(0, -1) : key);
    if (inFile !== undefined) return inFile;
    // RFC 6761 section 6.3: these are never asked for.
    return /(?:^|\.)localhost\.?$/.test(key) ? LOOPBACK : null;
  }

  #ask(host: string, give: Waiter): void {
    const nowMs = this.#monotonicMs();
    const key = keyOf(host);
    let name = this.#names.get(key);
    if (name === undefined) {
      name = new KnownName(key);
      this.#names.set(key, name);
    }
    const { addresses } = name;
    if (addresses !== null && nowMs < name.freshUntilMs) {
      process.nextTick(give, null, inTurn(name));
      return;
    }
    const isUsable = isUsableAt(name, nowMs);
    if (nowMs < name.pausedUntilMs && name.error !== null) {
      if (isUsable) process.nextTick(give, null, inTurn(name));
      else process.nextTick(give, name.error, []);
      return;
    }
    if (name.waiters === null) this.#begin(name, isUsable);
    if (isUsable && (name.isOverdue || name.error !== null)) {
      process.nextTick(give, null, inTurn(name));
    } else name.waiters!.push(give);
  }

  /** Begins the look-up that all callers share. */
  #begin(name: KnownName, isUsable: boolean): void {
    name.waiters = [];
    name.isOverdue = false;
    const overdue = () => {
      name.isOverdue = true;
      if (name.waiters !== null) answer(name, name.waiters.splice(0), null);
    };
    const timer = isUsable ? setTimeout(overdue, OVERDUE_AFTER_MS) : null;
    const end = () => {
      if (timer !== null) clearTimeout(timer);
      const waiters = name.waiters ?? [];
      name.waiters = null;
      answer(name, waiters, isUsableAt(name, this.#monotonicMs()) ? null : name.error);
    };
    this.#find(name).then(
      ({ addresses, ttlMs, late }) => {
        name.addresses = addresses;
        name.freshUntilMs = this.#monotonicMs() + Math.min(Math.max(ttlMs, MIN_TTL_MS), MAX_TTL_MS);
        name.error = null;
        end();
        void late?.then((more) => {
          if (name.addresses === addresses) name.addresses = inOrder([...addresses, ...more]);
        });
      },
      (error: unknown) => {
        const failure = error instanceof LookupError ? error : new LookupError(codeOf(error), name.host, error);
        // The name servers say that the name is gone, which is an answer (RFC 8767 section 4).
        if (ABSENT.includes(failure.code)) name.addresses = null;
        name.error = failure;
        name.pausedUntilMs = this.#monotonicMs() + PAUSE_MS;
        end();
      },
    );
  }

  /** @throws LookupError */
  async #find(name: KnownName): Promise<Resolution> {
    // RFC 6761 section 6.4: this one is never asked for.
    if (/(?:^|\.)invalid\.?$/.test(name.host)) throw new LookupError('ENOTFOUND', name.host);
    const rules = this.#rules.read();
    if (this.#servers?.rules !== rules) this.#servers = { rules, ask: this.#open() };
    const servers = this.#servers.ask;
    let failed: unknown = null;
    for (const candidate of candidatesOf(name.host, rules)) {
      try {
        return await addressesOf(candidate, servers);
      } catch (error) {
        // The servers of one domain may fail for that domain alone. After silence nothing further is asked for, as by glibc.
        if (REFUSING.includes(codeOf(error))) failed = error;
        else if (!ABSENT.includes(codeOf(error))) {
          failed = error;
          break;
        } else failed ??= error;
      }
    }
    const code = codeOf(failed);
    if (ABSENT.includes(code) || code === 'ECONNREFUSED') return this.#bySystem(name, code);
    throw new LookupError(code, name.host, failed);
  }

  /**
   * Asks getaddrinfo, which also knows names that no name server does: those of mDNS and other plug-ins of nsswitch.conf(5), and
   * of the split DNS of macOS. One at a time for the whole process, so that half of libuv's threads always stay free,
   * and only for names of which the name servers have said that they do not exist. No look-up waits for this place.
   * @param code what the name servers said
   * @throws LookupError
   */
  async #bySystem(name: KnownName, code: string): Promise<Resolution> {
    if (this.#monotonicMs() < name.systemPausedUntilMs) throw new LookupError(code, name.host);
    // Not ENOTFOUND: an earlier answer of getaddrinfo stays in use.
    if (this.#isSystemBusy) throw new LookupError('EAI_AGAIN', name.host);
    this.#isSystemBusy = true;
    const addresses = await new Promise<readonly LookupAddress[]>((resolve) =>
      this.#system(name.host, { all: true }, (error, found) =>
        resolve(error === null ? (found as LookupAddress[]) : []),
      ),
    );
    this.#isSystemBusy = false;
    if (addresses.length > 0) return { addresses, ttlMs: SYSTEM_TTL_MS, late: null };
    name.systemPausedUntilMs = this.#monotonicMs() + SYSTEM_PAUSE_MS;
    throw new LookupError(code, name.host);
  }
}

/** The names of this process. One for all, because the name servers and the places of libuv are the same for all. */
export const NAMES = new NameResolver();

function keyOf(host: string): string {
  return host.toLowerCase();
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'EFAIL';
}

function isUsableAt({ addresses, freshUntilMs }: KnownName, nowMs: number): boolean {
  return addresses !== null && nowMs < freshUntilMs + STALE_FOR_MS;
}

function answer(name: KnownName, waiters: readonly Waiter[], error: LookupError | null): void {
  for (const give of waiters) give(error, error === null ? inTurn(name) : []);
}

function hostsOf(text: string): Map<string, readonly LookupAddress[]> {
  const entries = [...parseHosts(text)];
  return new Map(entries.map(([name, list]) => [name, inOrder(list.map((it) => ({ address: it, family: isIP(it) })))]));
}

/**
 * c-ares asks the next name server only after silence, and not after an answer that the server does not know. So there is one channel
 * for all of them, one without the first, and so on.
 * @param addresses those of resolv.conf if left out
 */
export function nameServers(addresses?: readonly string[]): NameServers[] {
  const all = new Resolver(ASKING);
  if (addresses !== undefined) all.setServers(addresses);
  const known = all.getServers();
  const others = known.slice(1).map((_, i) => {
    const fewer = new Resolver(ASKING);
    fewer.setServers(known.slice(i + 1));
    return fewer;
  });
  return [all, ...others];
}

async function firstOf<T>(servers: readonly NameServers[], ask: (one: NameServers) => Promise<T>): Promise<T> {
  let failed: unknown = null;
  for (const one of servers) {
    try {
      return await ask(one);
    } catch (error) {
      if (!REFUSING.includes(codeOf(error))) throw error;
      failed = error;
    }
  }
  throw failed;
}

/** What the name servers say of one family. */
interface Outcome {
  readonly addresses: readonly LookupAddress[];
  readonly ttlMs: number;
  /** Null if there are addresses. */
  readonly error: unknown;
}

/**
 * Asks for the addresses of both families at once.
 * @throws Error with the code of c-ares if there is none
 */
async function addressesOf(name: string, servers: readonly NameServers[]): Promise<Resolution> {
  const sixComes = outcomeOf(
    firstOf(servers, (one) => one.resolve6(name, { ttl: true })),
    6,
  );
  const four = await outcomeOf(
    firstOf(servers, (one) => one.resolve4(name, { ttl: true })),
    4,
  );
  // A name that does not exist has no address of the other family either (RFC 8020).
  if (four.error !== null && codeOf(four.error) === 'ENOTFOUND') throw four.error;
  const six = await (four.error === null ? Promise.race([sixComes, delay(GRACE_MS, null, { ref: false })]) : sixComes);
  const late = six === null ? sixComes.then(({ addresses }) => addresses) : null;
  if (six === null || six.error !== null) {
    if (four.error === null) return { ...four, late };
    // Only if both say so, the name has no address.
    throw ABSENT.includes(codeOf(four.error)) ? six!.error : four.error;
  }
  const addresses = inOrder([...four.addresses, ...six.addresses]);
  return { addresses, ttlMs: Math.min(four.ttlMs, six.ttlMs), late };
}

/** Never rejects. */
function outcomeOf(
  answers: Promise<readonly { readonly address: string; readonly ttl: number }[]>,
  family: number,
): Promise<Outcome> {
  return answers.then(
    (found) => ({
      addresses: found.map(({ address }) => ({ address, family })),
      ttlMs: Math.min(...found.map(({ ttl }) => ttl * 1_000)),
      error: null,
    }),
    (error: unknown) => ({ addresses: [], ttlMs: Number.POSITIVE_INFINITY, error }),
  );
}

/**
 * Puts the family first that RFC 6724 prefers: IPv6 if the name has a global address (or `::1`) and this machine has one too. Node
 * tries the families in turn.
 */
function inOrder(addresses: readonly LookupAddress[]): readonly LookupAddress[] {
  const four = addresses.filter(({ family }) => family === 4);
  if (four.length === 0 || four.length === addresses.length) return addresses;
  const six = addresses.filter(({ family }) => family === 6);
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const isPreferred = [/^::1$/, /^[23]/].some(
    (kind) =>
      six.some(({ address }) => kind.test(address)) &&
      own.some(({ address, family }) => family === 'IPv6' && kind.test(address)),
  );
  return isPreferred ? [...six, ...four] : [...four, ...six];
}

/** The addresses of a name, beginning with another one of each family each time, as name servers give them. */
function inTurn(name: KnownName): readonly LookupAddress[] {
  const addresses = name.addresses ?? [];
  if (addresses.length < 2) return addresses;
  const turn = name.turn++;
  const families = [...new Set(addresses.map(({ family }) => family))];
  return families.flatMap((wanted) => {
    const group = addresses.filter(({ family }) => family === wanted);
    const first = turn % group.length;
    return [...group.slice(first), ...group.slice(0, first)];
  });
}
