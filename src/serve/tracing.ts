import manifest from '../../package.json' with { type: 'json' };
import type { Variables } from '../config/environment.ts';
import type { GatewayDeps } from '../gateway/gateway-deps.ts';
import { passingTrace } from '../gateway/trace-context.ts';

function isTraced(env: Variables): boolean {
  const isOff = env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER?.trim() === 'none';
  return !isOff && Boolean(env.OTEL_EXPORTER_OTLP_ENDPOINT || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
}

/** Exports spans if a collector is configured. OpenTelemetry is imported only then. */
export async function tracing(
  env: NodeJS.ProcessEnv,
  closers: (() => Promise<void> | void)[],
): Promise<GatewayDeps['traceOf']> {
  if (!isTraced(env)) return passingTrace;
  const { openTracing } = await import('../telemetry/trace.ts');
  const traces = openTracing(env, manifest.version);
  closers.push(() => traces.close());
  return traces.begin;
}
