import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { ask } from './client.ts';
import { dashboardExpressions, type Expression, readAlerts, readDashboard } from './expressions.ts';
import type { MadeKey, Stage } from './stage.ts';

/** What never happens by itself: a request that cannot be parsed, past the load balancer, which would have refused it. */
export async function sendNonsense({ composition }: Stage): Promise<void> {
  const nonsense = "exec 3<>/dev/tcp/127.0.0.1/8080; printf 'nonsense\\r\\n\\r\\n' >&3; cat <&3";
  assert.match(await composition.exec('gateway-1', 'bash', '-c', nonsense), /^HTTP\/1\.1 400 /);
}

/**
 * Prometheus understands every question of the dashboard and has something to say to each, while there is a little of
 * everything to be seen.
 */
export async function dashboardHasData(stage: Stage, user: MadeKey, banned: MadeKey): Promise<void> {
  const deadlineMs = performance.now() + 180_000;
  // The set has no TLS of its own (HAProxy stands before the gateways), no plan that is only watched, no tokens, no
  // policies, and one pepper from the beginning.
  const hasData = ({ promql }: Expression) =>
    !/tollgate_(tls_certificate_expiry|shadow_refusals|token_keys_up|policy_|unit_|secrets\b)/.test(promql);
  let waiting: readonly Expression[] = dashboardExpressions(readDashboard()).filter(hasData);
  while (waiting.length > 0) {
    assert.ok(performance.now() < deadlineMs, `no data for ${waiting.map(({ where }) => where).join(', ')}`);
    await trickle(stage, user, banned);
    await delay(2_000);
    const empty: Expression[] = [];
    for (const expression of waiting) {
      if ((await query(stage.prometheusPort, expression)).length === 0) empty.push(expression);
    }
    waiting = empty;
  }
}

/** Admitted, refused by the pets themselves (the interface names this call without describing it), banned, not known. */
async function trickle({ port }: Stage, user: MadeKey, banned: MadeKey): Promise<void> {
  await ask(port, '/v1/pets?limit=1', { key: user.key });
  await ask(port, '/v1/store/orders', { key: user.key });
  await ask(port, '/v1/pets?limit=1', { key: banned.key });
  await ask(port, '/v1/pets?limit=1');
}

interface Series {
  readonly value: readonly [number, string];
}

async function query(port: number, { where, promql }: Expression): Promise<readonly Series[]> {
  const { status, body } = await ask(port, `/api/v1/query?query=${encodeURIComponent(promql)}`);
  assert.equal(status, 200, `${where}: ${body}`);
  const { data } = JSON.parse(body) as { data: { result: Series[] } };
  // 0/0 is an answer for a computer and none for a person.
  return data.result.filter(({ value }) => value[1] !== 'NaN');
}

/** Every rule is evaluated without an error, and those that speak of an outage are silent while there is none. */
export async function alertsAreEvaluated({ prometheusPort }: Stage): Promise<void> {
  const { body } = await ask(prometheusPort, '/api/v1/rules?type=alert');
  const { data } = JSON.parse(body) as { data: { groups: { rules: Rule[] }[] } };
  const rules = data.groups.flatMap((group) => group.rules);
  assert.deepEqual(
    rules.map(({ name }) => name).sort(),
    readAlerts()
      .map(({ alert }) => alert)
      .sort(),
  );
  for (const { name, health, lastError, state } of rules) {
    assert.equal(health, 'ok', `${name}: ${lastError}`);
    if (/Down|NoGatewayReady|StoreAway|CountingAlone|Defect/.test(name))
      assert.equal(state, 'inactive', `${name} is ${state}`);
  }
}

interface Rule {
  readonly name: string;
  readonly health: string;
  readonly lastError?: string;
  readonly state: string;
}

/** Grafana has read the provisioned dashboard and can ask Prometheus, without anybody logging in. */
export async function grafanaShowsTheDashboard({ composition, grafanaPort }: Stage): Promise<void> {
  await composition.compose('--profile', 'observe', 'up', '-d', 'grafana');
  await composition.untilHealthy('grafana');
  const shown = await ask(grafanaPort, '/api/dashboards/uid/tollgate');
  assert.equal(shown.status, 200, shown.body);
  const asked = await ask(grafanaPort, '/api/datasources/proxy/uid/prometheus/api/v1/query?query=tollgate_store_up');
  assert.equal(asked.status, 200, asked.body);
}
