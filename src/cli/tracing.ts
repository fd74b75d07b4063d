import manifest from '../../package.json' with { type: 'json' };
import type { Parts } from '../gateway/parts.ts';
import { passingTrace } from '../telemetry/trace-context.ts';

/** Spans are exported where a collector is configured; what that needs is loaded only then. */
export async function tracing(
  env: NodeJS.ProcessEnv,
  closers: (() => Promise<void> | void)[],
): Promise<Parts['traceOf']> {
  if (!env.OTEL_EXPORTER_OTLP_ENDPOINT && !env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return passingTrace;
  const { openTracing } = await import('../telemetry/trace.ts');
  const traces = openTracing(env, manifest.version);
  closers.push(() => traces.close());
  return traces.begin;
}
