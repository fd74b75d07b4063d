import type { Admitter } from '../admit/admit.ts';
import type { Allowance } from '../admit/plan.ts';
import type { CorsFields } from '../annotate/cors.ts';
import type { RateLimitFields } from '../annotate/rate-limit.ts';
import type { ClientRequest } from '../forward/client.ts';
import type { FieldNames } from '../forward/field-names.ts';
import type { Upstream } from '../forward/upstream.ts';
import type { FailedAttempts } from '../identify/failed-attempts.ts';
import type { Consumer, Identifier } from '../identify/identify.ts';
import type { JwtVerifier } from '../identify/jwt.ts';
import type { RequestTrace } from '../telemetry/trace-context.ts';
import type { Exchange } from './exchange.ts';
import type { Router } from './route.ts';
import type { ClosedWebSocket } from './upgrade-on.ts';
import type { Usage } from './usage.ts';
import type { WebSockets } from './web-sockets.ts';

/** Where a request comes from. */
export interface Origin {
  /** One form for each address: IPv4-mapped ones as IPv4. */
  readonly address: string;
  /** Whose connection it is: the same, or a trusted proxy's. */
  readonly peer: string;
  readonly trustedPeer: boolean;
  /** https where the connection is encrypted. */
  readonly scheme: 'http' | 'https';
  /** What the client speaks, where a reader of our own stands between: `2.0` on a stream of HTTP/2; else null. */
  readonly httpVersion: string | null;
}

/** What the gateway is made of. The composition root puts it together; nothing here is ever looked up elsewhere. */
export interface Parts {
  readonly router: Router;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  readonly identifier: Identifier;
  /** Null where no JSON Web Token is accepted. */
  readonly jwt: JwtVerifier | null;
  readonly failedAttempts: FailedAttempts;
  readonly admitter: Admitter;
  readonly usage: Usage;
  /** The allowance of a consumer under the plans in force; null where its plan is gone or lacks a limit. */
  readonly allowanceFor: (consumer: Consumer) => Allowance | null;
  readonly rateLimitFields: RateLimitFields;
  /** Null where no page of another origin reads answers. */
  readonly cors: CorsFields | null;
  readonly maxBodyBytes: number;
  readonly writeTimeoutMs: number;
  readonly webSockets: WebSockets;
  /** How long a WebSocket may live without a byte in either direction. */
  readonly webSocketIdleMs: number;
  /** The same, once one side has closed its half. */
  readonly webSocketFinMs: number;
  /** The name this gateway goes by in Via. */
  readonly via: string;
  /** Names of request fields that are forwarded although they have punctuation (`headers.allow`). */
  readonly allowedNames: FieldNames;
  /** Who the client is, and whether the peer's X-Forwarded-* are believed (`trustedProxies`). */
  readonly originOf: (request: ClientRequest) => Origin;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  readonly newRequestId: () => string;
  /** True from the first signal to stop: answers close their connections. */
  readonly isDraining: () => boolean;
  /** The request's place in a trace. */
  readonly traceOf: (rawHeaders: readonly string[]) => RequestTrace;
  /** Where every request ends, exactly once. */
  readonly close: (exchange: Exchange) => void;
  /** Where every WebSocket ends, exactly once, after its exchange has ended with 101. */
  readonly closeWebSocket: (closed: ClosedWebSocket) => void;
  readonly onDefect: (error: unknown, requestId: string) => void;
}
