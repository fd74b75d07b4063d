import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { Exchange } from '../gateway/exchange.ts';
import { type RequestTrace, readTraceContext, type TraceContext } from '../gateway/trace-context.ts';
import type { FieldBlock } from '../http1/field-block.ts';
import { onlyValue } from '../http1/fields.ts';
import type { Head } from '../http1/request-head.ts';
import { NAMES } from '../io/resolver.ts';
import { writePath } from '../routing/path-template.ts';
import type { Match } from '../routing/router.ts';

interface Tracing {
  begin(fields: FieldBlock, scheme: 'http' | 'https'): RequestTrace;
  /** Exports the remaining spans. */
  close(): Promise<void>;
}

/** How long shutdown waits for the last spans to be exported. */
const CLOSE_WITHIN_MS = 2_000;

/**
 * Exports spans over OTLP (HTTP, JSON). A request has a span for the gateway and, where it got that far, one for the store
 * and one for the upstream. OpenTelemetry's environment variables set the endpoint, headers, sampler and service name.
 * This file is imported only if tracing is configured; otherwise the gateway forwards a request's trace context unchanged.
 */
export function openTracing(env: NodeJS.ProcessEnv, version: string): Tracing {
  const exporter = new OTLPTraceExporter({ httpAgentOptions: agentOptions(env) });
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'tollgate', 'service.version': version }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  const tracer = provider.getTracer('tollgate');
  return {
    begin: (fields, scheme) => new SpansOfRequest(tracer, fields, scheme),
    // The gateway shuts down even if the collector does not respond.
    close: () => Promise.race([provider.shutdown().catch(() => {}), delay(CLOSE_WITHIN_MS, undefined, { ref: false })]),
  };
}

/** Those that the exporter would make of OpenTelemetry's variables, with our own look-up of names. */
function agentOptions(env: NodeJS.ProcessEnv) {
  const read = (what: string) => {
    const path = env[`OTEL_EXPORTER_OTLP_TRACES_${what}`] || env[`OTEL_EXPORTER_OTLP_${what}`];
    try {
      return path ? readFileSync(path) : undefined;
    } catch {
      // As the exporter: a file that cannot be read counts as none.
      return undefined;
    }
  };
  const [ca, cert, key] = ['CERTIFICATE', 'CLIENT_CERTIFICATE', 'CLIENT_KEY'].map(read);
  return {
    keepAlive: true,
    lookup: NAMES.lookup,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}

class SpansOfRequest implements RequestTrace {
  readonly #tracer: Tracer;
  readonly #span: Span;
  readonly #context: Context;
  readonly #startMs = epochMs();
  #upstream: Span | null = null;
  /** The path that the upstream gets. */
  #path = '';

  constructor(tracer: Tracer, fields: FieldBlock, scheme: 'http' | 'https') {
    this.#tracer = tracer;
    const host = onlyValue(fields.rawHeaders, 'host');
    const attributes = { 'url.scheme': scheme, ...(host === null ? {} : serverOf(`${scheme}://${host}`)) };
    const options = { kind: SpanKind.SERVER, startTime: this.#startMs, attributes };
    this.#span = tracer.startSpan('request', options, contextOf(fields.derived(readTraceContext)));
    this.#context = trace.setSpan(ROOT_CONTEXT, this.#span);
  }

  get traceId(): string {
    return this.#span.spanContext().traceId;
  }

  forward({ path }: Head, { route: { rewrite } }: Match): readonly string[] {
    this.#path = rewrite === null ? path : writePath(rewrite, path);
    const options = { kind: SpanKind.CLIENT, startTime: epochMs() };
    this.#upstream = this.#tracer.startSpan('upstream', options, this.#context);
    const { traceId, spanId, traceFlags, traceState } = this.#upstream.spanContext();
    const fields = ['traceparent', `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`];
    const state = traceState?.serialize() ?? '';
    return state === '' ? fields : [...fields, 'tracestate', state];
  }

  end(exchange: Exchange): void {
    const endMs = epochMs();
    if (exchange.source === 'store') this.#storeSpan(exchange.storeMs);
    this.#upstream?.setAttributes({
      'http.request.method': exchange.method,
      'http.response.status_code': exchange.status,
      ...(exchange.target === null ? {} : { ...serverOf(exchange.target), 'url.full': exchange.target + this.#path }),
    });
    this.#upstream?.end(endMs);
    this.#span.updateName(exchange.route === null ? exchange.method : `${exchange.method} ${exchange.route}`);
    this.#span.setAttributes(attributesOf(exchange));
    if (exchange.status >= 500) this.#span.setStatus({ code: SpanStatusCode.ERROR });
    this.#span.end(endMs);
  }

  #storeSpan(ms: number): void {
    const options = { kind: SpanKind.CLIENT, startTime: this.#startMs };
    this.#tracer.startSpan('store', options, this.#context).end(this.#startMs + ms);
  }
}

/** `server.address` and `server.port` of an origin; nothing for any other text, because the client may send any Host. */
function serverOf(origin: string) {
  if (!URL.canParse(origin)) return {};
  const { hostname, port, protocol } = new URL(origin);
  return { 'server.address': hostname, 'server.port': Number(port) || (protocol === 'https:' ? 443 : 80) };
}

function attributesOf(exchange: Exchange) {
  return {
    'http.request.method': exchange.method,
    'http.response.status_code': exchange.status,
    'client.address': exchange.clientAddress,
    'tollgate.request_id': exchange.requestId,
    'tollgate.judgement': exchange.judgement,
    ...(exchange.route === null ? {} : { 'http.route': exchange.route }),
    ...(exchange.path === null ? {} : { 'url.path': exchange.path }),
    ...(exchange.consumerId === null ? {} : { 'tollgate.consumer_id': exchange.consumerId }),
    ...(exchange.plan === null ? {} : { 'tollgate.plan': exchange.plan }),
    ...(exchange.code === null ? {} : { 'error.type': exchange.code }),
  };
}

function contextOf(caller: TraceContext | null): Context {
  if (caller === null) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId: caller.traceId,
    spanId: caller.parentId,
    traceFlags: caller.sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote: true,
    ...(caller.tracestate === null ? {} : { traceState: createTraceState(caller.tracestate) }),
  });
}

function epochMs(): number {
  return performance.timeOrigin + performance.now();
}
