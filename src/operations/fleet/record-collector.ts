import { Failure } from '../../failure.ts';
import type { FleetRecord } from '../live/shapes.ts';
import { packedRecord } from './decided-parts.ts';
import type { Draft, FleetExchange, FleetJob, FleetOptions, OpenQuestion } from './fleet-exchange.ts';
import type { FleetMessage, FleetNews } from './fleet-store.ts';
import type { GatewayAnswer } from './messages.ts';
import type { Presence } from './presence.ts';

/** How long the other gateways have to leave their recent requests. */
const WITHIN_MS = 4_000;
/** Maximum bytes that one gateway leaves, and that all leave together. */
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_BYTES_OF_ALL = 32 * 1024 * 1024;
const MAX_PARTS = 10_000;

/** A question for the recent requests of the others. */
interface RecordQuestion {
  /** Maximum bytes that each may leave. */
  readonly maxBytes: number;
  /** When the others could read it first, by the store's clock; Infinity until then. */
  askedAtMs: number;
  readonly waitingFor: Set<string>;
  /** By gateway, how many parts it left, and whether they are all that it remembers. */
  readonly left: Map<string, { readonly parts: number; readonly isWhole: boolean }>;
}

/** The last decided requests of all gateways. They are too large for messages, so each gateway leaves them in parts. */
export class RecordCollector implements FleetJob {
  readonly #exchange: FleetExchange;
  readonly #presence: Presence;
  readonly #options: Pick<FleetOptions, 'local' | 'store' | 'onDefect'>;
  readonly #questions = new Map<string, RecordQuestion>();
  /** The record that this gateway leaves for others, after the one before. */
  #leaving: Promise<void> = Promise.resolve();
  /** Questions of other gateways that have been answered and are still open. */
  #answered: ReadonlySet<string> = new Set();

  constructor(
    exchange: FleetExchange,
    presence: Presence,
    options: Pick<FleetOptions, 'local' | 'store' | 'onDefect'>,
  ) {
    this.#exchange = exchange;
    this.#presence = presence;
    this.#options = options;
  }

  /**
   * Collects the last decided requests of all gateways. The others leave theirs in the store, which takes up to 4 s. While the
   * store is away, only those of this gateway are returned.
   */
  async collect(): Promise<FleetRecord> {
    await this.#presence.refresh();
    const waitingFor = this.#presence.others();
    const gateways = 1 + waitingFor.size;
    const maxBytes = Math.min(MAX_BYTES, Math.floor(MAX_BYTES_OF_ALL / gateways));
    const asked: RecordQuestion = { maxBytes, askedAtMs: Number.POSITIVE_INFINITY, waitingFor, left: new Map() };
    const question = this.#exchange.newQuestion();
    if (waitingFor.size > 0) {
      this.#questions.set(question, asked);
      await this.#exchange.untilAnswered(waitingFor, WITHIN_MS);
      this.#questions.delete(question);
    }
    const others: Uint8Array[] = [];
    let [given, isWhole] = [1, this.#presence.isComplete];
    for (const [gateway, { parts, isWhole: isAll }] of asked.left) {
      const fetched = await this.#fetchParts(partNameOf(question, gateway), parts, maxBytes).catch(() => null);
      others.push(...(fetched ?? []));
      if (fetched !== null) given++;
      isWhole &&= isAll && fetched !== null;
    }
    // Only now, so that requests that were under way when the others were asked have ended.
    const all = await this.#options.local.decidedColumns();
    const own = all.filter((columns) => columns !== null);
    isWhole &&= given === gateways && own.length === all.length;
    return { own, others, untilMs: asked.askedAtMs, gateways, given, isWhole };
  }

  /** @returns null if a part is missing, or the parts are larger than was asked for */
  async #fetchParts(name: string, count: number, maxBytes: number): Promise<readonly Uint8Array[] | null> {
    const store = await this.#options.store();
    const fetched: Uint8Array[] = [];
    let bytes = 0;
    for (let i = 0; i < count; i++) {
      const part = await store.takePart(`${name} ${i}`);
      if (part === null) return null;
      bytes += part.length;
      if (bytes > maxBytes) return null;
      fetched.push(part);
    }
    return fetched;
  }

  get isWaiting(): boolean {
    return this.#questions.size > 0;
  }

  get needsReports(): boolean {
    return this.isWaiting;
  }

  leave({ questions }: Draft): void {
    for (const [id, { maxBytes }] of this.#questions) questions.set(id, JSON.stringify({ record: maxBytes }));
  }

  onNews({ nowMs }: FleetNews, { questions }: FleetMessage): void {
    for (const [id, asked] of this.#questions) {
      if (questions.has(id)) asked.askedAtMs = Math.min(asked.askedAtMs, nowMs);
    }
  }

  onAnswer(answer: GatewayAnswer): void {
    if (answer.kind !== 'record') return;
    const asked = this.#questions.get(answer.question);
    if (asked?.waitingFor.delete(answer.gateway) !== true || answer.parts > MAX_PARTS) return;
    asked.left.set(answer.gateway, { parts: answer.parts, isWhole: answer.isWhole });
  }

  onQuestions(questions: readonly OpenQuestion[]): void {
    const answered = new Set<string>();
    for (const { id, requester, question } of questions) {
      if (question.kind !== 'record') continue;
      answered.add(id);
      if (!this.#answered.has(id)) this.#leaveLater(id, requester, Math.min(question.most, MAX_BYTES));
    }
    this.#answered = answered;
  }

  /** Leaves the recent requests for another gateway. The heartbeat continues meanwhile: several processes take a second. */
  #leaveLater(question: string, requester: string, maxBytes: number): void {
    this.#leaving = this.#leaving
      .then(() => this.#leaveRecord(question, requester, maxBytes))
      .catch((error) => {
        // Without an answer, the other gateway says that its record is not complete.
        if (!(error instanceof Failure)) this.#options.onDefect(error);
      });
  }

  /** Leaves the recent requests of this gateway for another one, and answers it. */
  async #leaveRecord(question: string, requester: string, maxBytes: number): Promise<void> {
    const store = await this.#options.store();
    const gateway = this.#exchange.id;
    const name = partNameOf(question, gateway);
    const all = await this.#options.local.decidedColumns();
    const processes = all.filter((columns) => columns !== null);
    let [bytes, parts, isWhole] = [0, 0, processes.length === all.length];
    for await (const part of packedRecord(processes)) {
      bytes += part.length;
      if (bytes > maxBytes || this.#exchange.isClosed) {
        isWhole = false;
        break;
      }
      await store.leavePart(`${name} ${parts}`, part);
      parts++;
    }
    this.#exchange.answer(requester, { record: question, gateway, parts, isWhole });
    void this.#exchange.heartbeatSoon();
  }
}

/** The name in the store of what a gateway leaves for a question. */
function partNameOf(question: string, gateway: string): string {
  return `${question} ${gateway}`;
}
