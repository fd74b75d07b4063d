import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';

type Callback = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;
type Answer = Parameters<Callback>;

/** The type of `dns.lookup`. */
export type SystemLookup = (host: string, options: LookupOptions, callback: Callback) => void;

/** How long an answer is kept: if look-ups take longer than a connection attempt may, the next attempt can still use it. */
const CACHED_FOR_MS = 2_000;

/**
 * Looks up the names of Redis servers, one at a time, and shares each look-up among concurrent callers.
 *
 * Node runs few look-ups at a time for the whole process, and each takes many seconds if the name server is away. Without
 * this class, every connection attempt would queue one more look-up in front of those for upstreams.
 */
export class HostNames {
  readonly #system: SystemLookup;
  readonly #answers = new Map<string, Promise<Answer>>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(system: SystemLookup = lookup as SystemLookup) {
    this.#system = system;
  }

  /** Replaces `dns.lookup` in the options of a connection. */
  readonly lookup = (host: string, options: LookupOptions, callback: Callback): void => {
    void this.#ask(host, options).then((answer) => callback(...answer));
  };

  #ask(host: string, options: LookupOptions): Promise<Answer> {
    const key = JSON.stringify([host, options.family, options.hints, options.all]);
    const known = this.#answers.get(key);
    if (known !== undefined) return known;
    const answer = this.#last.then(
      () => new Promise<Answer>((resolve) => this.#system(host, options, (...result) => resolve(result))),
    );
    this.#last = answer;
    this.#answers.set(key, answer);
    void answer.then(([error]) => {
      if (error !== null) this.#answers.delete(key);
      else setTimeout(() => this.#answers.delete(key), CACHED_FOR_MS).unref();
    });
    return answer;
  }
}
