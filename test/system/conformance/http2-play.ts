import { eventually } from '../../support/conditions.ts';
import { CODE, FLAG, fieldBlock, frame, PREFACE, pseudo, settings, TYPE } from '../../support/http2-frames.ts';
import { openRawSession, type RawSession, type SeenFrame } from '../../support/raw-http2.ts';
import { type Http2Case, PING_PAYLOAD, type Step } from './http2-cases.ts';

export interface Played {
  /** The first expected outcome or the first error; `nothing` if neither came. */
  readonly outcome: string;
  /** All frames that the gateway sent, and `closed` at the end: for the message of a failed test. */
  readonly said: readonly string[];
  /** GOAWAY and RST_STREAM besides the outcome. */
  readonly furtherErrors: readonly string[];
  /** Whether the gateway closed the connection or served a further request on it. */
  readonly end: 'closed' | 'served on' | 'neither';
}

const WITHIN_MS = 5_000;
/** Higher than the streams of all cases. */
const FURTHER_STREAM = 1_001;
const WHOLE = FLAG.END_HEADERS | FLAG.END_STREAM;
/** Entries 8 to 14 of the static table (RFC 7541 appendix A). */
const STATUSES = ['200', '204', '206', '304', '400', '404', '500'];

/** Plays a case on a session of its own, and closes its connection. */
export async function playHttp2(it: Http2Case, port: number, ca: string): Promise<Played> {
  const session = await openRawSession(port, { ca, first: it.bare ? Buffer.alloc(0) : PREFACE });
  try {
    if (!it.bare) await exchangePrefaces(session);
    const since = it.bare ? 0 : session.frames.length;
    const said = () => [...session.frames.slice(since).map(nameOf), ...(session.closed ? ['closed'] : [])];
    await send(session, it.send(pathOf(it)));
    const telling = new Set<string>([...it.expect, ...(it.differs === undefined ? [] : [it.differs.outcome])]);
    const first = () => said().find((what) => telling.has(what) || isError(what) || what === 'closed');
    await soon(() => first() !== undefined);
    const outcome = first() ?? 'nothing';
    const end = await endOf(session, it, outcome);
    const errors = said().filter(isError);
    return { outcome, said: said(), furtherErrors: isError(outcome) ? errors.slice(1) : errors, end };
  } finally {
    session.socket.destroy();
  }
}

/** A client that does nothing wrong: one request on a session of its own. */
export async function isServed(port: number, ca: string): Promise<boolean> {
  const session = await openRawSession(port, { ca });
  try {
    return await servesOn(session);
  } finally {
    session.socket.destroy();
  }
}

export const pathOf = ({ id }: Http2Case) => `/h2spec/${id}`;

async function exchangePrefaces(session: RawSession): Promise<void> {
  session.send(settings(4, 65_535));
  const isThere = (flags: number) => session.frames.some((seen) => seen.type === TYPE.SETTINGS && seen.flags === flags);
  if (!(await soon(() => isThere(0) && isThere(FLAG.ACK)))) throw new Error('The gateway did not begin the session');
  session.send(frame(TYPE.SETTINGS, FLAG.ACK, 0));
}

/** Frames between two waits are written at once: an answer in between could close the stream that they are about. */
async function send(session: RawSession, steps: readonly Step[]): Promise<void> {
  let piece: Buffer[] = [];
  for (const step of steps) {
    if (Buffer.isBuffer(step)) piece.push(step);
    else {
      session.send(...piece);
      piece = [];
      await soon(() => step(session));
    }
  }
  session.send(...piece);
}

/** After a connection error the gateway has to close the connection; after all else it has to serve the session. */
async function endOf(session: RawSession, it: Http2Case, outcome: string): Promise<Played['end']> {
  if (it.closes || outcome === 'closed' || outcome.startsWith('GOAWAY')) {
    return (await soon(() => session.closed)) ? 'closed' : 'neither';
  }
  return (await servesOn(session)) ? 'served on' : 'neither';
}

async function servesOn(session: RawSession): Promise<boolean> {
  session.send(frame(TYPE.HEADERS, WHOLE, FURTHER_STREAM, fieldBlock(pseudo('/further'))));
  const answer = () => session.frames.find((seen) => seen.type === TYPE.HEADERS && seen.stream === FURTHER_STREAM);
  await soon(() => answer() !== undefined || session.closed);
  const seen = answer();
  return seen !== undefined && nameOf(seen, 1) === '200';
}

function soon(check: () => boolean): Promise<boolean> {
  return eventually(check, { withinMs: WITHIN_MS }).then(
    () => true,
    () => false,
  );
}

const isError = (what: string) => /^(GOAWAY|RST_STREAM) (?!NO_ERROR)/.test(what);

/** The outcome that a frame is; `at` is its index in the session. */
function nameOf({ type, flags, payload }: SeenFrame, at: number): string {
  const ofType = Object.entries(TYPE).find(([, number]) => number === type)?.[0] ?? `type ${type}`;
  switch (type) {
    case TYPE.GOAWAY:
      return `${ofType} ${errorName(payload.readUInt32BE(4))}`;
    case TYPE.RST_STREAM:
      return `${ofType} ${errorName(payload.readUInt32BE(0))}`;
    case TYPE.DATA:
      return `${ofType} ${payload.length}`;
    case TYPE.HEADERS:
      return STATUSES[payload[lengthOfUpdates(payload)]! - 0x88] ?? ofType;
    case TYPE.PING:
      return (flags & FLAG.ACK) !== 0 && payload.equals(PING_PAYLOAD) ? 'PING ACK' : `${ofType} of another payload`;
    case TYPE.SETTINGS:
      if ((flags & FLAG.ACK) !== 0) return 'SETTINGS ACK';
      return at === 0 ? 'SETTINGS' : 'SETTINGS again';
    default:
      return ofType;
  }
}

/** Dynamic table size updates may come before the status (RFC 7541 section 6.3). */
function lengthOfUpdates(block: Buffer): number {
  let at = 0;
  while ((block[at]! & 0xe0) === 0x20) {
    if ((block[at++]! & 0x1f) === 0x1f) while ((block[at++]! & 0x80) !== 0);
  }
  return at;
}

const errorName = (code: number) => Object.entries(CODE).find(([, number]) => number === code)?.[0] ?? String(code);
