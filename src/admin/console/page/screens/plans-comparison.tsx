import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { Act } from '../kit/act.tsx';
import { Running, useRun } from '../kit/run.tsx';
import { Empty, Problem } from '../kit/states.tsx';
import { isPassing, request } from '../requests.ts';
import type { Compared } from '../types.ts';

/** Of the reason of a change of plans. */
export const WHY_PLANS = {
  reason: { hint: 'Why, such as a ticket: for operators, in the history and the record of changes.' },
};

/** How long after a temporary failure the gateway is asked again, in milliseconds. */
export const RETRY_MS = 3_000;

interface WithComparisonProps {
  readonly text: string;
  readonly against: string;
  readonly known: Compared | null;
  readonly keep: (compared: Compared) => void;
  readonly children: (compared: Compared) => ComponentChildren;
}

/**
 * Compares a text of plans.yaml with the plans in force and with the file, and shows the result.
 * @param against the version of the file; another one is compared again
 * @param known the result for this text; null if there is none yet
 * @param keep remembers the result, and gives it back as `known`
 */
export function WithComparison({ text, against, known, keep, children }: WithComparisonProps) {
  const run = useRun();
  const compare = () =>
    run.start(async (signal) => {
      const { data } = await request<Compared>('POST', '/admin/plans/diff', { body: { text }, signal });
      if (!signal.aborted) keep(data);
    });
  const isKnown = known !== null;
  useEffect(() => {
    if (!isKnown) void compare();
  }, [text, against, isKnown]);
  const { error } = run;
  useEffect(() => {
    if (error === null || !(isPassing(error) || error.code === 'busy')) return;
    const timer = setTimeout(() => void compare(), RETRY_MS);
    return () => clearTimeout(timer);
  }, [error]);
  if (run.since !== null)
    return <Running what="Comparing, and counting the active keys" since={run.since} cancel={run.cancel} />;
  if (error !== null) return <Problem error={error} retry={compare} />;
  if (known !== null) return <>{children(known)}</>;
  return (
    <Empty title="Cancelled.">
      <p>
        <Act text="Compare again" on={compare} />
      </p>
    </Empty>
  );
}
