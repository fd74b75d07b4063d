import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useLostSince } from '../link.ts';
import { type Known, oldFrom, type Reading } from '../reading.ts';
import { clockText } from './format.tsx';
import { Icon } from './icon.tsx';
import { Badge } from './page.tsx';

// Values that may have become old: what was read three intervals ago is shown, with its time, and not as the present.

/** Whether a value is too old to be shown as the present, as any is while the gateway does not answer. */
export function useIsOld(of: Known<unknown>): boolean {
  const [, redraw] = useState({});
  const isLost = useLostSince() !== null;
  const leftMs = oldFrom(of) - Date.now();
  useEffect(() => {
    if (leftMs <= 0) return;
    const timer = setTimeout(() => redraw({}), leftMs + 1);
    return () => clearTimeout(timer);
  }, [of]);
  return isLost || leftMs <= 0;
}

/** A state that is as it should be. It is green only while the value that says so is young. @param of that value */
export function Good({ of, children }: { of: Known<unknown>; children: ComponentChildren }) {
  if (useIsOld(of)) {
    return (
      <Badge kind="plain">
        {children} <AsOf of={of} />
      </Badge>
    );
  }
  return (
    <span class="badge good">
      <Icon of="check" />
      <span>{children}</span>
    </span>
  );
}

/** A state that is not known, or not yet. */
export function NotKnown({ of, what = 'State' }: { of: Exclude<Reading<unknown>, Known<unknown>>; what?: string }) {
  return of.state === 'failed' ? <Badge kind="plain">{what} unknown</Badge> : null;
}

function AsOf({ of: { at } }: { of: Known<unknown> }) {
  return <span class="as-of">as of {clockText(at)}</span>;
}

/** What is drawn of a value: grey, with its time, once the value is old. */
export function Aged({ of, children }: { of: Known<unknown>; children: ComponentChildren }) {
  const isOld = useIsOld(of);
  return (
    <>
      {isOld && (
        <p class="as-of" role="status">
          As of {clockText(of.at)}
        </p>
      )}
      <div class={isOld ? 'aged is-old' : 'aged'}>{children}</div>
    </>
  );
}
