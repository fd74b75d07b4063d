import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { startGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly attributes?: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
}

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

const attributesOf = ({ attributes = [] }: Pick<OtlpSpan, 'attributes'>): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

/** A collector that keeps what it is sent. */
async function startCollector() {
  const spans: OtlpSpan[] = [];
  const resources: Record<string, unknown>[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { resourceSpans } = JSON.parse(text) as {
      resourceSpans: { resource: OtlpSpan; scopeSpans: { spans: OtlpSpan[] }[] }[];
    };
    for (const { resource, scopeSpans } of resourceSpans) {
      resources.push(attributesOf(resource));
      for (const scope of scopeSpans) spans.push(...scope.spans);
    }
    response.setHeader('Content-Type', 'application/json').end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, port, spans, resources };
}

let upstream: Awaited<ReturnType<typeof startUpstream>>;

beforeAll(async () => {
  upstream = await startUpstream();
});

test('with a collector, the trace of the client goes on through the gateway, the store and the upstream', async () => {
  const collector = await startCollector();
  const gateway = await startGateway({
    upstream: upstream.origin,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.origin, OTEL_BSP_SCHEDULE_DELAY: '50' },
  });
  const { key } = await gateway.createKey('free');
  const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' };
  expect((await gateway.get('/v1/pets', key, { headers })).status).toBe(200);
  const spans = await eventually(() => collector.spans.length >= 3 && collector.spans);
  const [request, store, sent] = ['GET /v1/pets', 'store', 'upstream'].map(
    (name) => spans.find((s) => s.name === name)!,
  );
  expect(request).toMatchObject({ traceId: TRACE, parentSpanId: PARENT });
  expect(store).toMatchObject({ traceId: TRACE, parentSpanId: request!.spanId });
  expect(sent).toMatchObject({ traceId: TRACE, parentSpanId: request!.spanId });
  const received = upstream.requests.at(-1)!;
  expect(received.values('traceparent')).toEqual([`00-${TRACE}-${sent!.spanId}-01`]);
  expect(received.values('tracestate')).toEqual(['vendor=1']);
  expect(JSON.stringify(collector.spans)).not.toContain(key);
  const { hostname, port } = new URL(upstream.origin);
  expect(attributesOf(sent!)).toMatchObject({
    ...{ 'server.address': hostname, 'server.port': Number(port), 'url.full': `${upstream.origin}/v1/pets` },
  });
  expect(attributesOf(request!)).toMatchObject({
    ...{ 'url.scheme': 'http', 'server.address': '127.0.0.1', 'server.port': gateway.port, 'url.path': '/v1/pets' },
    'http.route': '/v1/pets',
    'tollgate.plan': 'free',
    'tollgate.judgement': 'admitted',
  });
});

// getaddrinfo does not know `*.localhost` (RFC 6761); the resolver of the process does.
test('a collector is found by the resolver of the process', async () => {
  const { port, spans } = await startCollector();
  const OTEL_EXPORTER_OTLP_ENDPOINT = `http://collector.localhost:${port}`;
  const gateway = await startGateway({
    upstream: upstream.origin,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_BSP_SCHEDULE_DELAY: '50' },
  });
  await gateway.get('/v1/pets', (await gateway.createKey('free')).key);
  await eventually(() => spans.length >= 3);
});

test('without a collector the context of the client passes through untouched, and its id stands in the log', async () => {
  const gateway = await startGateway({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  const traceparent = `00-${TRACE}-${PARENT}-01`;
  await gateway.get('/v1/pets', key, { headers: { traceparent, tracestate: 'vendor=1' } });
  const received = upstream.requests.at(-1)!;
  expect(received.values('traceparent')).toEqual([traceparent]);
  expect(received.values('tracestate')).toEqual(['vendor=1']);
  await gateway.process.until(new RegExp(`"traceId":"${TRACE}"`));
});

test('a collector that is away costs nobody a request', async () => {
  const gateway = await startGateway({
    upstream: upstream.origin,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_BSP_SCHEDULE_DELAY: '20' },
  });
  const { key } = await gateway.createKey('free');
  for (let i = 0; i < 5; i++) expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  expect((await gateway.process.stop()).code).toBe(0);
});

test('the variables of OpenTelemetry that the documents name apply', async () => {
  const named = await startCollector();
  const refused = await startCollector();
  const start = (env: Record<string, string>) =>
    startGateway({ upstream: upstream.origin, env: { OTEL_BSP_SCHEDULE_DELAY: '50', ...env } });
  const first = await start({
    OTEL_EXPORTER_OTLP_ENDPOINT: named.origin,
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=staging,service.version=7',
    OTEL_SERVICE_NAME: 'edge',
  });
  const off = await Promise.all([
    start({ OTEL_EXPORTER_OTLP_ENDPOINT: refused.origin, OTEL_SDK_DISABLED: 'true' }),
    start({ OTEL_EXPORTER_OTLP_ENDPOINT: refused.origin, OTEL_TRACES_EXPORTER: 'none' }),
    start({ OTEL_EXPORTER_OTLP_ENDPOINT: refused.origin, OTEL_TRACES_SAMPLER: 'always_off' }),
  ]);
  for (const gateway of [first, ...off]) {
    expect((await gateway.get('/v1/pets', (await gateway.createKey('free')).key)).status).toBe(200);
    // The last spans are exported before the process ends.
    expect((await gateway.process.stop()).code).toBe(0);
  }
  expect(named.resources[0]).toMatchObject({
    ...{ 'service.name': 'edge', 'service.version': '7', 'deployment.environment.name': 'staging' },
    ...{ 'telemetry.sdk.name': 'opentelemetry', 'telemetry.sdk.language': 'nodejs' },
  });
  expect(refused.spans).toEqual([]);
});
