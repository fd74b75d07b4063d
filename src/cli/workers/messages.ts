import type { Configuration } from '../../config/settings.ts';
import type { FailureCode } from '../../failure.ts';

/** What a worker can be asked, and is answered by. */
export type Question = 'readiness' | 'metrics';

/** From the supervisor to a worker. They arrive in this order and once, or the worker is gone. */
export type ToWorker =
  /** The first one. The settings come from the supervisor, so that a worker that is started later runs by the same. */
  | { readonly kind: 'begin'; readonly worker: number; readonly workers: number; readonly configuration: Configuration }
  /**
   * With a socket: a client's connection, of which nothing has been read. `isFull`: all workers together have
   * `maxConnections` already, so the worker closes an idle connection for it, or closes it.
   */
  | { readonly kind: 'connection'; readonly isFull: boolean }
  /** The gateway stops: say so to whoever asks, and to clients. Connections still come. */
  | { readonly kind: 'drain' }
  /** No connection comes any more. */
  | { readonly kind: 'closed' }
  | { readonly kind: 'ask'; readonly number: number; readonly question: Question };

/** From a worker to its supervisor. */
export type FromWorker =
  | { readonly kind: 'serving' }
  /** It cannot start, for a reason that whoever runs the gateway has to do something about. */
  | { readonly kind: 'failed'; readonly code: FailureCode; readonly message: string }
  /** The connection handed over last is this worker's now, and not a byte of it had been read before. */
  | { readonly kind: 'taken' }
  /** So many of its connections have ended since it last told. */
  | { readonly kind: 'ended'; readonly connections: number }
  /** It stops by itself, because something in it is broken. */
  | { readonly kind: 'leaving' }
  | { readonly kind: 'answer'; readonly number: number; readonly value: unknown }
  /** What it has counted, at its end. */
  | { readonly kind: 'last'; readonly metrics: unknown };
