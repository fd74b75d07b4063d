// All that the documents are generated from in src, so that a file that moves is named in one place.
import { openApi } from '../../src/admin/openapi.ts';
import { main } from '../../src/main.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

export type { RefusalCode as AdminErrorCode } from '../../src/admin/response.ts';
export { plainAllowance } from '../../src/admit/allowance.ts';
export * as errors from '../../src/annotate/errors.ts';
export { ERROR_CODES, ERRORS, type ErrorCode } from '../../src/errors/catalogue.ts';
export { OWN_FIELDS } from '../../src/http1/own-fields.ts';

/** What a command prints. */
export async function outputOf(...words: readonly string[]): Promise<string> {
  let text = '';
  const out = (piece: string) => {
    text += piece;
  };
  await main(words, { env: {}, out, error: out, isTerminal: false });
  return text;
}

/** The OpenAPI description of the admin API. */
export const adminApi: () => unknown = openApi;

/** A metric of the registry. */
export interface Metric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

/** Every metric of a gateway, in the order in which it tells them. */
export function metrics(): readonly Metric[] {
  const { registry } = createMetrics({ connections: () => 0, inFlight: () => 0, upstreams: () => [], store: () => 1 });
  return registry.getMetricsAsArray() as unknown as Metric[];
}
