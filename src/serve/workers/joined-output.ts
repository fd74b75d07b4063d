import type { Readable } from 'node:stream';
import type { Readiness } from '../../admin/listener.ts';
import { SharedBufferSocket } from '../../io/read-buffers.ts';
import type { JoinedMetrics, Snapshot } from '../../telemetry/joined-metrics.ts';
import { PieceWriter } from '../../telemetry/log-output.ts';
import type { TerminalLog } from '../../telemetry/terminal-log.ts';

// What the workers report, joined by the supervisor into what one gateway reports: their log lines, their readiness,
// their metrics.

/** Above this many bytes the supervisor stops reading from the workers, which then buffer lines and count dropped ones. */
const MAX_HELD_BYTES = 1024 * 1024;
/** The smallest size of a buffer. */
const INITIAL_BYTES = 128 * 1024;
/** How long the end of the process waits for a reader that does not read. */
const CLOSE_WITHIN_MS = 500;
const NEW_LINE = 10;
const EMPTY = Buffer.alloc(0);

/** Where the log lines of the workers and of the supervisor go. */
export interface WorkerLines {
  /** Copies the lines of a worker until its pipe ends. */
  follow(source: Readable): void;
  /** Writes one line of this process. */
  write(line: string): void;
  /** Writes the remaining lines of the workers, which have ended. */
  close(): Promise<void>;
}

/**
 * Joins the log lines of several processes into one file. Writes to a pipe are atomic only up to 4 KiB, and a gateway writes
 * more at a time, so only one process may write to standard output: each worker writes to its own pipe, and the supervisor
 * copies whole lines from there. If the reader of the log is too slow, the workers' pipes fill up. Each worker then
 * continues to serve, and drops and counts the lines for which it has no room.
 */
export class JoinedLines implements WorkerLines {
  readonly #writer: PieceWriter;
  readonly #sources = new Set<Readable>();
  #held = new GrowingBuffer();
  /** The lines that are being written, or were written last. */
  #writing = new GrowingBuffer();
  /** True once the reader of the log has gone. */
  #abandoned = false;
  #idle: (() => void) | null = null;

  /** @param fd an open file: 1 is standard output */
  constructor(fd: number) {
    this.#writer = new PieceWriter(fd, {
      onWritten: () => this.#wrote(),
      onGone: () => this.#abandon(),
    });
  }

  /** Copies the lines of a worker until its pipe ends. An unfinished last line is dropped. */
  follow(source: Readable): void {
    const rest = new GrowingBuffer();
    const take = (bytes: Buffer) => {
      const end = bytes.lastIndexOf(NEW_LINE) + 1;
      if (end > 0) {
        this.#hold(rest.take());
        this.#hold(bytes.subarray(0, end));
        this.#writeSome();
      }
      rest.add(bytes.subarray(end));
    };
    readAll(source, this.#sources, take);
    if (this.#abandoned) source.destroy();
    else if (this.#isFull) source.pause();
  }

  /** Writes one line of this process. */
  write(line: string): void {
    this.#hold(Buffer.from(line));
    this.#writeSome();
  }

  /** Writes the remaining lines of the workers, which have ended. Gives up after a while if the reader does not read. */
  async close(): Promise<void> {
    const late = setTimeout(() => this.#abandon(), CLOSE_WITHIN_MS);
    await Promise.all([...this.#sources].map((source) => new Promise((resolve) => source.once('close', resolve))));
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      if (!this.#writer.isBusy) resolve();
    });
    clearTimeout(late);
  }

  get #isFull(): boolean {
    return this.#held.length + this.#writing.length > MAX_HELD_BYTES;
  }

  /** @param bytes copied; the caller may reuse the memory */
  #hold(bytes: Buffer): void {
    if (this.#abandoned) return;
    this.#held.add(bytes);
    if (this.#isFull) for (const source of this.#sources) source.pause();
  }

  #writeSome(): void {
    if (this.#writer.isBusy || this.#abandoned) return;
    if (this.#held.length === 0) {
      this.#idle?.();
      return;
    }
    [this.#held, this.#writing] = [this.#writing, this.#held];
    this.#writer.write(this.#writing.bytes);
  }

  #wrote(): void {
    this.#writing.take();
    if (!this.#isFull) for (const source of this.#sources) source.resume();
    this.#writeSome();
  }

  /** Closes the workers' pipes too, so that each worker counts its lines as dropped. */
  #abandon(): void {
    this.#writer.abandon();
    this.#abandoned = true;
    this.#held.take();
    for (const source of this.#sources) source.destroy();
    this.#idle?.();
  }
}

/** Shows the log lines of several processes on one terminal, which never makes a worker wait. The caller closes the terminal. */
export class LinesToTerminal implements WorkerLines {
  readonly #terminal: Pick<TerminalLog, 'write'>;
  readonly #sources = new Set<Readable>();

  constructor(terminal: Pick<TerminalLog, 'write'>) {
    this.#terminal = terminal;
  }

  follow(source: Readable): void {
    const rest = new GrowingBuffer();
    const take = (bytes: Buffer) => {
      let from = 0;
      for (let end = bytes.indexOf(NEW_LINE) + 1; end > 0; end = bytes.indexOf(NEW_LINE, from) + 1) {
        rest.add(bytes.subarray(from, end));
        this.#terminal.write(rest.take().toString());
        from = end;
      }
      rest.add(bytes.subarray(from));
    };
    readAll(source, this.#sources, take);
  }

  write(line: string): void {
    this.#terminal.write(line);
  }

  async close(): Promise<void> {
    const late = setTimeout(() => {
      for (const source of this.#sources) source.destroy();
    }, CLOSE_WITHIN_MS);
    await Promise.all([...this.#sources].map((source) => new Promise((resolve) => source.once('close', resolve))));
    clearTimeout(late);
  }
}

/** Hands all bytes of a worker's pipe to `take`, and keeps the pipe in `sources` until it is closed. */
function readAll(source: Readable, sources: Set<Readable>, take: (bytes: Buffer) => void): void {
  sources.add(source);
  if (source instanceof SharedBufferSocket) source.taker = take;
  source.on('data', take);
  // The pipe is only read, so its end closes it.
  source.once('end', () => source.destroy());
  source.once('close', () => sources.delete(source));
  source.on('error', () => {});
}

/** A buffer that grows and is used again. New buffers for each write would burden the garbage collector. */
class GrowingBuffer {
  #memory: Buffer = EMPTY;
  length = 0;

  get bytes(): Buffer {
    return this.#memory.subarray(0, this.length);
  }

  /** @param bytes copied; the caller may reuse the memory */
  add(bytes: Buffer): void {
    const length = this.length + bytes.length;
    if (length > this.#memory.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(INITIAL_BYTES, 2 * length));
      this.#memory.copy(larger, 0, 0, this.length);
      this.#memory = larger;
    }
    bytes.copy(this.#memory, this.length);
    this.length = length;
  }

  /** Empties the buffer. @returns its bytes, which are valid until the next `add` */
  take(): Buffer {
    const { bytes } = this;
    this.length = 0;
    return bytes;
  }
}

/** The state of one worker in the body of `/readyz`. */
export interface WorkerReport {
  /** From 1. */
  readonly worker: number;
  /** Null while the worker is being replaced. */
  readonly pid: number | null;
  readonly state: 'serving' | 'starting' | 'replaced' | 'silent';
  readonly connections: number;
}

/** From the worst state to the best. */
const STORE_STATES: readonly Readiness['store'][] = ['never_reached', 'away', 'present', 'embedded'];

/**
 * The readiness of a gateway of several workers. It is ready if at least one worker is, because only workers that serve get
 * connections. Its store is in the worst state that a worker reports.
 * @param answers from the workers that serve and have answered
 */
export function joinReadiness(
  answers: readonly Readiness[],
  workers: readonly WorkerReport[],
  draining: boolean,
): Readiness & { readonly workers: readonly WorkerReport[] } {
  const badness = ({ store }: Readiness) => STORE_STATES.indexOf(store);
  const replicas = [...new Set(answers.flatMap((answer) => answer.replicas ?? []))];
  const faults = [...new Set(answers.flatMap((answer) => answer.faults ?? []))];
  const [worst] = answers.toSorted((a, b) => badness(a) - badness(b));
  return {
    store: 'never_reached',
    ...worst,
    ...(answers.some(({ settings }) => settings === 'refused') ? { settings: 'refused', faults } : {}),
    ...(answers.some(({ pepper }) => pepper === 'mismatch') ? { pepper: 'mismatch' } : {}),
    ...(answers.some(({ clock }) => clock === 'differs') ? { clock: 'differs' } : {}),
    ...(replicas.length > 0 ? { replicas } : {}),
    ...(answers.some(({ memory }) => memory === 'short') ? { memory: 'short' } : {}),
    ...(answers.some(({ certificate }) => certificate === 'missing') ? { certificate: 'missing' } : {}),
    ready: !draining && answers.some(({ ready }) => ready),
    draining,
    workers,
  };
}

/** A worker, as the collection of metrics sees it. */
export interface CountingWorker {
  /** From 1. */
  readonly worker: number;
  /** The metrics that the worker sent last. */
  readonly lastMetrics: Snapshot;
  /** @returns null if the worker does not answer within `withinMs`, or has ended */
  ask(question: 'metrics', withinMs: number): Promise<unknown>;
}

/**
 * Asks each worker for its metrics and joins them. For a worker that does not answer within `withinMs`, the metrics that it
 * sent last are used.
 * @param running the live set of running workers. A worker that ends must leave it in the same turn in which `metrics` keeps
 *   its last counts.
 */
export async function countsOf(running: ReadonlySet<CountingWorker>, metrics: JoinedMetrics, withinMs: number) {
  await Promise.all([...running].map((worker) => worker.ask('metrics', withinMs)));
  // Read `running` again: `metrics` has kept the counts of a worker that has ended since. Counting it twice would make the
  // sums rise and then fall.
  return metrics.text([...running].map(({ worker, lastMetrics }) => ({ worker, metrics: lastMetrics })));
}
