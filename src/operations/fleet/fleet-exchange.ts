import type { ExplanationStore } from '../explanation-store.ts';
import type { LiveQuestion, LocalAnswer, LocalGateway } from '../live/shapes.ts';
import { reportText } from './fleet-report.ts';
import type { FleetMessage, FleetNews, FleetStore } from './fleet-store.ts';
import { type GatewayAnswer, type GatewayQuestion, readAnswer, readQuestion } from './messages.ts';

export interface FleetOptions {
  /** Names this gateway among those on the store; it has no space. */
  readonly id: string;
  readonly local: LocalGateway;
  /** Opens the store, or returns the open one. */
  readonly store: () => Promise<FleetStore>;
  /** Opens what the store keeps of refusals and failures, or returns the open one. */
  readonly explanations: () => Promise<ExplanationStore>;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  readonly monotonicMs: () => number;
  /** Called with an error that should never happen. The heartbeat continues. */
  readonly onDefect: (error: unknown) => void;
}

/** What is left for the other gateways in one exchange, besides the report and the answers. */
export interface Draft {
  readonly questions: Map<string, string>;
  readonly ends: Map<string, number>;
}

/** A question of another gateway. */
export interface OpenQuestion {
  readonly id: string;
  /** The gateway that asks. */
  readonly requester: string;
  readonly question: GatewayQuestion;
}

/** One use of the exchange: what it leaves for the other gateways, and what it does with what they have left. */
export interface FleetJob {
  /** Whether it waits for other gateways, or they for it. The next heartbeat then comes sooner. */
  readonly isWaiting?: boolean;
  /** Whether it needs the reports of the other gateways now. */
  readonly needsReports?: boolean;
  /** The tails for which this gateway's processes are to collect requests. */
  readonly tailsToCollect?: LiveQuestion['tails'];
  /** Called at each heartbeat with the answer of this gateway's processes. */
  onLocal?(local: LocalAnswer): void;
  /** Adds its messages to the next exchange. */
  leave?(draft: Draft): void;
  /** Called after an exchange. @param sent what this gateway has left in it */
  onNews?(news: FleetNews, sent: FleetMessage): void;
  /** Called with an answer to a question of this gateway, perhaps one of another job. */
  onAnswer?(answer: GatewayAnswer): void;
  /** Called with all open questions of the other gateways, those that it has answered included. */
  onQuestions?(questions: readonly OpenQuestion[]): Promise<void> | void;
  /** Called when an exchange has failed. */
  onFailure?(): void;
}

/** How often a gateway exchanges messages with the others, and how often while a job waits. */
const HEARTBEAT_MS = 1_000;
const QUICK_HEARTBEAT_MS = 400;
/** How often a gateway reports while no one watches the gateways. While someone does, it reports at each heartbeat. */
const REPORT_EVERY_MS = 4_000;
/** After this time without an exchange the store counts as not reached. */
const REACHED_FOR_MS = 3_000;
/** A store that could not be opened is tried again after this time. */
const OPEN_AGAIN_MS = 5_000;

/**
 * Exchanges messages with the other gateways on the store. About once a second, at its heartbeat, a gateway leaves its report
 * and reads the questions of the others; it reads their reports only while a job needs them.
 */
export class FleetExchange {
  readonly id: string;
  readonly #options: FleetOptions;
  #jobs: readonly FleetJob[] = [];
  #outbox: { readonly to: string; readonly text: string }[] = [];
  #local: LocalAnswer | null = null;
  /** When an exchange succeeded last, and when this gateway reported last; monotonic milliseconds. */
  #exchangedAtMs = Number.NEGATIVE_INFINITY;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  #openAgainAtMs = Number.NEGATIVE_INFINITY;
  #isWatchedByOthers = false;
  #asked = 0;
  #timer: NodeJS.Timeout | null = null;
  #heartbeat: Promise<void> = Promise.resolve();
  #nextHeartbeat: Promise<void> | null = null;
  #isClosed = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.id = options.id;
  }

  /** Begins the heartbeat, for these jobs in this order. */
  start(jobs: readonly FleetJob[]): void {
    this.#jobs = jobs;
    this.#schedule(0);
  }

  /** The answer of this gateway's processes at the last heartbeat; null before the first. */
  get local(): LocalAnswer | null {
    return this.#local;
  }

  /** How long ago an exchange succeeded; infinite if the last one failed. */
  get sinceExchangeMs(): number {
    return this.#options.monotonicMs() - this.#exchangedAtMs;
  }

  get isReached(): boolean {
    return this.sinceExchangeMs < REACHED_FOR_MS;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  newQuestion(): string {
    return `${this.id} ${++this.#asked}`;
  }

  /** Leaves an answer for another gateway in the next exchange. */
  answer(requester: string, answer: object): void {
    this.#outbox.push({ to: requester, text: JSON.stringify(answer) });
  }

  /** Runs a heartbeat after the present one. All callers that wait for the next one share it. */
  heartbeatSoon(): Promise<void> {
    this.#nextHeartbeat ??= this.#heartbeat.then(async () => {
      this.#heartbeat = this.#nextHeartbeat!;
      this.#nextHeartbeat = null;
      if (!this.#isClosed) await this.#runHeartbeat().catch(this.#options.onDefect);
      this.#schedule(this.#jobs.some(({ isWaiting }) => isWaiting) ? QUICK_HEARTBEAT_MS : HEARTBEAT_MS);
    });
    return this.#nextHeartbeat;
  }

  /** Exchanges messages until the gateways in the set have answered, or the time is over. */
  async untilAnswered(waitingFor: ReadonlySet<string>, withinMs: number): Promise<void> {
    const untilMs = this.#options.monotonicMs() + withinMs;
    while (waitingFor.size > 0 && !this.#isClosed && this.#options.monotonicMs() < untilMs) {
      await this.heartbeatSoon();
      if (!this.isReached) break;
      if (waitingFor.size > 0) await new Promise((resolve) => setTimeout(resolve, QUICK_HEARTBEAT_MS / 2));
    }
  }

  /** Ends the heartbeat and removes the report of this gateway from the store. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#heartbeat;
    if (!this.isReached) return;
    const store = await this.#options.store().catch(() => null);
    await store?.leave(this.id).catch(() => {});
  }

  #schedule(afterMs: number): void {
    if (this.#isClosed) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.heartbeatSoon(), afterMs).unref();
  }

  async #runHeartbeat(): Promise<void> {
    const tails = this.#jobs.flatMap(({ tailsToCollect }) => tailsToCollect ?? []);
    const local = await this.#options.local.ask({ queries: [], tails });
    this.#local = local;
    for (const job of this.#jobs) job.onLocal?.(local);
    const store = await this.#openStore();
    if (store === null) return;
    // After a first exchange with questions about refusals, a second one carries the answers.
    if (await this.#exchange(store, local)) await this.#exchange(store, local);
  }

  async #openStore(): Promise<FleetStore | null> {
    if (this.#options.monotonicMs() < this.#openAgainAtMs) return null;
    return this.#options.store().catch(() => {
      this.#openAgainAtMs = this.#options.monotonicMs() + OPEN_AGAIN_MS;
      return null;
    });
  }

  /** @returns whether others wait for answers that are ready now */
  async #exchange(store: FleetStore, local: LocalAnswer): Promise<boolean> {
    const message = this.#message(local);
    this.#outbox = [];
    let news: FleetNews;
    try {
      news = await store.exchange(message);
    } catch {
      // The answers are lost. They were for gateways that wait for a second or two.
      this.#exchangedAtMs = Number.NEGATIVE_INFINITY;
      this.#isWatchedByOthers = false;
      for (const job of this.#jobs) job.onFailure?.();
      return false;
    }
    this.#exchangedAtMs = this.#options.monotonicMs();
    if (message.report !== null) this.#reportedAtMs = this.#exchangedAtMs;
    for (const job of this.#jobs) job.onNews?.(news, message);
    for (const text of news.answers) this.#readAnswer(text);
    await this.#readQuestions(news.questions);
    return this.#outbox.length > 0;
  }

  #message(local: LocalAnswer): FleetMessage {
    const readsReports = this.#jobs.some(({ needsReports }) => needsReports);
    const isReportDue = this.#options.monotonicMs() - this.#reportedAtMs >= REPORT_EVERY_MS;
    const reports = this.#isWatchedByOthers || readsReports || isReportDue;
    const draft: Draft = { questions: new Map(), ends: new Map() };
    for (const job of this.#jobs) job.leave?.(draft);
    // Asks the others to report at each heartbeat.
    if (readsReports) draft.questions.set(`${this.id} watch`, '{}');
    const report = reports ? reportText(local, this.#options.wallMs()) : null;
    return { id: this.id, report, readsReports, answers: this.#outbox, ...draft };
  }

  /** Passes an answer of another gateway to the jobs. One that cannot be read is left out. */
  #readAnswer(text: string): void {
    const answer = readAnswer(text);
    if (answer !== null) for (const job of this.#jobs) job.onAnswer?.(answer);
  }

  async #readQuestions(questions: FleetNews['questions']): Promise<void> {
    const open = [...questions].flatMap(([id, text]): OpenQuestion[] => {
      const requester = id.split(' ')[0]!;
      return requester === this.id ? [] : [{ id, requester, question: readQuestion(text) }];
    });
    this.#isWatchedByOthers = open.some(({ question }) => question.kind === 'watch');
    await Promise.all(this.#jobs.map((job) => job.onQuestions?.(open)));
  }
}
