import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What takes longest, the longest first, by the name of the file below test/. What is missing here is only begun later. */
const LONGEST = [
  'system/redis-shapes/stale-replica',
  'system/patterns',
  'system/operations/sealed-file',
  'system/redis-shapes/replica-trouble',
  'system/workers/hung-workers',
  'system/admin/plan-drafts',
  'system/admin/plans-file',
  'system/reload/plans',
  'system/forward/retries',
  'system/forward/websocket/upgrade',
  'system/exactness/matrix',
  'system/listen/http2/streams',
  'system/forward/upstream/targets',
  'system/listen/http2/floods',
  'system/listen/leaving',
  'system/redis-shapes/gateways',
  'system/exhaustion/left-in-pairs',
  'system/outage/silence',
  'system/lifecycle/wrong-pepper',
  'stores/ledger-embedded',
  'system/cli/keys/backup',
  'system/cli/keys/apply',
  'system/admin/history',
  'system/admin/live',
  'system/outage/restarts',
  'system/redis-shapes/durability',
  'gateway/jwt',
  'listen/proxy-protocol',
  'system/listen/http2/leaving',
  'system/tools/fuzz-exchanges',
  'system/exactness/restarts',
  'system/reload/settings',
  'system/workers/stop',
  'system/admin/description',
  'system/outage/policies',
  'listen/drain',
  'listen/tls',
  'cli/plans/check',
  'system/redis-shapes/cluster',
  'system/lifecycle/log-sink',
  'system/workers/log',
  'system/redis-shapes/start',
  'system/tools/fuzz-http2-frames',
  'system/tools/fuzz-web-sockets',
  'system/listen/one-buffer',
  'cli/keys/keys',
  'listen/connections',
  'admin/record-of-changes',
  'system/tools/load',
  'system/outage/embedded',
  'config/yaml',
  'system/workers/rolling',
  'system/exactness/replay',
  'system/outage/total-wait',
  'gateway/504-upstream-timeout',
  'system/workers/start',
  'system/tools/fuzz-hand-overs',
  'system/lifecycle/start',
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
