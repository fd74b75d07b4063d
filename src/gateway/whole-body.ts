import { Readable } from 'node:stream';
import { type ErrorResponse, plainError } from '../annotate/errors.ts';
import type { ConsumerShare } from '../forward/upstream/upstream.ts';
import type { ClientRequest, ClientResponse } from '../http1/client.ts';
import type { Head } from '../http1/request-head.ts';
import type { HeldMemory } from '../io/held-bytes.ts';
import type { Match } from '../routing/router.ts';
import type { BodyCheck } from '../validate/validator.ts';
import { heldBytesOfOne, MAX_CHECKED_BYTES, refusalOfBody, tooLargeToCheck, type Unfit } from './described-request.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { HeldBody, type HeldResult } from './held-body.ts';
import { upstreamOf } from './proxy-request.ts';

/** Why a body was not read whole, as the response that says so. */
interface BodyRefusal {
  readonly error: ErrorResponse;
  /** For operators; null if the client's response says it all. */
  readonly cause: string | null;
  /** Whether the body itself is at fault, and not the memory for all bodies. */
  readonly isTooLarge: boolean;
}

/** Where a body comes from. */
interface BodySource {
  readonly request: ClientRequest;
  /** Gets 100 Continue, if the client waits for that. */
  readonly response: Pick<ClientResponse, 'writeContinue'>;
  readonly head: Head;
  /** With a place for the request, which is paused while the body is read; null if it has no place. */
  readonly share: ConsumerShare | null;
}

type BodyDeps = Pick<GatewayDeps, 'heldBodies' | 'bodyChecks' | 'maxBodyBytes' | 'upstreams'>;

/** The part of the memory for held bodies that one caller may have on a route without a service. */
const OWN_SHARE = 0.25;

/**
 * The body of one request that is read whole, because its route checks it or because it says what the request takes of a unit in
 * advance. It is forwarded only then, with the bytes that the client sent. A request whose body is streamed has no such object.
 */
export class WholeBody {
  /** The bytes that the client has sent; null until the gateway has read all of them. */
  bytes: Buffer | null = null;
  /** Null unless it could not be read. */
  refusal: BodyRefusal | null = null;
  readonly #deps: BodyDeps;
  readonly #match: Match;
  readonly #consumerId: string;
  #held: HeldBody | null = null;

  constructor(deps: BodyDeps, match: Match, { shareId }: Pick<Caller, 'shareId'>) {
    this.#deps = deps;
    this.#match = match;
    this.#consumerId = shareId;
  }

  /**
   * Reads it.
   * @param done called once, unless `release` comes before. `isGone`: whether the client left before the end of its body
   */
  read({ request, response, head, share }: BodySource, done: (isGone: boolean) => void): void {
    const maxBytes = Math.min(this.#match.route.maxBodyBytes ?? this.#deps.maxBodyBytes, MAX_CHECKED_BYTES);
    const end = (result: HeldResult) => {
      if (result.kind === 'whole') this.bytes = result.bytes;
      else if (result.kind === 'too_large') {
        this.refusal = { error: tooLargeToCheck(maxBytes), cause: null, isTooLarge: true };
      } else if (result.kind === 'no_room') {
        const cause = 'too many bodies are held to be checked';
        this.refusal = { error: plainError('overloaded'), cause, isTooLarge: false };
      }
      done(result.kind === 'gone');
    };
    const { wholeBody } = request;
    if (typeof wholeBody === 'string') end({ kind: 'whole', bytes: Buffer.from(wholeBody, 'latin1') });
    else if (head.contentLength > maxBytes) end({ kind: 'too_large' });
    else if (!(request instanceof Readable)) throw new Error('a body from a reader that takes none');
    else {
      if (head.expectsContinue) response.writeContinue();
      this.#held = new HeldBody(request, maxBytes, this.#memory(share), share, end);
    }
  }

  /**
   * Checks the bytes that were read.
   * @param isWanted asked when it is the body's turn
   * @returns the refusal of a body that does not fit; null if it fits
   */
  check(check: BodyCheck, isWanted: () => boolean): Unfit | null | Promise<Unfit | null> {
    if (this.bytes === null) throw new Error('a body that has not been read');
    const checked = this.#deps.bodyChecks.check(this.#consumerId, check, this.bytes, isWanted);
    return checked instanceof Promise ? checked.then(refusalOfBody) : refusalOfBody(checked);
  }

  /** The request has ended: gives the memory back, and reads nothing more. */
  release(): void {
    this.#held?.release();
  }

  /** The memory for the bodies of its consumer. */
  #memory(share: ConsumerShare | null): HeldMemory {
    const part = share === null ? OWN_SHARE : upstreamOf(this.#deps, this.#match).options.fairShare;
    return this.#deps.heldBodies.of(this.#consumerId, heldBytesOfOne(part));
  }
}
