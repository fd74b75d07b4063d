import type { Admitter } from '../admit/admit.ts';
import type { CorsFields } from '../annotate/cors.ts';
import type { RateLimitFields } from '../annotate/rate-limit.ts';
import type { Upstream } from '../forward/upstream/upstream.ts';
import type { ClientAddress, ClientRequest } from '../http1/client.ts';
import type { FieldBlock } from '../http1/field-block.ts';
import type { FieldNames } from '../http1/forwarded-fields.ts';
import type { FailedAttempts } from '../identify/failed-attempts.ts';
import type { Identifier } from '../identify/identify.ts';
import type { JwtVerifier } from '../identify/jwt.ts';
import type { Router } from '../routing/router.ts';
import type { Allowances } from './allowances.ts';
import type { ClosedWebSocket, Exchange } from './exchange.ts';
import type { OpenWebSockets } from './open-web-sockets.ts';
import type { RequestIds } from './request-ids.ts';
import type { RequestTrace } from './trace-context.ts';
import type { Usage } from './usage.ts';

/** The dependencies of the gateway. The composition root builds them; no request gets a dependency in any other way. */
export interface GatewayDeps {
  readonly router: Router;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  readonly identifier: Identifier;
  /** Null if no JSON Web Token is accepted. */
  readonly jwt: JwtVerifier | null;
  readonly failedAttempts: FailedAttempts;
  readonly admitter: Admitter;
  readonly usage: Usage;
  readonly allowances: Allowances;
  readonly rateLimitFields: RateLimitFields;
  /** Null if CORS is not configured. */
  readonly cors: CorsFields | null;
  readonly maxBodyBytes: number;
  readonly writeTimeoutMs: number;
  readonly webSockets: OpenWebSockets;
  /** How long a WebSocket may stay open without a byte in either direction. */
  readonly webSocketIdleMs: number;
  /** The same, once one side has closed its half. */
  readonly webSocketFinMs: number;
  /** The name of this gateway in Via. */
  readonly via: string;
  /** Names of request fields that are forwarded although they have punctuation (`headers.allow`). */
  readonly allowedNames: FieldNames;
  /** Finds the client's address, and whether the peer's X-Forwarded-* fields are trusted (`trustedProxies`). */
  readonly addresses: { of(request: ClientRequest): ClientAddress };
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs: () => number;
  readonly requestIds: RequestIds;
  /** `hasBegun` is true from the first signal to stop. Responses then close their connections. */
  readonly draining: { readonly hasBegun: boolean };
  /** The request's place in a trace. */
  readonly traceOf: (fields: FieldBlock) => RequestTrace;
  readonly records: ClosingRecords;
}

/** Receives the closing records for log and metrics. */
export interface ClosingRecords {
  /** Every request ends here, exactly once. */
  close(exchange: Exchange): void;
  /** Every WebSocket ends here, exactly once, after its exchange has ended with 101. */
  closeWebSocket(closed: ClosedWebSocket): void;
  /** Reports an exception that should never happen. */
  defect(error: unknown, requestId: string): void;
}
