import type { Admitter } from '../admit/admit.ts';
import type { CorsFields } from '../annotate/cors.ts';
import type { ErrorRules } from '../annotate/error-rules.ts';
import type { RateLimitFields } from '../annotate/rate-limit.ts';
import type { RefusalLines } from '../annotate/refusal-lines.ts';
import type { ResponseCache } from '../forward/cache/response-cache.ts';
import type { Compressors } from '../forward/compressed-response.ts';
import type { Upstream } from '../forward/upstream/upstream.ts';
import type { ClientAddress, ClientRequest } from '../http1/client.ts';
import type { FieldBlock } from '../http1/field-block.ts';
import type { FieldNames } from '../http1/field-names.ts';
import type { KeyFormat } from '../identify/api-key.ts';
import type { FailedAttempts } from '../identify/failed-attempts.ts';
import type { Identifier } from '../identify/identify.ts';
import type { JwtVerifier } from '../identify/jwt.ts';
import type { KeySources } from '../identify/key-sources.ts';
import type { ThreadTime } from '../io/thread-time.ts';
import type { Decoders } from '../meter/decoders.ts';
import type { PolicyChain } from '../policies/chain.ts';
import type { Router } from '../routing/host-router.ts';
import type { Route } from '../routing/route.ts';
import type { RequestValidator } from '../validate/validator.ts';
import type { Allowances } from './allowances.ts';
import type { BodyChecks } from './body-checks.ts';
import type { ClosedWebSocket, Exchange } from './exchange.ts';
import type { HeldBodies } from './held-body.ts';
import type { OpenWebSockets } from './open-web-sockets.ts';
import type { Usage } from './own-usage.ts';
import type { RequestTrace } from './trace-context.ts';
import type { AddressLists } from './who-may-call.ts';

/** The dependencies of the gateway. The composition root builds them; no request gets a dependency in any other way. */
export interface GatewayDeps {
  readonly router: Router;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  /** The checks of requests, by the file of their description (`description` of a route). */
  readonly validators: ReadonlyMap<string, RequestValidator>;
  /** The memory for bodies that are held while they are checked. */
  readonly heldBodies: HeldBodies;
  readonly bodyChecks: BodyChecks;
  /** The policies of each route that has some (`policies`). */
  readonly policies: ReadonlyMap<Route, PolicyChain>;
  readonly identifier: Identifier;
  /** Where requests may have their key (`keys.from`); null if the gateway reads Authorization alone. */
  readonly keySources: KeySources | null;
  /** Whether a key or a token may be in Authorization. */
  readonly readsAuthorization: boolean;
  /** The formats of keys that were made elsewhere (`keys.formats`). */
  readonly keyFormats: readonly KeyFormat[];
  /** Whether services get the fields by which Kong says who calls (`headers.consumer`). */
  readonly isAsKong: boolean;
  /** Whether client certificates stand for keys (`keys.certificates`). */
  readonly readsCertificates: boolean;
  /** Null if the settings name no issuer of JSON Web Tokens. */
  readonly jwt: JwtVerifier | null;
  /** The URL of the metadata of the protected resource (RFC 9728), which a 401 names; null without `jwt.resource`. */
  readonly resourceMetadata: string | null;
  readonly failedAttempts: FailedAttempts;
  readonly admitter: Admitter;
  readonly usage: Usage;
  /** Divides the thread that serves all among the consumers. */
  readonly thread: ThreadTime;
  readonly allowances: Allowances;
  readonly addressLists: AddressLists;
  readonly rateLimitFields: RateLimitFields;
  readonly refusalLines: RefusalLines;
  /** Null if no route has `cache`. */
  readonly cache: ResponseCache | null;
  /** Bounds how many responses are compressed at a time. */
  readonly compressors: Compressors;
  /** Bounds how many compressed responses are read for their cost at a time. */
  readonly decoders: Decoders;
  readonly errorRules: ErrorRules;
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
  readonly addresses: { of(request: Pick<ClientRequest, 'socket' | 'rawHeaders'>): ClientAddress };
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs: () => number;
  readonly requestIds: { next(): string };
  /** `hasBegun` is true from the first signal to stop. Responses then close their connections. */
  readonly draining: { readonly hasBegun: boolean };
  /** The request's place in a trace. */
  readonly traceOf: (fields: FieldBlock, scheme: ClientAddress['scheme']) => RequestTrace;
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
