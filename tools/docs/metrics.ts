import { metrics } from './sources.ts';

/** What each label of a metric may be. Where a label means something else in one metric, that metric's name is before it. */
export const LABELS: Readonly<Record<string, string>> = {
  route: 'The pattern of the route, as in gateway.yaml; `none` where no route matches.',
  plan: 'The plan of the caller; `public` on a route with `auth: none`, `none` where the caller was not identified.',
  judgement:
    '`admitted`, `refused` (quota), `banned`, `shed` (429 `too_many_in_flight` and `in_flight_limit_exceeded`), `forbidden` (403 `suspended`), ' +
    '`denied` (by a policy), `unauthenticated`, `preflight`, `usage`, `malformed` or `undecided` (the store did not answer, the client left ' +
    'before a decision, the plan of the key is gone, or a policy failed).',
  status: 'The class of the status (`2xx`, `4xx`, …), or `499` for a client that left or did not read its answer.',
  code: 'The [error code](headers-and-errors.md); `policy` where a policy refused the request, whatever its code; `none` where the upstream answered.',
  source:
    'Who decided: `store`, `lease` (from what the gateway has borrowed), `memory` (without a call to the store), `local` (the store was away), or `none` where nothing was decided.',
  part: '`total`, and what of it was spent waiting for the `store`, with the `upstream`, and in the `gateway` itself.',
  upstream: 'The name of the upstream in gateway.yaml; `none` where the request was not forwarded.',
  target: 'The address of the target in gateway.yaml; `none` where no target was taken.',
  window: '`second`, `minute`, `hour`, `day`, `week` or `month`.',
  rung: 'Which ban of the caller it is: `1` to `4`, and `5+` for the fifth and later.',
  'tollgate_connections_dropped_total reason':
    '`connections` (`listen.maxConnections`), `address` (`listen.maxConnectionsPerAddress`: as many are open and none is idle, or as many wait to be opened), `memory` (the heap, or the container, is nearly full) or ' +
    '`descriptors` (nearly all files that the process may open are in use).',
  'tollgate_connections_evicted_total reason': 'As in `tollgate_connections_dropped_total`.',
  'tollgate_http2_sessions_broken_total reason':
    '`resets` (rapid reset), `overhead` (too much besides requests), `protocol` (malformed) or `unread` (too much that the client does not read).',
  'tollgate_tls_reloads_total outcome': '`loaded` or `refused`.',
  'tollgate_acme_orders_total outcome': '`issued` or `failed`.',
  'tollgate_reloads_total outcome':
    '`loaded`, or `refused` because of a fault or because a plan that live keys use is missing.',
  'tollgate_secrets pepper':
    '`current` (the newest), `old` (another one of KEY_PEPPER), `removed` (none of KEY_PEPPER), `unknown`.',
  'tollgate_settings_refused file': '`settings` (gateway.yaml) or `plans` (plans.yaml).',
  policy: 'The [policy](../guides/policies.md), by its name in gateway.yaml.',
  'tollgate_policy_runs_total outcome': '`allowed`, `refused` or `failed` (an exception, a late or an invalid result).',
  'tollgate_upstream_retries_total outcome':
    '`answered` (with a response that is not a failure), `failed`, `abandoned` (the client left), `over_budget` (an attempt failed and was not retried, because the retries to this upstream are used up)',
  'tollgate_cache_requests_total use':
    '`hit` (answered from memory), `stale` (so too, while the service is asked in the background), `validated` (the service was asked whether what is stored is still good) or `miss` (it was asked for the whole).',
  'tollgate_websockets_total outcome':
    '`client_closed`, `upstream_closed`, `client_lost`, `upstream_lost`, `idle`, `revoked`, `suspended`, `expired` or `drained`.',
  'tollgate_given_back_total outcome':
    '`added` to the store, `ended` with its window, or `lost` (sent and not answered, or more than the gateway can remember).',
  'tollgate_local_decisions_total count':
    '`owed` (admitted, to be added to the store), `sent` (admitted, and counted by a call that was given up or not at all) or ' +
    '`uncounted` (refused, or let through by `onFailure: open`).',
  unit: 'The unit, by its name in plans.yaml.',
  'tollgate_unit_requests_total cost':
    '`known`; else why it is not: `absent` (the answer does not state it), `invalid` (not as an amount, or twice), `too_large`, ' +
    '`undecodable` (a compressed answer that cannot be read), `busy` (the gateway stopped while it was decompressed) or `cut` (the ' +
    'answer did not pass whole, or the client left).',
  'tollgate_unit_amount_total amount': '`reserved` (taken in advance) or `settled` (paid in the end).',
  'tollgate_settlements_total outcome':
    '`settled` or `lost` (sent and not answered, or more than the gateway can remember).',
  'tollgate_settings_info settings': 'The version of gateway.yaml: the beginning of its SHA-256.',
  'tollgate_settings_info plans': 'The version of plans.yaml: the beginning of its SHA-256.',
};

export function metricsPage(): string {
  const own = metrics().filter(({ name }) => name.startsWith('tollgate_'));
  const rows = own
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ name, type, labelNames, help }) => {
      const by = labelNames.length === 0 ? '' : ` by ${labelNames.map((label) => `\`${label}\``).join(', ')}`;
      return `| <a id="${name}"></a>\`${name}\` | ${help}<br>*${type}${by}* |`;
    });
  const labels = Object.entries(LABELS).map(([label, values]) => {
    const [metric, name] = label.includes(' ') ? label.split(' ') : [null, label];
    return `| \`${name}\`${metric === null ? '' : ` of [\`${metric}\`](#${metric})`} | ${values} |`;
  });
  return `# Metrics

\`GET /metrics\` on the admin port answers in the text format of Prometheus. Labels are bounded by the settings (route
patterns, plan names, upstreams and their targets); no label is a path or a key. With several workers the gateway answers with
sums over all of them, those that have ended included, and of states with the worst.

| metric | help |
|---|---|
${rows.join('\n')}

Besides these, \`process_*\` and \`nodejs_*\` are the metrics of prom-client for every Node.js process, such as
\`nodejs_eventloop_lag_p99_seconds\`. With several workers each has the label \`worker\` (\`supervisor\` for that process).

## Labels

| label | values |
|---|---|
${labels.join('\n')}

A target has up to 72 series of \`tollgate_request_duration_seconds\`. The series of a target that gateway.yaml no longer names
are dropped after ten minutes. Metrics of TLS are absent without \`listen.tls\`, and \`tollgate_token_keys_up\` without \`jwt\`.
`;
}
