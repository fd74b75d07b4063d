/**
 * One case of a public test suite, stated as what the gateway is sent and what it answers.
 *
 * An outcome is the statuses in their order and what became of the connection: `200 kept` (and the next request on it was
 * served), `400 closed`, `100 200 kept`, `200 400 closed` for two requests. `closed` alone is a connection that ended
 * without an answer. 408 is only ever the answer at a deadline: the gateway had waited for more.
 */
export interface Row {
  /** The suite's name for the case. */
  readonly id: string;
  /** What has to hold, in our words. */
  readonly title: string;
  /** The RFC and section that ask for it; null where none does. */
  readonly rfc: string | null;
  /** The bytes; `⏎` is CRLF, every other character is one byte. Several: each is sent when the one before is answered. */
  readonly sent: string | readonly string[];
  /** Outcomes that conform, as `matches` reads them; `REFUSED` by default. */
  readonly expect?: readonly string[];
  /** Outcomes that the suite calls debatable. */
  readonly debatable?: readonly string[];
  /** What this gateway does; `400 closed` by default. */
  readonly answer?: string;
  /** What it may do instead where the bytes do not come in one packet. */
  readonly inPieces?: string;
  /** Why it does not do what the suite would like best. */
  readonly differs?: string;
  /** Fields that the last answer has. */
  readonly has?: Readonly<Record<string, RegExp>>;
  /** Fields that it must not have. */
  readonly lacks?: readonly string[];
  /** The body that reaches the upstream, which sends it back. */
  readonly body?: string;
  /** What the field lines of the last request that reaches the upstream match, and what they must not match. */
  readonly forwards?: RegExp;
  readonly withholds?: RegExp;
}

type Further = Omit<Row, 'id' | 'title' | 'rfc' | 'sent'>;

export function row(id: string, title: string, rfc: string | null, sent: Row['sent'], further: Further = {}): Row {
  return { id, title, rfc, sent, ...further };
}

/** Refused with 400, or cut off. */
export const REFUSED: readonly string[] = ['400', 'closed'];

/** How an answer is judged by the suite. */
export type Verdict = 'conforms' | 'debatable' | 'differs';

export function answerOf({ answer = '400 closed' }: Row): string {
  return answer;
}

/** More than this may come in several packets, however it is sent. */
const PACKET_BYTES = 16 * 1024;

/** What the gateway may do. @param inPieces whether the bytes were sent in several writes */
export function outcomesOf(row: Row, inPieces: boolean): string[] {
  const mayBeCut = inPieces || stepsOf(row).some((step) => step.length > PACKET_BYTES);
  return mayBeCut && row.inPieces !== undefined ? [answerOf(row), row.inPieces] : [answerOf(row)];
}

export function stepsOf({ sent }: Row): readonly string[] {
  return typeof sent === 'string' ? [sent] : sent;
}

/** The suite's judgement of an outcome of the row. */
export function verdictOf({ expect = REFUSED, debatable = [] }: Row, outcome: string): Verdict {
  if (expect.some((wanted) => matches(wanted, outcome))) return 'conforms';
  return debatable.some((wanted) => matches(wanted, outcome)) ? 'debatable' : 'differs';
}

/**
 * Whether an outcome is of a kind. `400` and `4xx` are that final status alone, `2xx 304` these two; `kept` or `closed`
 * behind them is that end of the connection. `not 101` is any answer without that status, `closed` an end without an
 * answer, `waits` the answer at a deadline.
 */
export function matches(wanted: string, outcome: string): boolean {
  const got = partsOf(outcome);
  if (wanted === 'waits') return got.statuses.includes('408');
  if (wanted.startsWith('not ')) return got.statuses.length > 0 && !got.statuses.includes(wanted.slice(4));
  const { statuses, connection } = partsOf(wanted);
  const finals = got.statuses.filter((status) => !status.startsWith('1'));
  const isSame = finals.length === statuses.length && statuses.every((it, i) => isStatus(it, finals[i]!));
  return isSame && (connection === null || connection === got.connection);
}

/** Requests that the upstream answered, by the outcome. */
export function servedIn(outcome: string): number {
  return partsOf(outcome).statuses.filter((status) => /^[23]/.test(status)).length;
}

function partsOf(outcome: string) {
  const words = outcome.split(' ');
  return {
    statuses: words.filter((word) => /^[1-5](?:xx|\d\d)$/.test(word)),
    connection: words.find((word) => word === 'kept' || word === 'closed') ?? null,
  };
}

function isStatus(wanted: string, status: string): boolean {
  return wanted.endsWith('xx') ? wanted[0] === status[0] : wanted === status;
}

/** The bytes of a row's notation. */
export function bytesOf(sent: string): Buffer {
  return Buffer.from(sent.replaceAll('⏎', '\r\n'), 'latin1');
}
