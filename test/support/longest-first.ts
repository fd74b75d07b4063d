import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What takes longest, the longest first, by the name of the file below test/. What is missing here is only begun later. */
const LONGEST = [
  'exactness/matrix',
  'listen/http2',
  'redis-shapes/gateways',
  'forward/targets',
  'forward/upgrade',
  'reload/plans',
  'outage/restarts',
  'outage/policies',
  'outage/silence',
  'listen/leaving',
  'exactness/restarts',
  'listen/proxy-protocol',
  'workers/stop',
  'gateway/jwt',
  'listen/http2-floods',
  'listen/tls',
  'listen/drain',
  'cli/keys',
  'redis-shapes/cluster-moves',
  'gateway/504-upstream-timeout',
  'cli/start',
  'redis-shapes/start',
  'redis-shapes/sentinel',
  'workers/rolling',
  'workers/log',
  'workers/start',
  'lifecycle/replicas',
  'lifecycle/log-sink',
  'lifecycle/start',
  'load/load',
  'cli/keys-import',
  'cli/plans-check',
  'fuzz/web-sockets',
  'fuzz/exchanges',
  'conformance/http1',
  'gateway/shadow',
  'gateway/deprecations',
  'simulate/exactness',
  'forward/client-leaves',
  'workers/spread',
];

/** Begins with the longest files, so that none of them runs alone at the end. The order of all others is the runner's. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONGEST.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return index === -1 ? LONGEST.length : index;
    };
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
