import { Failure } from '../../failure.ts';
import { packedRecord } from './decided-parts.ts';
import { ENDS_KEPT_MS, type FleetNews, type FleetStore } from './fleet-store.ts';
import { type OtherGateway, readAnswer, readQuestion, readReport } from './messages.ts';
import { packedCallers, refusedCallersOf } from './refused-callers.ts';
import {
  type DecidedColumns,
  type FleetRecord,
  type GatewayFacts,
  type GatewayReport,
  type KeptRefusal,
  type LiveQuestion,
  type NearCandidate,
  type RefusedCallers,
  type RequestsSeen,
  STEP_MS,
  type TailBatch,
  type TailedRequest,
  type TailFilter,
} from './shapes.ts';
import { packed, sumOf, type TrafficReport, trafficReport } from './traffic.ts';

/** What all processes of a gateway together answer. */
export interface LocalAnswer {
  readonly facts: GatewayFacts;
  readonly seen: RequestsSeen;
}

/** The processes of one gateway, as one. */
export interface LocalGateway {
  /** Never rejects. A process that does not answer in time is left out. */
  ask(question: LiveQuestion): Promise<LocalAnswer>;
  /** The last decided requests, one record for each process; null for a process that does not answer in time. */
  decidedColumns(): Promise<readonly (DecidedColumns | null)[]>;
}

export interface FleetOptions {
  /** Names this gateway among those on the store; it has no space. */
  readonly id: string;
  readonly local: LocalGateway;
  /** Opens the store, or returns the open one. */
  readonly store: () => Promise<FleetStore>;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  readonly monotonicMs: () => number;
  /** Called with an error that should never happen. The beats go on. */
  readonly onDefect: (error: unknown) => void;
}

/** A refusal with the gateway that it happened on. */
export interface FoundRefusal extends KeptRefusal {
  readonly gateway: string;
  readonly gatewayHost: string;
}

/** Requests that a tail has seen on one gateway. */
export interface GatewayBatch {
  readonly gateway: string;
  readonly requests: readonly TailedRequest[];
  readonly skipped: number;
}

/** How often a gateway exchanges messages with the others, and how often while something is waited for. */
const BEAT_MS = 1_000;
const QUICK_BEAT_MS = 400;
/** How often a gateway reports while nobody looks at the gateways. While somebody does, it reports at each beat. */
const REPORT_EVERY_MS = 4_000;
/** For so long after a look at the gateways, the others report at each beat. */
const WATCHED_FOR_MS = 5_000;
/** What was read from the others is used again for so long. */
const FRESH_MS = 900;
const COMPLETE_FOR_MS = 3_000;
/** How long the other gateways have to find a refusal. */
const EXPLAIN_WITHIN_MS = 2_500;
/** A store that could not be opened is tried again after this time. */
const OPEN_AGAIN_MS = 5_000;
/** How long the other gateways have to leave their recent requests. */
const RECORD_WITHIN_MS = 4_000;
/** The most bytes of recent requests that one gateway leaves, and that all leave together. */
const LARGEST_RECORD = 4 * 1024 * 1024;
const ALL_RECORDS = 32 * 1024 * 1024;
const LARGEST_REPORT = 8 * 1024;
const MOST_EXPLAINED = 10;
/** Most request ids that are looked for at a time. Each is a question in the store, which has room for few. */
const MOST_EXPLANATIONS = 20;
/** Most questions of other gateways that one beat answers. The rest is answered by the next. */
const MOST_ANSWERED = 50;
const MOST_NEAR = 1_000;
/** Callers with refusals in a report. */
const MOST_REFUSED = 20;
const MOST_PARTS = 10_000;

interface Explanation {
  readonly requestId: string;
  readonly found: FoundRefusal[];
  /** The gateways that have not answered. */
  readonly waitingFor: Set<string>;
}

/** A question for the recent requests of the others. */
interface RecordQuestion {
  /** The most bytes that each may leave. */
  readonly most: number;
  /** When the others could read it first, by the store's clock; Infinity until then. */
  askedAtMs: number;
  readonly waitingFor: Set<string>;
  /** By gateway, how many parts it left, and whether they are all that it remembers. */
  readonly left: Map<string, { readonly parts: number; readonly isWhole: boolean }>;
}

/**
 * The gateways on one store, seen from one of them. About once a second a gateway leaves its report in the store and reads
 * the questions of the others; it reads their reports only while somebody looks. While the store is away, everything
 * about this gateway is known as before.
 */
export class Fleet {
  readonly id: string;
  readonly #options: FleetOptions;
  readonly #tails = new Map<string, { readonly filter: TailFilter; readonly take: (batch: GatewayBatch) => void }>();
  /** Tails of other gateways, by their question. */
  #othersTails = new Map<string, { readonly filter: TailFilter; readonly asker: string }>();
  readonly #explanations = new Map<string, Explanation>();
  readonly #records = new Map<string, RecordQuestion>();
  /** The record that this gateway leaves for others, after the one before. */
  #leaving: Promise<void> = Promise.resolve();
  /** Questions of others about a refusal or for a record that have been answered and are still open. */
  #answered = new Set<string>();
  #outbox: { readonly to: string; readonly text: string }[] = [];
  #local: LocalAnswer | null = null;
  #others: readonly OtherGateway[] = [];
  /** When the reports of the others were read last, and when an exchange succeeded last; monotonic milliseconds. */
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  #watchedUntilMs = Number.NEGATIVE_INFINITY;
  #openAgainAtMs = Number.NEGATIVE_INFINITY;
  #isWatchedByOthers = false;
  /** Request ids that are looked for now. */
  #explaining = 0;
  /** By how many buckets the store's clock is ahead of this gateway's. */
  #shift = 0;
  #asked = 0;
  readonly #ends = new Map<string, number>();
  /** The ends as the store had them last, on its clock. */
  #endsInStore: ReadonlyMap<string, number> = new Map();
  /** Ends of sessions that the store may not have. */
  readonly #newEnds = new Map<string, number>();
  readonly #onEnds = new Set<(name: string, beforeMs: number) => void>();
  readonly #onStore = new Set<(state: 'away' | 'present') => void>();
  #timer: NodeJS.Timeout | null = null;
  #beating: Promise<void> = Promise.resolve();
  #nextBeat: Promise<void> | null = null;
  #isClosed = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.id = options.id;
    this.#schedule(0);
  }

  /** The gateways on the store; only this one while the store is away. */
  async gateways(): Promise<{ readonly complete: boolean; readonly gateways: readonly GatewayReport[] }> {
    await this.#look();
    const seenAt = new Date(this.#options.wallMs()).toISOString();
    const own = { id: this.id, self: true, seenAt, ...this.#local!.facts };
    return { complete: this.#isComplete, gateways: [own, ...this.#present.map(({ report }) => report)] };
  }

  /** The requests of the last 10 minutes on all gateways. */
  async traffic(): Promise<TrafficReport> {
    await this.#look();
    const { lastStep, counts } = this.#local!.seen.traffic;
    const own = { lastStep: lastStep + this.#shift, counts };
    const others = this.#present.flatMap(({ traffic }) => traffic ?? []);
    return trafficReport(sumOf([own, ...others], own.lastStep), this.#isComplete);
  }

  /** Consumers near a limit on any gateway, each once, those with the smallest share left first. */
  async near(): Promise<readonly NearCandidate[]> {
    await this.#look();
    const all = new Map<string, NearCandidate>();
    for (const one of [...this.#local!.seen.near, ...this.#present.flatMap(({ near }) => near)]) {
      const known = all.get(one.id);
      if (known === undefined || known.atMs < one.atMs) all.set(one.id, one);
    }
    return [...all.values()].sort((a, b) => a.share - b.share).slice(0, MOST_NEAR);
  }

  /** Those that were refused most in the last 10 minutes on all gateways. Each gateway names those that it refused most. */
  async mostRefused(): Promise<RefusedCallers> {
    await this.#look();
    return refusedCallersOf([this.#local!.seen.refused, ...this.#present.map(({ refused }) => refused)]);
  }

  /**
   * Finds the refusals with a request id, on all gateways, newest first. Takes up to 2.5 s, because the others look for
   * questions once a second.
   * @returns null if too many are looked for already
   */
  async explain(requestId: string): Promise<readonly FoundRefusal[] | null> {
    if (this.#explaining >= MOST_EXPLANATIONS) return null;
    this.#explaining++;
    try {
      return await this.#explain(requestId);
    } finally {
      this.#explaining--;
    }
  }

  async #explain(requestId: string): Promise<readonly FoundRefusal[]> {
    const { facts, seen } = await this.#options.local.ask({ explain: [requestId], tails: [] });
    const found = seen.refusals.map((one) => ({ ...one, gateway: this.id, gatewayHost: facts.host }));
    await this.#look();
    const waitingFor = new Set(this.#present.map(({ report }) => report.id));
    const explanation: Explanation = { requestId, found, waitingFor };
    const question = this.#newQuestion();
    this.#explanations.set(question, explanation);
    await this.#untilAnswered(waitingFor, EXPLAIN_WITHIN_MS);
    this.#explanations.delete(question);
    return found.sort((a, b) => (a.at < b.at ? 1 : -1)).slice(0, MOST_EXPLAINED);
  }

  /**
   * Shows the requests on all gateways that match a filter, from now on. The other gateways begin within a second.
   * @param take called with the requests of one gateway at a time
   * @returns a function that ends it
   */
  tail(filter: TailFilter, take: (batch: GatewayBatch) => void): () => void {
    const id = this.#newQuestion();
    this.#tails.set(id, { filter, take });
    void this.#beatSoon();
    return () => this.#tails.delete(id);
  }

  /**
   * The last decided requests of all gateways. The others leave theirs in the store, which takes up to 4 s. While the store is
   * away it is this gateway alone.
   */
  async record(): Promise<FleetRecord> {
    await this.#look();
    const waitingFor = new Set(this.#present.map(({ report }) => report.id));
    const gateways = 1 + waitingFor.size;
    const most = Math.min(LARGEST_RECORD, Math.floor(ALL_RECORDS / gateways));
    const asked: RecordQuestion = { most, askedAtMs: Number.POSITIVE_INFINITY, waitingFor, left: new Map() };
    const question = this.#newQuestion();
    if (waitingFor.size > 0) {
      this.#records.set(question, asked);
      await this.#untilAnswered(waitingFor, RECORD_WITHIN_MS);
      this.#records.delete(question);
    }
    const others: Uint8Array[] = [];
    let [given, isWhole] = [1, this.#isComplete];
    for (const [gateway, { parts, isWhole: isAll }] of asked.left) {
      const taken = await this.#takeParts(partNameOf(question, gateway), parts, most).catch(() => null);
      others.push(...(taken ?? []));
      if (taken !== null) given++;
      isWhole &&= isAll && taken !== null;
    }
    // Only now, so that requests that were under way when the others were asked have ended.
    const all = await this.#options.local.decidedColumns();
    const own = all.filter((columns) => columns !== null);
    isWhole &&= given === gateways && own.length === all.length;
    return { own, others, untilMs: asked.askedAtMs, gateways, given, isWhole };
  }

  /** @returns null if a part is missing, or the parts are larger than was asked for */
  async #takeParts(name: string, count: number, most: number): Promise<readonly Uint8Array[] | null> {
    const store = await this.#options.store();
    const taken: Uint8Array[] = [];
    let bytes = 0;
    for (let i = 0; i < count; i++) {
      const part = await store.takePart(`${name} ${i}`);
      if (part === null) return null;
      bytes += part.length;
      if (bytes > most) return null;
      taken.push(part);
    }
    return taken;
  }

  /** Leaves the recent requests of this gateway for another one, and tells it. */
  async #leaveRecord(question: string, asker: string, most: number): Promise<void> {
    const store = await this.#options.store();
    const name = partNameOf(question, this.id);
    const all = await this.#options.local.decidedColumns();
    const processes = all.filter((columns) => columns !== null);
    let [bytes, parts, isWhole] = [0, 0, processes.length === all.length];
    for await (const part of packedRecord(processes)) {
      bytes += part.length;
      if (bytes > most || this.#isClosed) {
        isWhole = false;
        break;
      }
      await store.leavePart(`${name} ${parts}`, part);
      parts++;
    }
    const text = JSON.stringify({ record: question, gateway: this.id, parts, isWhole });
    this.#outbox.push({ to: asker, text });
    void this.#beatSoon();
  }

  /** Exchanges messages until the gateways in the set have answered, or the time is over. */
  async #untilAnswered(waitingFor: ReadonlySet<string>, withinMs: number): Promise<void> {
    const untilMs = this.#options.monotonicMs() + withinMs;
    while (waitingFor.size > 0 && !this.#isClosed && this.#options.monotonicMs() < untilMs) {
      await this.#beatSoon();
      if (!this.#isReached) break;
      if (waitingFor.size > 0) await new Promise((resolve) => setTimeout(resolve, QUICK_BEAT_MS / 2));
    }
  }

  /**
   * Ends the sessions of a name on all gateways that began before a moment. The others hear of it within a second, or once
   * the store is back, and within 8 hours.
   * @param beforeMs Unix milliseconds
   */
  endSessionsOf(name: string, beforeMs: number): void {
    if (!this.#noteEnd(name, beforeMs)) return;
    this.#newEnds.set(name, beforeMs);
    void this.#beatSoon();
  }

  /** Before which moment the sessions of a name have ended, Unix milliseconds; 0 if none have. */
  sessionsEndedBefore(name: string): number {
    return this.#ends.get(name) ?? 0;
  }

  /** @param listener called when sessions of a name have ended, on this or another gateway */
  onSessionsEnded(listener: (name: string, beforeMs: number) => void): () => void {
    this.#onEnds.add(listener);
    return () => this.#onEnds.delete(listener);
  }

  /** Whether the store answers, as of the last beat. */
  get storeState(): 'away' | 'present' {
    const store = this.#local?.facts.store ?? 'present';
    return store === 'away' || store === 'never_reached' ? 'away' : 'present';
  }

  onStoreChange(listener: (state: 'away' | 'present') => void): () => void {
    this.#onStore.add(listener);
    return () => this.#onStore.delete(listener);
  }

  /** Ends the beats and removes the report of this gateway from the store. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#beating;
    if (!this.#isReached) return;
    const store = await this.#options.store().catch(() => null);
    await store?.leave(this.id).catch(() => {});
  }

  get #isReached(): boolean {
    return this.#options.monotonicMs() - this.#readAtMs < COMPLETE_FOR_MS;
  }

  get #isComplete(): boolean {
    return this.#isReached && this.storeState === 'present';
  }

  /** The other gateways; none while the store is away. */
  get #present(): readonly OtherGateway[] {
    return this.#isReached ? this.#others : [];
  }

  /** Makes sure that what is known of all gateways is of this second. */
  async #look(): Promise<void> {
    const nowMs = this.#options.monotonicMs();
    const wasWatched = nowMs < this.#watchedUntilMs;
    this.#watchedUntilMs = nowMs + WATCHED_FOR_MS;
    if (this.#local === null || !wasWatched || nowMs - this.#readAtMs > FRESH_MS) await this.#beatSoon();
  }

  #newQuestion(): string {
    return `${this.id} ${++this.#asked}`;
  }

  #schedule(afterMs: number): void {
    if (this.#isClosed) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#beatSoon(), afterMs).unref();
  }

  /** Runs a beat after the present one, together with all others who want one. */
  #beatSoon(): Promise<void> {
    this.#nextBeat ??= this.#beating.then(async () => {
      this.#beating = this.#nextBeat!;
      this.#nextBeat = null;
      if (!this.#isClosed) await this.#beat().catch(this.#options.onDefect);
      const isQuick = this.#tails.size + this.#othersTails.size + this.#explanations.size + this.#records.size > 0;
      this.#schedule(isQuick ? QUICK_BEAT_MS : BEAT_MS);
    });
    return this.#nextBeat;
  }

  async #beat(): Promise<void> {
    const before = this.storeState;
    const tails = [...this.#tails, ...this.#othersTails].map(([id, { filter }]) => ({ id, filter }));
    const local = await this.#options.local.ask({ explain: [], tails });
    this.#local = local;
    if (this.storeState !== before) for (const tell of this.#onStore) tell(this.storeState);
    for (const batch of local.seen.tails) this.#pass(batch);
    const store = await this.#openStore();
    if (store === null) return;
    // After a first exchange with questions about refusals, a second one carries the answers.
    if (await this.#exchange(store, local)) await this.#exchange(store, local);
  }

  async #openStore(): Promise<FleetStore | null> {
    const nowMs = this.#options.monotonicMs();
    if (nowMs < this.#openAgainAtMs) return null;
    return this.#options.store().catch(() => {
      this.#openAgainAtMs = this.#options.monotonicMs() + OPEN_AGAIN_MS;
      return null;
    });
  }

  /** Passes requests that a tail has seen here to its watcher, or to the gateway of its watcher. */
  #pass({ id, requests, skipped }: TailBatch): void {
    if (requests.length === 0 && skipped === 0) return;
    this.#tails.get(id)?.take({ gateway: this.id, requests, skipped });
    const asker = this.#othersTails.get(id)?.asker;
    const text = () => JSON.stringify({ tail: id, gateway: this.id, requests, skipped });
    if (asker !== undefined) this.#outbox.push({ to: asker, text: text() });
  }

  /** @returns whether others wait for answers that are ready now */
  async #exchange(store: FleetStore, local: LocalAnswer): Promise<boolean> {
    const { wallMs, monotonicMs } = this.#options;
    const startedAtMs = monotonicMs();
    const isWatched = startedAtMs < this.#watchedUntilMs || this.#explanations.size + this.#records.size > 0;
    const reports = this.#isWatchedByOthers || isWatched || startedAtMs - this.#reportedAtMs >= REPORT_EVERY_MS;
    const questions = new Map<string, string>();
    for (const [id, { filter }] of this.#tails) questions.set(id, JSON.stringify({ tail: filter }));
    for (const [id, { requestId }] of this.#explanations) questions.set(id, JSON.stringify({ explain: requestId }));
    for (const [id, { most }] of this.#records) questions.set(id, JSON.stringify({ record: most }));
    if (isWatched) questions.set(`${this.id} watch`, '{}');
    const [answers, told] = [this.#outbox, new Map(this.#newEnds)];
    this.#outbox = [];
    const agoOf = (beforeMs: number) => Math.max(Math.round(wallMs() - beforeMs), 0);
    const ends = new Map([...told].map(([name, beforeMs]) => [name, agoOf(beforeMs)]));
    let news: FleetNews;
    try {
      const report = reports ? reportText(local, wallMs()) : null;
      news = await store.exchange({ id: this.id, report, readsReports: isWatched, questions, answers, ends });
    } catch {
      // The answers are lost. They were for gateways that wait for a second or two.
      this.#readAtMs = Number.NEGATIVE_INFINITY;
      this.#isWatchedByOthers = false;
      this.#othersTails.clear();
      return false;
    }
    this.#readAtMs = monotonicMs();
    if (reports) this.#reportedAtMs = this.#readAtMs;
    for (const [id, asked] of this.#records)
      if (questions.has(id)) asked.askedAtMs = Math.min(asked.askedAtMs, news.nowMs);
    this.#shift = Math.round((news.nowMs - wallMs()) / STEP_MS);
    if (isWatched) this.#others = news.reports.flatMap((one) => (one.id === this.id ? [] : (readReport(one) ?? [])));
    for (const [name, beforeMs] of told) if (this.#newEnds.get(name) === beforeMs) this.#newEnds.delete(name);
    this.#takeEnds(news, ends);
    for (const text of news.answers) this.#take(text);
    await this.#answer(news.questions);
    return this.#outbox.length > 0;
  }

  /**
   * Takes the ends that are new in the store, translated to this gateway's clock.
   * @param told what this exchange has told the store. Read back, it would end sessions that have begun since.
   */
  #takeEnds({ nowMs, ends }: FleetNews, told: ReadonlyMap<string, number>): void {
    const aheadMs = nowMs - this.#options.wallMs();
    for (const [name, endedMs] of ends) {
      const isKnown = endedMs <= (this.#endsInStore.get(name) ?? Number.NEGATIVE_INFINITY);
      const isOwn = endedMs <= nowMs - (told.get(name) ?? Number.POSITIVE_INFINITY);
      if (!isKnown && !isOwn) this.#noteEnd(name, endedMs - aheadMs);
    }
    this.#endsInStore = ends;
  }

  #noteEnd(name: string, beforeMs: number): boolean {
    if (this.sessionsEndedBefore(name) >= beforeMs) return false;
    for (const [other, endedMs] of this.#ends) {
      if (this.#options.wallMs() - endedMs > ENDS_KEPT_MS) this.#ends.delete(other);
    }
    this.#ends.set(name, beforeMs);
    for (const tell of this.#onEnds) tell(name, beforeMs);
    return true;
  }

  /** Takes an answer of another gateway. What cannot be read is left out. */
  #take(text: string): void {
    const answer = readAnswer(text);
    if (answer === null) return;
    const { question, gateway } = answer;
    if (answer.kind === 'tail') {
      const { requests, skipped } = answer;
      this.#tails.get(question)?.take({ gateway, requests, skipped });
      return;
    }
    if (answer.kind === 'record') {
      const asked = this.#records.get(question);
      if (asked?.waitingFor.delete(gateway) !== true || answer.parts > MOST_PARTS) return;
      asked.left.set(gateway, { parts: answer.parts, isWhole: answer.isWhole });
      return;
    }
    const explanation = this.#explanations.get(question);
    for (const one of answer.refusals) explanation?.found.push({ ...one, gateway, gatewayHost: answer.host });
    explanation?.waitingFor.delete(gateway);
  }

  /** Leaves the recent requests for another gateway. Beats go on meanwhile: those of several processes take a second. */
  #answerWithRecord(id: string, asker: string, most: number): void {
    this.#answered.add(id);
    this.#leaving = this.#leaving
      .then(() => this.#leaveRecord(id, asker, most))
      .catch((error) => {
        // Without an answer, the other gateway says that its record is not complete.
        if (!(error instanceof Failure)) this.#options.onDefect(error);
      });
  }

  /** Takes up the tails of other gateways and answers their other questions. */
  async #answer(questions: FleetNews['questions']): Promise<void> {
    const tails = new Map<string, { readonly filter: TailFilter; readonly asker: string }>();
    const asked: { readonly id: string; readonly asker: string; readonly requestId: string }[] = [];
    this.#isWatchedByOthers = false;
    for (const [id, text] of questions) {
      const asker = id.split(' ')[0]!;
      if (asker === this.id) continue;
      const question = readQuestion(text);
      if (question.kind === 'tail') tails.set(id, { filter: question.filter, asker });
      else if (question.kind === 'watch') this.#isWatchedByOthers = true;
      else if (this.#answered.has(id)) continue;
      else if (question.kind === 'record') this.#answerWithRecord(id, asker, Math.min(question.most, LARGEST_RECORD));
      else if (asked.length < MOST_ANSWERED) asked.push({ id, asker, requestId: question.requestId });
    }
    this.#othersTails = tails;
    this.#answered = new Set([...this.#answered].filter((id) => questions.has(id)));
    if (asked.length === 0) return;
    const { facts, seen } = await this.#options.local.ask({
      explain: asked.map(({ requestId }) => requestId),
      tails: [],
    });
    for (const { id, asker, requestId } of asked) {
      const refusals = seen.refusals.filter((one) => one.requestId === requestId).slice(0, MOST_EXPLAINED);
      this.#answered.add(id);
      const text = JSON.stringify({ explain: id, gateway: this.id, host: facts.host, refusals });
      this.#outbox.push({ to: asker, text });
    }
  }
}

/** The name in the store of what a gateway leaves for a question. */
function partNameOf(question: string, gateway: string): string {
  return `${question} ${gateway}`;
}

/** The report as text of at most 8 KiB. What is least needed is left out first. */
function reportText({ facts, seen }: LocalAnswer, clock: number): string {
  const near = (most: number) =>
    seen.near.slice(0, most).map(({ id, plan, window, cost, share, atMs }) => [id, plan, window, cost, share, atMs]);
  const refused = (most: number) => packedCallers(seen.refused, most);
  const outage = facts.outage === null ? null : { ...facts.outage, reason: facts.outage.reason.slice(0, 200) };
  const whole = {
    clock,
    facts: { ...facts, outage },
    traffic: packed(seen.traffic),
    near: near(50),
    refused: refused(MOST_REFUSED),
  };
  const shorter = [
    () => whole,
    () => ({ ...whole, near: near(10) }),
    () => ({
      ...whole,
      near: [],
      refused: refused(10),
      facts: { ...whole.facts, upstreams: withoutUsable(facts.upstreams) },
    }),
    () => ({ ...whole, near: [], refused: refused(10), facts: { ...whole.facts, upstreams: [] } }),
  ];
  for (const make of shorter) {
    const text = JSON.stringify(make());
    if (Buffer.byteLength(text) <= LARGEST_REPORT) return text;
  }
  return JSON.stringify({ clock, facts: { ...facts, outage, faults: [], upstreams: [] }, traffic: [0, []], near: [] });
}

function withoutUsable(upstreams: GatewayFacts['upstreams']): GatewayFacts['upstreams'] {
  return upstreams.map((one) => ({ ...one, targets: one.targets.filter(({ usable }) => !usable) }));
}
