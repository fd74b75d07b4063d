import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Deployment } from 'kubernetes-models/apps/v1';
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { ConfigMap, Namespace, Service, ServiceAccount } from 'kubernetes-models/v1';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { parsePlans } from '../../src/config/plans-schema.ts';
import { durationMs } from '../../src/config/setting-values.ts';
import { ROOT } from '../support/processes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const FOLDER = join(ROOT, 'config', 'kubernetes');

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

/** The kinds that are used, each with what Kubernetes' own OpenAPI description says of it. */
const KINDS: Readonly<
  Record<string, { readonly from: string; readonly model: new (data: never) => { validate(): void } }>
> = {
  'apps/v1 Deployment': { from: 'kubernetes-models/apps/v1', model: Deployment },
  'autoscaling/v2 HorizontalPodAutoscaler': {
    from: 'kubernetes-models/autoscaling/v2',
    model: HorizontalPodAutoscaler,
  },
  'networking.k8s.io/v1 NetworkPolicy': { from: 'kubernetes-models/networking.k8s.io/v1', model: NetworkPolicy },
  'policy/v1 PodDisruptionBudget': { from: 'kubernetes-models/policy/v1', model: PodDisruptionBudget },
  'v1 ConfigMap': { from: 'kubernetes-models/v1', model: ConfigMap },
  'v1 Namespace': { from: 'kubernetes-models/v1', model: Namespace },
  'v1 ServiceAccount': { from: 'kubernetes-models/v1', model: ServiceAccount },
  'v1 Service': { from: 'kubernetes-models/v1', model: Service },
};

const files = readdirSync(FOLDER).filter((file) => file !== 'kustomization.yaml');
const manifests = files.flatMap((file) =>
  parseAllDocuments(readFileSync(join(FOLDER, file), 'utf8')).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  }),
);

function kindOf({ apiVersion, kind }: Manifest) {
  const found = KINDS[`${apiVersion} ${kind}`];
  if (found === undefined) throw new Error(`${apiVersion} ${kind} is not known here`);
  return found;
}

/** The manifest of a kind; of several, the one that has this name. */
// biome-ignore lint/suspicious/noExplicitAny: its shape is what the first two tests are about
function the(kind: string, name = 'tollgate'): any {
  return manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);
}

describe('each manifest', () => {
  test.each(manifests.map((manifest) => [`${manifest.kind} ${manifest.metadata.name}`, manifest] as const))(
    '%s has the values that Kubernetes describes',
    (_, manifest) => {
      new (kindOf(manifest).model)(manifest as never).validate();
    },
  );

  test('has no field that Kubernetes does not describe, at any depth', async () => {
    expect(await compile(manifests)).toBe('');
    const misspelled = structuredClone(the('Deployment'));
    misspelled.spec.template.spec.containers[0].readinesProbe = {};
    expect(await compile([misspelled])).toContain('readinesProbe');
  });

  test('is named in kustomization.yaml', () => {
    const { resources } = parse(readFileSync(join(FOLDER, 'kustomization.yaml'), 'utf8')) as { resources: string[] };
    expect(resources.toSorted()).toEqual(files.toSorted());
  });
});

/**
 * Kubernetes' description compiled to validators lets unknown fields pass, as the API server does; the same description
 * as types does not. @returns what the compiler complains of
 */
async function compile(of: readonly Manifest[]): Promise<string> {
  const folder = await temporaryFolder();
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const lines = of.map(
    (manifest, i) =>
      `import type { I${manifest.kind} as T${i} } from '${kindOf(manifest).from}';\nexport const m${i}: T${i} = ${JSON.stringify(manifest)};`,
  );
  await writeFile(join(folder, 'manifests.ts'), lines.join('\n'));
  const compiler = join(ROOT, 'node_modules', '.bin', 'tsc');
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'esnext',
    '--types',
    '',
  ];
  return promisify(execFile)(compiler, [...options, 'manifests.ts'], { cwd: folder }).then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  );
}

describe('the settings of the ConfigMap', () => {
  const { data } = the('ConfigMap');

  test('are accepted by the gateway, without a warning', () => {
    expect(parseGatewayFile(data['gateway.yaml'], 'gateway.yaml')).toMatchObject({ warnings: [], value: {} });
    expect(parsePlans(data['plans.yaml'], 'plans.yaml')).toMatchObject({ warnings: [], value: {} });
  });

  test('have the plans and routes of this repository', () => {
    const read = (file: string) => parse(readFileSync(join(ROOT, file), 'utf8'));
    expect(parse(data['plans.yaml'])).toEqual(read('plans.yaml'));
    expect(parse(data['gateway.yaml']).routes).toEqual(read('config/gateway.yaml').routes);
  });
});

describe('the Deployment', () => {
  const pod = the('Deployment').spec.template.spec;
  const [gateway] = pod.containers;

  test('gives a gateway the time to leave the Service and to drain', () => {
    const { listen } = parse(the('ConfigMap').data['gateway.yaml']);
    const [command, seconds] = gateway.lifecycle.preStop.exec.command;
    expect(command).toBe('sleep');
    const needsMs = Number(seconds) * 1000 + durationMs(listen.drainDelay) + durationMs(listen.drainTimeout);
    expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(needsMs);
    const noticedS = gateway.readinessProbe.periodSeconds * gateway.readinessProbe.failureThreshold;
    expect(Number(seconds)).toBeGreaterThanOrEqual(noticedS);
  });

  test('asks readiness and liveness where the gateway answers them', () => {
    expect(gateway.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'admin' });
    expect(gateway.livenessProbe.httpGet).toEqual({ path: '/livez', port: 'admin' });
    expect(gateway.startupProbe.httpGet).toEqual({ path: '/livez', port: 'admin' });
    expect(gateway.ports).toContainEqual({ name: 'admin', containerPort: 9090 });
  });

  test('runs as the user of the image, who may change nothing and gain nothing', () => {
    const [, uid] = /^USER (\d+):\d+$/m.exec(readFileSync(join(ROOT, 'Dockerfile'), 'utf8')) ?? [];
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: Number(uid) });
    expect(pod.securityContext.seccompProfile).toEqual({ type: 'RuntimeDefault' });
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(gateway.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });

  test('refers to secrets and holds none', () => {
    expect(manifests.map(({ kind }) => kind)).not.toContain('Secret');
    for (const { name, value } of gateway.env) expect(`${name}=${value}`).toMatch(/^[A-Z_]+=\/(etc|run)\/tollgate\//);
    for (const { name, mountPath } of gateway.volumeMounts) {
      expect(pod.volumes.map((volume: { name: string }) => volume.name)).toContain(name);
      expect(gateway.env.some(({ value }: { value: string }) => value.startsWith(`${mountPath}/`))).toBe(true);
    }
  });
});

test('all that select gateways select those of the Deployment', () => {
  const labels = the('Deployment').spec.template.metadata.labels;
  expect(the('Deployment').spec.selector.matchLabels).toEqual(labels);
  expect(the('Service').spec.selector).toEqual(labels);
  expect(the('PodDisruptionBudget').spec.selector.matchLabels).toEqual(labels);
  expect(the('NetworkPolicy').spec.podSelector.matchLabels).toEqual(labels);
  expect(the('HorizontalPodAutoscaler').spec.scaleTargetRef).toMatchObject({
    kind: 'Deployment',
    name: the('Deployment').metadata.name,
  });
});

test('ports are named as the Deployment names them', () => {
  const names: string[] = the('Deployment').spec.template.spec.containers[0].ports.map(
    ({ name }: { name: string }) => name,
  );
  expect(names).toContain(the('Service').spec.ports[0].targetPort);
  for (const { ports } of the('NetworkPolicy').spec.ingress) expect(names).toContain(ports[0].port);
});

test('a pod that could gain rights is refused in their namespace, and theirs is as strict as that asks', () => {
  const { namespace } = parse(readFileSync(join(FOLDER, 'kustomization.yaml'), 'utf8')) as { namespace: string };
  expect(the('Namespace').metadata.name).toBe(namespace);
  expect(the('Namespace').metadata.labels).toMatchObject({
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/audit': 'restricted',
    'pod-security.kubernetes.io/warn': 'restricted',
  });
  const { spec } = the('Deployment').spec.template;
  expect([spec.hostNetwork, spec.hostPID, spec.hostIPC]).toEqual([undefined, undefined, undefined]);
  for (const volume of spec.volumes) expect(volume).not.toHaveProperty('hostPath');
});

test('gateways are an account of their own, which is given no token', () => {
  const { serviceAccountName, automountServiceAccountToken } = the('Deployment').spec.template.spec;
  expect(the('ServiceAccount', serviceAccountName)).toMatchObject({ automountServiceAccountToken: false });
  expect(automountServiceAccountToken).toBe(false);
});

test('a gateway that writes without end does not fill its node', () => {
  const { limits } = the('Deployment').spec.template.spec.containers[0].resources;
  expect(limits).toMatchObject({ memory: '512Mi', 'ephemeral-storage': '256Mi' });
});

describe('the network policies', () => {
  test('let nobody talk to anybody, but for what they name', () => {
    expect(the('NetworkPolicy', 'default-deny').spec).toEqual({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] });
  });

  test.each([
    ['names', 53],
    ['Redis', 6379],
    ['Sentinels', 26379],
    ['a collector of traces', 4318],
    ['the keys of an issuer of tokens', 443],
    ['the targets of gateway.yaml', 9000],
  ])('let gateways reach %s, and each with its peers named', (_, port) => {
    const { egress } = the('NetworkPolicy').spec as { egress: { to: object[]; ports: { port: number }[] }[] };
    const rules = egress.filter(({ ports }) => ports.some((one) => one.port === port));
    expect(rules).toHaveLength(1);
    expect(rules[0]!.to.length).toBeGreaterThan(0);
  });

  test('let the backends that gateways may reach in the namespace be reached by them', () => {
    const peers = the('NetworkPolicy').spec.egress.flatMap(({ to }: { to: Record<string, never>[] }) => to);
    const names = peers
      .filter((peer: object) => !('namespaceSelector' in peer) && 'podSelector' in peer)
      .map((peer: { podSelector: { matchLabels: object } }) => Object.values(peer.podSelector.matchLabels)[0]);
    const { podSelector, ingress } = the('NetworkPolicy', 'tollgate-backends').spec;
    expect(podSelector.matchExpressions[0].values.toSorted()).toEqual(names.toSorted());
    expect(ingress[0].from[0].podSelector.matchExpressions[0].values).toContain('tollgate');
  });
});

test('the autoscaler says what an outage of Redis admits', () => {
  expect(parse(the('ConfigMap').data['gateway.yaml']).redis.onFailure).toBe('local');
  expect(readFileSync(join(FOLDER, 'autoscaling.yaml'), 'utf8')).toMatch(/at most replicas × limit/);
  expect(the('HorizontalPodAutoscaler').spec.maxReplicas).toBe(10);
});
