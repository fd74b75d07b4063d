import type { Plans } from '../../model/plan.ts';
import { logLineOf, type RecentRequest } from '../../simulate/recent-record.ts';
import { type GroupsOf, Recording } from '../../simulate/recording.ts';
import { replay } from '../../simulate/replay.ts';
import { callerReport, keyReport, mostChanged, reportOf, type Sources, touchedOf } from '../../simulate/report.ts';

/** The keys of a report that are listed, and the callers: those with the most changes. */
const MAX_LISTED = 1_000;
/** The plans that a log may name. More names than a gateway has plans come from no gateway, and each is a row of the report. */
const MAX_PLANS = 2_000;

/** What was recorded: lines of a gateway's log, or requests that gateways remember. A request takes about 32 bytes, and as many for each unit. */
export class RecordedRequests {
  readonly #recording: Recording;
  #isLog = false;

  /** @param groupsOf null if no plan has groups of routes */
  constructor(groupsOf: GroupsOf | null) {
    this.#recording = new Recording(groupsOf);
  }

  add(requests: readonly RecentRequest[]): void {
    for (const request of requests) this.#recording.read(logLineOf(request));
  }

  addLog(text: string): void {
    this.#isLog = true;
    this.#recording.read(Buffer.from(withoutByteOrderMark(text)).toString('latin1'));
  }

  /** @returns all of it, or a sentence that says why there is nothing to simulate */
  whole(): Recording | { readonly fault: string } {
    if (this.#recording.census.lines === 0) return { fault: this.#isLog ? NO_LINES : NO_REQUESTS };
    if (new Set(this.#recording.shapes.map(({ plan }) => plan)).size > MAX_PLANS) {
      return { fault: `The log names more than ${MAX_PLANS} plans: no gateway has written it.` };
    }
    return this.#recording;
  }
}

/**
 * Replays recorded requests under other plans, in memory.
 * @param plans `before`: those in force; `after`: those that are tried
 * @returns the simulation, or a sentence that says why there is nothing to simulate
 */
export function simulate(
  recorded: RecordedRequests,
  { before, after }: { readonly before: Plans; readonly after: Plans },
  sources: Sources,
) {
  const recording = recorded.whole();
  if ('fault' in recording) return recording;
  const replayed = replay(recording, { plans: after, before });
  const report = reportOf(replayed, after, sources);
  const keys = mostChanged(replayed.keys, MAX_LISTED).map(keyReport);
  const callers = mostChanged(replayed.callers, MAX_LISTED).map(callerReport);
  const { stepMs, buckets } = replayed.timeline;
  return {
    span: { from: report.from, to: report.to, requests: recording.census.requests },
    report: { ...report, keys, callers },
    baseline: { verdicts: replay(recording, { plans: before, before, isBaseline: true }).differs.verdicts },
    moreKeys: countOf(touchedOf(replayed.keys)) - keys.length,
    moreCallers: countOf(touchedOf(replayed.callers)) - callers.length,
    timeline: {
      stepSeconds: stepMs / 1_000,
      buckets: buckets.map(({ fromMs, counts }) => ({ from: new Date(fromMs).toISOString(), ...counts })),
    },
  };
}

const NO_LINES =
  'The log has no line of a request that was decided by a plan. Give what `tollgate serve` writes to standard output, ' +
  'with LOG_LEVEL info or below, nothing before the lines.';
const NO_REQUESTS =
  'The gateway remembers no request that was decided by a plan. Send some, or give the lines of a log.';

function countOf(all: Iterable<unknown>): number {
  let count = 0;
  for (const _ of all) count++;
  return count;
}

function withoutByteOrderMark(text: string): string {
  return text.startsWith('\uFEFF') ? text.slice(1) : text;
}
