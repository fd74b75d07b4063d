import type { AnswerHandler } from './answer-reader.ts';
import type { UpstreamConnection } from './connection.ts';

/** The request that a connection is carrying, told of everything that happens to it there. */
export interface Carried extends AnswerHandler {
  /** All that has come so far has been told: what is held back for more goes out now. */
  onPause(): void;
  /** All of the answer has been told: what of it is large need not wait for its end. */
  onWhole(): void;
  /** Whether no piece that was told is needed any more. */
  readonly hasLetGo: boolean;
  /** The upstream has been handed the rest of a body. Not told of a request that left in one write. */
  onBodySent(): void;
  /** The connection died, or something came on it that is no answer, before the answer was whole. */
  onBroken(error: Error): void;
  /** Behind the end of the answer: the connection can be used again, or is gone, and its place may be given back. */
  onFree(): void;
  /** The client's own body is at fault. */
  onBodyFault(error: Error): void;
}

/** What becomes of a connection, for those who keep it. */
export interface ConnectionKeeper {
  /** Its answer is whole and it may carry another request. */
  onIdle(connection: UpstreamConnection): void;
  /** The upstream sent bytes on it that answer no request. It is closed, here or when this returns. */
  onUnasked(connection: UpstreamConnection): void;
  onClosed(connection: UpstreamConnection): void;
}
