import type { KeptRefusal, LocalGateway } from '../live/shapes.ts';
import type { Draft, FleetExchange, FleetJob, OpenQuestion } from './exchange.ts';
import type { GatewayAnswer } from './messages.ts';
import type { Presence } from './presence.ts';

/** How long the other gateways have to find a refusal. */
const WITHIN_MS = 2_500;
/** Maximum refusals with one request id. */
const MAX_FOUND = 10;
/** Maximum request ids that are searched at a time. Each is a question in the store, which has room for few. */
const MAX_SEARCHES = 20;
/** Maximum questions of other gateways that are answered in one exchange. The next one answers the others. */
const MAX_ANSWERED = 50;

/** A refusal with the gateway that it happened on. */
export interface FoundRefusal extends KeptRefusal {
  readonly gateway: string;
  readonly gatewayHost: string;
}

interface Search {
  readonly requestId: string;
  readonly found: FoundRefusal[];
  /** The gateways that have not answered. */
  readonly waitingFor: Set<string>;
}

/** Finds why a request was refused, on whichever gateway that was. */
export class Explanations implements FleetJob {
  readonly #exchange: FleetExchange;
  readonly #presence: Presence;
  readonly #local: LocalGateway;
  /** By question. */
  readonly #searches = new Map<string, Search>();
  /** Request ids that are searched now. */
  #running = 0;
  /** Questions of other gateways that have been answered and are still open. */
  #answered: ReadonlySet<string> = new Set();

  constructor(exchange: FleetExchange, presence: Presence, local: LocalGateway) {
    this.#exchange = exchange;
    this.#presence = presence;
    this.#local = local;
  }

  /**
   * Finds the refusals with a request id, on all gateways, newest first. This takes up to 2.5 s, because the others read
   * questions once a second.
   * @returns null if too many are searched already
   */
  async explain(requestId: string): Promise<readonly FoundRefusal[] | null> {
    if (this.#running >= MAX_SEARCHES) return null;
    this.#running++;
    try {
      return await this.#search(requestId);
    } finally {
      this.#running--;
    }
  }

  async #search(requestId: string): Promise<readonly FoundRefusal[]> {
    const { facts, seen } = await this.#local.ask({ explain: [requestId], tails: [] });
    const found = seen.refusals.map((one) => ({ ...one, gateway: this.#exchange.id, gatewayHost: facts.host }));
    await this.#presence.refresh();
    const waitingFor = this.#presence.others();
    const question = this.#exchange.newQuestion();
    this.#searches.set(question, { requestId, found, waitingFor });
    await this.#exchange.untilAnswered(waitingFor, WITHIN_MS);
    this.#searches.delete(question);
    return found.sort((a, b) => (a.at < b.at ? 1 : -1)).slice(0, MAX_FOUND);
  }

  get isWaiting(): boolean {
    return this.#searches.size > 0;
  }

  get needsReports(): boolean {
    return this.isWaiting;
  }

  leave({ questions }: Draft): void {
    for (const [id, { requestId }] of this.#searches) questions.set(id, JSON.stringify({ explain: requestId }));
  }

  onAnswer(answer: GatewayAnswer): void {
    if (answer.kind !== 'explain') return;
    const { gateway, host } = answer;
    const search = this.#searches.get(answer.question);
    for (const one of answer.refusals) search?.found.push({ ...one, gateway, gatewayHost: host });
    search?.waitingFor.delete(gateway);
  }

  async onQuestions(questions: readonly OpenQuestion[]): Promise<void> {
    const open = questions.flatMap(({ id, requester, question }) =>
      question.kind === 'explain' ? [{ id, requester, requestId: question.requestId }] : [],
    );
    const asked = open.filter(({ id }) => !this.#answered.has(id)).slice(0, MAX_ANSWERED);
    const answered = new Set(open.map(({ id }) => id).filter((id) => this.#answered.has(id)));
    this.#answered = answered;
    if (asked.length === 0) return;
    const explain = asked.map(({ requestId }) => requestId);
    const { facts, seen } = await this.#local.ask({ explain, tails: [] });
    for (const { id, requester, requestId } of asked) {
      const refusals = seen.refusals.filter((one) => one.requestId === requestId).slice(0, MAX_FOUND);
      answered.add(id);
      const gateway = this.#exchange.id;
      this.#exchange.answer(requester, { explain: id, gateway, host: facts.host, refusals });
    }
  }
}
