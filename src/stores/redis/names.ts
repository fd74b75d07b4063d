import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';

type Callback = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;
type Answer = Parameters<Callback>;

/** How the system is asked, as `dns.lookup`. */
export type SystemLookup = (host: string, options: LookupOptions, callback: Callback) => void;

/**
 * An answer that came too late for the connection that asked for it is still there for the next one: also where every
 * answer takes longer than a connection may.
 */
const GOOD_FOR_MS = 2_000;

/**
 * Looks the names of Redis servers up, one at a time, and each once for all who ask meanwhile. The system answers few
 * questions at a time for the whole process, and of a name server that is away it takes many seconds to say so: every
 * attempt to connect would leave one more question behind, in front of those for the services that requests go to.
 */
export class Names {
  readonly #system: SystemLookup;
  readonly #asked = new Map<string, Promise<Answer>>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(system: SystemLookup = lookup as SystemLookup) {
    this.#system = system;
  }

  /** In the place of `dns.lookup`. */
  readonly lookup = (host: string, options: LookupOptions, callback: Callback): void => {
    void this.#ask(host, options).then((answer) => callback(...answer));
  };

  #ask(host: string, options: LookupOptions): Promise<Answer> {
    const key = JSON.stringify([host, options.family, options.hints, options.all]);
    const asked = this.#asked.get(key);
    if (asked !== undefined) return asked;
    const answer = this.#last.then(
      () => new Promise<Answer>((resolve) => this.#system(host, options, (...said) => resolve(said))),
    );
    this.#last = answer;
    this.#asked.set(key, answer);
    void answer.then(([error]) => {
      if (error !== null) this.#asked.delete(key);
      else setTimeout(() => this.#asked.delete(key), GOOD_FOR_MS).unref();
    });
    return answer;
  }
}
