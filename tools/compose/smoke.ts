// Brings docker-compose.yml up under a name of its own, holds it to what it promises, and removes it again.
// `node tools/compose/smoke.ts`; needs a container engine, Compose and the base images. It takes two or
// three minutes on a quiet machine, and ends within twenty.
import { freePort } from '../../test/support/free-port.ts';
import { Checks } from './checks.ts';
import { Composition } from './composition.ts';
import * as hardening from './hardening.ts';
import { standIns } from './images.ts';
import * as observation from './observation.ts';
import * as operation from './operation.ts';
import { type MadeKey, makeKey, type Stage } from './stage.ts';

const PROJECT = 'tollgate-smoke';
const WITHIN_MS = 1_200_000;
const IMAGES = { prometheus: 'prom/prometheus:v3.5.0', grafana: 'grafana/grafana:12.1.0' };

process.exitCode = await smoke();

async function smoke(): Promise<number> {
  const late = AbortSignal.timeout(WITHIN_MS);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  const checks = new Checks(
    (line) => console.log(line),
    () => performance.now(),
  );
  const [port, prometheusPort, grafanaPort] = [await freePort(), await freePort(), await freePort()];
  const options = {
    project: PROJECT,
    env: {
      TOLLGATE_IMAGE: PROJECT,
      PORT: String(port),
      PROMETHEUS_PORT: String(prometheusPort),
      GRAFANA_PORT: String(grafanaPort),
    },
    signal: AbortSignal.any([late, interrupted.signal]),
  };
  try {
    const bare = await Composition.find(options);
    await bare.remove();
    const overrides = (await belongsToItsUser(bare)) ? [] : ['stand-ins.yml'];
    const buildArgs = await standIns((...args) => bare.docker(...args));
    const env = { ...options.env, ...buildArgs };
    const composition = await Composition.find({ ...options, env, buildArgs, overrides });
    try {
      await run({ composition, port, prometheusPort, grafanaPort }, checks, overrides.length > 0 ? ['prometheus'] : []);
    } finally {
      await checks.that('it is removed with its volumes and networks', () => composition.remove());
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    checks.totals.failed++;
  }
  console.log(checks.summary());
  return checks.totals.failed > 0 ? 1 : 0;
}

async function run(stage: Stage, checks: Checks, rootAllowed: readonly string[]): Promise<void> {
  const { composition } = stage;
  const beganMs = performance.now();
  const built = await checks.that('the image is built', () => composition.build('secrets'));
  if (built === null) return;
  await checks.that('the image holds what runs, and nothing else', () => hardening.imageHoldsWhatRuns(stage, PROJECT));
  const up = () => composition.compose('--profile', 'observe', 'up', '-d', 'haproxy', 'prometheus');
  if ((await checks.that('everything comes up, in order', up)) === null) return;
  await composition.untilHealthy('haproxy');
  const key = await checks.that('a key is made in a gateway', () => makeKey(stage, '--plan', 'free'));
  if (key === null) return;
  await checks.that('a request with it is metered and reaches the pets', () => operation.requestIsMetered(stage, key));
  console.log(`        from the sources to a metered request: ${((performance.now() - beganMs) / 1000).toFixed(1)} s`);
  const banned = await checks.that('both gateways share one limit, exactly', () => operation.limitIsShared(stage));
  await checks.that('a client cannot choose its address', () => operation.addressCannotBeChosen(stage));
  await checks.that('the pets may be away for a while', () => operation.petsMayBeAway(stage, key));
  await harden(stage, checks, rootAllowed);
  if (banned !== null) await observe(stage, checks, key, banned);
  await checks.that('the load test runs beside it and finds the promises kept', () => operation.loadTestRuns(stage));
  const user = await checks.that('a key of a plan without numbers brings its own', () => operation.makeBusyKey(stage));
  if (user === null || banned === null) return;
  await checks.that('a rolling restart under load loses no request and counts each once', () =>
    operation.rollingRestartLosesNothing(stage, user),
  );
  await checks.that('keys and counters survive new containers', () =>
    operation.keysAndCountersSurvive(stage, user, banned),
  );
}

async function harden(stage: Stage, checks: Checks, rootAllowed: readonly string[]): Promise<void> {
  await stage.composition.untilHealthy('prometheus');
  await checks.that('no container runs as root', () => hardening.nobodyIsRoot(stage, rootAllowed));
  await checks.that('root filesystems are read-only, capabilities dropped', () => hardening.rootsAreReadOnly(stage));
  await checks.that('each is healthy and has limits of memory and processor', () =>
    hardening.everythingHasALimit(stage),
  );
  await checks.that('published is the load balancer and Prometheus, on 127.0.0.1 only', () =>
    hardening.nothingIsPublishedBeyondLoopback(stage),
  );
  await checks.that('Redis asks for TLS and a user, and lets the gateways do no more than they must', () =>
    hardening.redisTrustsNobody(stage),
  );
  await checks.that('secrets are in files that their readers alone can read', () =>
    hardening.secretsAreInFilesAlone(stage, PROJECT),
  );
}

async function observe(stage: Stage, checks: Checks, user: MadeKey, banned: MadeKey): Promise<void> {
  await observation.sendNonsense(stage);
  await checks.that('Prometheus answers every question of the dashboard with data', () =>
    observation.dashboardHasData(stage, user, banned),
  );
  await checks.that('Prometheus evaluates every alert, and none of an outage is raised', () =>
    observation.alertsAreEvaluated(stage),
  );
  const hasGrafana = await stage.composition
    .docker('run', '--rm', '--network', 'none', '--entrypoint', 'sh', IMAGES.grafana, '-c', 'command -v grafana')
    .then(
      () => true,
      () => false,
    );
  const guarantee = 'Grafana shows the provisioned dashboard';
  if (!hasGrafana) checks.skip(guarantee, `the image ${IMAGES.grafana} here has no Grafana in it.`);
  else await checks.that(guarantee, () => observation.grafanaShowsTheDashboard(stage));
}

/** Whether the image of Prometheus has a folder for its data that its user may write to, as the published one has. */
async function belongsToItsUser(composition: Composition): Promise<boolean> {
  const stat = [
    'run',
    '--rm',
    '--network',
    'none',
    '--entrypoint',
    'stat',
    IMAGES.prometheus,
    '-c',
    '%u',
    '/prometheus',
  ];
  return composition.docker(...stat).then(
    (uid) => uid.trim() === '65534',
    () => false,
  );
}
