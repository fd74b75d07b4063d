import { hash } from 'node:crypto';
import type { Configuration, RefusedFile, SettingsFile } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { AuditStore } from './audit-store.ts';
import type { RecordedChange } from './audit-trail.ts';
import type { PlansHistory, PlansVersion } from './plans/plans-history-store.ts';

/** A version of one file that has come into force. */
export interface TakenFile {
  readonly file: SettingsFile;
  readonly before: string;
  readonly version: string;
  /** What is different, a line each: `starter minute 10 → 6`. */
  readonly changes: readonly string[];
}

interface LoadRecordOptions {
  readonly store: Pick<AuditStore, 'exchangeLoad' | 'put'>;
  readonly history: Pick<PlansHistory, 'add'>;
  /** Returns how many records are kept (`audit.keep`). */
  readonly keep: () => number;
  /** The names of the files, which are the actors. */
  readonly names: Readonly<Record<SettingsFile, string>>;
  /** The versions that are in force at the start. */
  readonly versions: Configuration['versions'];
  /** Returns the text of plans.yaml that is in force. */
  readonly plansText: () => string;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
  /** Waits `ms` milliseconds, or until the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Called once for each load that the store does not take although it answers. It is tried again. */
  readonly onRefusedByStore: (error: unknown) => void;
  /** Called once the history has the plans of a reload, so that other gateways make no key of a plan that these lack. */
  readonly onPlansAdded: () => void;
  /** Called with each load that is given up, because too many others wait for the store. */
  readonly onLost: (load: RecordedChange) => void;
}

type Change = Pick<RecordedChange, 'outcome' | 'code' | 'before' | 'after'>;

/** A step of one file from what was last recorded of it to what this gateway has found. */
interface Load {
  readonly file: SettingsFile;
  /** At the start the same as `to`, since the gateway does not know what was before. */
  from: string;
  readonly to: string;
  /** What to record if no other gateway has; null: nothing. */
  readonly change: ((from: string) => Change) | null;
  readonly isStart: boolean;
  /** The plans that have come into force with this step; null if none have. */
  readonly plans: (Pick<PlansVersion, 'version' | 'sinceMs' | 'changes'> & { readonly text: string }) | null;
  /** Whether the store may have made this step although its answer was lost. */
  isTried: boolean;
  /** Under which number the store has it, and whether this gateway was the one to record it; null before. The entries may be missing yet. */
  recorded: { readonly number: number; readonly isOwn: boolean } | null;
}

/** A store that did not answer is asked again after this time. */
const ASK_AGAIN_MS = 5_000;
/**
 * How long a gateway that finds what it did not expect waits before it records: another one, which read the versions between,
 * may be about to.
 */
const OTHERS_WITHIN_MS = 5_000;
/** Loads that wait for the store. */
const MAX_WAITING = 100;
/** Faults and changes in one record, and the characters of each. */
const MAX_LINES = 20;
const MAX_LINE = 300;

/**
 * Records the versions of gateway.yaml and plans.yaml that gateways took or refused, also those that changed while no gateway
 * ran.
 *
 * Many gateways read the same change, and one entry is wanted. So the store keeps what was last recorded of each file, and only
 * the gateway that finds there what it had itself before adds an entry. A version that comes back later is another step and another
 * entry. While the store is away the steps wait. Then each is recorded unless another gateway has recorded the same since the last
 * step that this one knows of: gateways that were cut off together add each step once.
 */
export class LoadRecord {
  readonly #options: LoadRecordOptions;
  /** Of each file what this gateway has found last: the version in force, and behind ` !` the refused one. */
  readonly #found: Record<SettingsFile, string>;
  /** Of each file the number of the last step that this gateway knows to be recorded; null before the first. */
  readonly #numbers: Record<SettingsFile, number | null> = { settings: null, plans: null };
  readonly #waiting: Load[] = [];
  readonly #closing = new AbortController();
  #running: Promise<void> | null = null;
  /** The load about which `onRefusedByStore` was called. */
  #reported: Load | null = null;

  constructor(options: LoadRecordOptions) {
    this.#options = options;
    this.#found = { ...options.versions };
    for (const file of ['settings', 'plans'] as const) {
      const version = options.versions[file];
      const change = (found: string) => takenChange(versionIn(found), version, []);
      this.#enqueue({
        file,
        from: version,
        to: version,
        change,
        isStart: true,
        plans: this.#plansOf(file, version, null),
      });
    }
  }

  /** The files are in force. @param taken those that have changed */
  taken(taken: readonly TakenFile[], versions: Configuration['versions']): void {
    for (const file of ['settings', 'plans'] as const) {
      const one = taken.find((other) => other.file === file);
      const change = one === undefined ? null : takenChange(one.before, one.version, one.changes);
      this.#step(file, versions[file], change, one?.changes ?? null);
    }
  }

  /** Files have faults. @param versions those in force */
  refused(refused: readonly RefusedFile[], versions: Configuration['versions']): void {
    for (const file of ['settings', 'plans'] as const) {
      const one = refused.find((other) => other.file === file);
      const inForce = versions[file];
      if (one === undefined) this.#step(file, inForce, null);
      else this.#step(file, `${inForce} !${one.version || digestOf(one.faults)}`, refusedChange(inForce, one));
    }
  }

  /** Stops waiting for the store. The next start records the version that is in force by then, if the store does not have it. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  /** @param changes what the step has changed, if it is known */
  #step(file: SettingsFile, to: string, change: Change | null, changes: readonly string[] | null = null): void {
    const from = this.#found[file];
    if (from === to) return;
    this.#found[file] = to;
    const plans = change?.outcome === 'done' ? this.#plansOf(file, to, changes) : null;
    this.#enqueue({ file, from, to, change: change && (() => change), isStart: false, plans });
  }

  #plansOf(file: SettingsFile, version: string, changes: readonly string[] | null): Load['plans'] {
    const { plansText, nowMs } = this.#options;
    return file === 'plans'
      ? { version, text: plansText(), sinceMs: nowMs(), changes: changes && bounded(changes) }
      : null;
  }

  #enqueue(step: Omit<Load, 'isTried' | 'recorded'>): void {
    this.#waiting.push({ ...step, isTried: false, recorded: null });
    if (this.#waiting.length > MAX_WAITING) {
      // The first may be under way.
      const [lost] = this.#waiting.splice(1, 1) as [Load];
      if (lost.change !== null && !lost.isStart) this.#options.onLost(this.#recordOf(lost, lost.change(lost.from)));
    }
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    const { pause } = this.#options;
    const { signal } = this.#closing;
    for (let load = this.#waiting[0]; load !== undefined && !signal.aborted; load = this.#waiting[0]) {
      const failure = await this.#write(load).then(
        () => null,
        (error: unknown) => ({ error }),
      );
      if (failure === null) this.#waiting.shift();
      else {
        this.#reportOnce(load, failure.error);
        await pause(ASK_AGAIN_MS, signal);
      }
    }
    this.#running = null;
  }

  /** Reports a value of another program, which stays until an operator removes it. An outage ends by itself, and is reported elsewhere. */
  #reportOnce(load: Load, error: unknown): void {
    if (this.#reported === load || (error instanceof Failure && error.code === 'store_unavailable')) return;
    this.#reported = load;
    this.#options.onRefusedByStore(error);
  }

  /** Rejects as the store does, and is then called again. */
  async #write(load: Load): Promise<void> {
    load.recorded ??= await this.#record(load);
    if (load.recorded === null) return;
    const { file, to, change, isStart, recorded, plans } = load;
    const isKnown = isStart && versionIn(load.from) === to;
    if (recorded.isOwn && change !== null && !isKnown) {
      await this.#put(idOf([file, String(recorded.number), to]), this.#recordOf(load, change(load.from)));
    }
    if (plans !== null) await this.#addToHistory(recorded.number, plans);
    if (plans !== null && !isStart) this.#options.onPlansAdded();
  }

  /** Records the step unless another gateway has. Returns null if it is not to be recorded any more. */
  async #record(load: Load): Promise<Load['recorded']> {
    const { file, to, isStart } = load;
    const { store, pause } = this.#options;
    for (;;) {
      const mayBeDone = load.isTried;
      load.isTried = true;
      const since = isStart ? null : this.#numbers[file];
      const { found, number, known } = await store.exchangeLoad(file, { from: load.from, to, since });
      load.isTried = false;
      if (known !== null) {
        this.#numbers[file] = known;
        // The lost answer may have been about this step. The id is the same as that of another gateway's entry.
        return { number: known, isOwn: mayBeDone };
      }
      if (found === null || found === load.from || found === to) {
        this.#numbers[file] = number;
        return { number, isOwn: found !== to || load.from === to || mayBeDone };
      }
      if (!isStart) await pause(OTHERS_WITHIN_MS, this.#closing.signal);
      // What this gateway has found since follows.
      if (this.#closing.signal.aborted || this.#found[file] !== to) return null;
      load.from = found;
    }
  }

  /** Each gateway adds the version under the same number, so that it is there once, also if the first of them could not. */
  async #addToHistory(number: number, { text, ...version }: NonNullable<Load['plans']>): Promise<void> {
    const by = { kind: 'file', name: this.#options.names.plans } as const;
    await this.#options.history.add({ number, ...version, by, reason: null }, text);
  }

  /** Puts a record. Its id is the same for each try, so that it is there once. */
  async #put(id: string, change: RecordedChange): Promise<void> {
    const { store, keep } = this.#options;
    const isLasting = change.outcome === 'done';
    await store.put({ id, revision: 1, text: JSON.stringify(change) }, { number: null, keep: keep(), isLasting });
  }

  #recordOf({ file }: Load, change: Change): RecordedChange {
    const actor = { kind: 'file', name: this.#options.names[file] } as const;
    return { action: `${file}.load`, ...change, target: null, actor, requestId: null, clientAddress: null };
  }
}

function takenChange(before: string, version: string, changes: readonly string[]): Change {
  return { outcome: 'done', code: null, before: { version: before }, after: versionState(version, changes) };
}

function refusedChange(inForce: string, { version, faults, more = 0 }: RefusedFile): Change {
  const after = { ...(version === '' ? {} : { version }), faults: bounded(faults, more) };
  return { outcome: 'refused', code: 'bad_settings', before: { version: inForce }, after };
}

/** The version in force in what was recorded of a file. */
function versionIn(found: string): string {
  return found.split(' ')[0]!;
}

/** A version of a file for the record, with what it changes and why. */
export function versionState(version: string, changes: readonly string[], reason: string | null = null): object {
  const why = reason === null || reason === '' ? {} : { reason };
  return { version, ...(changes.length === 0 ? {} : { changes: bounded(changes) }), ...why };
}

/** The first of many lines, each cut to a bearable length, for what stores keep. @param more how many lines were left out before */
export function bounded(lines: readonly string[], more = 0): readonly string[] {
  const first = lines.slice(0, MAX_LINES).map((line) => line.slice(0, MAX_LINE));
  const left = lines.length - first.length + more;
  return left > 0 ? [...first, `and ${left} more`] : first;
}

/** A UUID (version 8) that is the same for the same texts. */
function idOf(texts: readonly string[]): string {
  const hex = hash('sha256', texts.join('\n'), 'hex');
  const [a, b, c, d, e] = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 15), hex.slice(15, 18), hex.slice(18, 30)];
  return `${a}-${b}-8${c}-a${d}-${e}`;
}

function digestOf(texts: readonly string[]): string {
  return hash('sha256', texts.join('\n'), 'hex').slice(0, 12);
}
