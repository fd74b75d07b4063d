import { type KeptRefusal, storedRefusal } from '../../model/refusal.ts';
import { MAX_EXPLANATION } from '../explanation-store.ts';
import { joinedFound } from '../live/found.ts';
import type { Finding, RefusalQuery } from '../live/shapes.ts';
import type { Draft, FleetExchange, FleetJob, FleetOptions, OpenQuestion } from './fleet-exchange.ts';
import type { GatewayAnswer } from './messages.ts';
import type { Presence } from './presence.ts';

/** How long the other gateways have to answer. */
const WITHIN_MS = 2_500;
/** Maximum searches at a time. Each is a question in the store, which has room for few. */
const MAX_SEARCHES = 20;
/** Maximum questions of other gateways that are answered in one exchange. The next one answers the others. */
const MAX_ANSWERED = 50;

/** A refusal with the gateway that it happened on. */
export interface FoundRefusal extends KeptRefusal {
  readonly gateway: string;
  readonly gatewayHost: string;
}

interface Search {
  readonly query: RefusalQuery;
  readonly found: Finding<FoundRefusal>[];
  /** The gateways that have not answered. */
  readonly waitingFor: Set<string>;
}

/** Finds why a request was refused and what was refused to a caller, on whichever gateway that was. */
export class Explanations implements FleetJob {
  readonly #exchange: FleetExchange;
  readonly #presence: Presence;
  readonly #options: Pick<FleetOptions, 'local' | 'explanations' | 'wallMs'>;
  /** By question. */
  readonly #searches = new Map<string, Search>();
  /** Searches that run now. */
  #running = 0;
  /** Questions of other gateways that have been answered and are still open. */
  #answered: ReadonlySet<string> = new Set();

  constructor(
    exchange: FleetExchange,
    presence: Presence,
    options: Pick<FleetOptions, 'local' | 'explanations' | 'wallMs'>,
  ) {
    this.#exchange = exchange;
    this.#presence = presence;
    this.#options = options;
  }

  /**
   * Finds what all gateways remember. This takes up to 2.5 s, because the others read questions once a second.
   * @returns null if too many searches run already
   */
  async find(query: RefusalQuery): Promise<Finding<FoundRefusal> | null> {
    if (this.#running >= MAX_SEARCHES) return null;
    this.#running++;
    try {
      return await this.#search(query);
    } finally {
      this.#running--;
    }
  }

  /**
   * Reads what the store keeps of a request id, which gateways that have ended knew, newest first.
   * @returns null if the store cannot be read
   */
  async stored(requestId: string): Promise<readonly FoundRefusal[] | null> {
    try {
      const texts = await (await this.#options.explanations()).of(requestId, this.#options.wallMs());
      return explanationsIn(texts);
    } catch {
      return null;
    }
  }

  async #search(query: RefusalQuery): Promise<Finding<FoundRefusal>> {
    const { facts, seen } = await this.#options.local.ask({ queries: [query], tails: [] });
    const found = [foundOn(this.#exchange.id, facts.host, seen.found[0]!)];
    await this.#presence.refresh();
    const waitingFor = this.#presence.others();
    const question = this.#exchange.newQuestion();
    this.#searches.set(question, { query, found, waitingFor });
    await this.#exchange.untilAnswered(waitingFor, WITHIN_MS);
    this.#searches.delete(question);
    return joinedFound(found);
  }

  get isWaiting(): boolean {
    return this.#searches.size > 0;
  }

  get needsReports(): boolean {
    return this.isWaiting;
  }

  leave({ questions }: Draft): void {
    for (const [id, { query }] of this.#searches) questions.set(id, questionText(query));
  }

  onAnswer(answer: GatewayAnswer): void {
    if (answer.kind !== 'explain') return;
    const { gateway, host } = answer;
    const search = this.#searches.get(answer.question);
    search?.found.push(foundOn(gateway, host, answer));
    search?.waitingFor.delete(gateway);
  }

  async onQuestions(questions: readonly OpenQuestion[]): Promise<void> {
    const open = questions.flatMap(({ id, requester, question }) =>
      question.kind === 'explain' ? [{ id, requester, query: question.query }] : [],
    );
    const asked = open.filter(({ id }) => !this.#answered.has(id)).slice(0, MAX_ANSWERED);
    const answered = new Set(open.map(({ id }) => id).filter((id) => this.#answered.has(id)));
    this.#answered = answered;
    if (asked.length === 0) return;
    const { facts, seen } = await this.#options.local.ask({ queries: asked.map(({ query }) => query), tails: [] });
    for (const [i, { id, requester }] of asked.entries()) {
      answered.add(id);
      const { refusals, calls } = seen.found[i]!;
      const answer = { explain: id, gateway: this.#exchange.id, host: facts.host, refusals };
      this.#exchange.answer(requester, calls === null ? answer : { ...answer, calls });
    }
  }
}

/** Explanations of the store, without those that have another form. */
export function explanationsIn(texts: readonly string[]): readonly FoundRefusal[] {
  return texts.flatMap(explanationIn);
}

/**
 * An explanation of the store. Attack: a program that may write to the store leaves something else there.
 * @returns nothing if it has another form
 */
function explanationIn(text: string): FoundRefusal[] {
  if (text.length > MAX_EXPLANATION) return [];
  try {
    const read = storedRefusal.safeParse(JSON.parse(text));
    return read.success ? [read.data] : [];
  } catch {
    return [];
  }
}

function foundOn(gateway: string, gatewayHost: string, { refusals, calls }: Finding): Finding<FoundRefusal> {
  return { refusals: refusals.map((one) => ({ ...one, gateway, gatewayHost })), calls };
}

/** A gateway of an earlier version does not know the question about a caller, and does not answer it. */
function questionText(query: RefusalQuery): string {
  return JSON.stringify('caller' in query ? query : { explain: query.requestId });
}
