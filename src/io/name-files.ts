import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';

/** What resolv.conf(5) says of names; c-ares reads the name servers itself. */
interface SearchRules {
  /** Domains in which a name is looked for, in this order. */
  readonly search: readonly string[];
  /** A name with fewer dots than this is looked for in the domains first, and as it is afterwards. */
  readonly ndots: number;
}

/** The bound of glibc. */
const MAX_NDOTS = 15;

/**
 * The addresses of each name in a hosts file, hosts(5), in the order of its lines.
 * @returns names in lower case
 */
export function parseHosts(text: string): Map<string, string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names) {
      const key = withoutFinalDot(name.toLowerCase());
      const known = hosts.get(key);
      if (known === undefined) hosts.set(key, [address]);
      else if (!known.includes(address)) known.push(address);
    }
  }
  return hosts;
}

/** @param hostname of this machine: its domain is the one to search if the file names none */
export function parseResolvConf(text: string, hostname: string): SearchRules {
  let search = hostname.split('.').slice(1).join('.').split(' ');
  let ndots = 1;
  for (const line of text.split('\n')) {
    const [word = '', ...values] = line
      .replace(/^[#;].*/, '')
      .trim()
      .split(/\s+/);
    // Of several lines the last one counts.
    if (word === 'search') search = values;
    else if (word === 'domain') search = values.slice(0, 1);
    else if (word === 'options') {
      for (const value of values) {
        const [, dots] = /^ndots:(\d+)$/.exec(value) ?? [];
        if (dots !== undefined) ndots = Math.min(Number(dots), MAX_NDOTS);
      }
    }
  }
  const domains = search.map((domain) => withoutFinalDot(domain.toLowerCase())).filter((domain) => domain !== '');
  return { search: [...new Set(domains)], ndots };
}

/** The full names to ask for, in this order, until one has an address. */
export function candidatesOf(name: string, { search, ndots }: SearchRules): string[] {
  if (name.endsWith('.')) return [withoutFinalDot(name)];
  const within = search.map((domain) => `${name}.${domain}`);
  return name.split('.').length - 1 >= ndots ? [name, ...within] : [...within, name];
}

function withoutFinalDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

/** Looks for changes of a file at most once in this time. */
const CHECK_EVERY_MS = 1_000;

/** What a small file of the system says, read again when the file has changed. A file that cannot be read counts as empty. */
export class WatchedFile<T> {
  readonly #path: string;
  readonly #parse: (text: string) => T;
  readonly #monotonicMs: () => number;
  #checkAtMs = Number.NEGATIVE_INFINITY;
  #state: string | null = null;
  #value: T;

  /** @param monotonicMs milliseconds of a monotonic clock */
  constructor(path: string, parse: (text: string) => T, monotonicMs: () => number) {
    this.#path = path;
    this.#parse = parse;
    this.#monotonicMs = monotonicMs;
    this.#value = parse('');
  }

  /** The same object until the file has changed. */
  read(): T {
    const nowMs = this.#monotonicMs();
    if (nowMs < this.#checkAtMs) return this.#value;
    this.#checkAtMs = nowMs + CHECK_EVERY_MS;
    try {
      const { mtimeMs, ctimeMs, size, ino } = statSync(this.#path);
      const state = [mtimeMs, ctimeMs, size, ino].join();
      if (state !== this.#state) this.#value = this.#parse(readFileSync(this.#path, 'utf8'));
      this.#state = state;
    } catch {
      if (this.#state !== null) this.#value = this.#parse('');
      this.#state = null;
    }
    return this.#value;
  }
}
