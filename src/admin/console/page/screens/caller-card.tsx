import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Act } from '../kit/act.tsx';
import { Meter } from '../kit/charts.tsx';
import { CopyId } from '../kit/copy.tsx';
import { countText, say, Time } from '../kit/format.tsx';
import { isRefusing, ResetText, tightestOf, windowText } from '../kit/limit-windows.tsx';
import { MoreMenu } from '../kit/menu.tsx';
import { Badge } from '../kit/page.tsx';
import { Aged } from '../kit/seen.tsx';
import { isOn, titleOf, verbOf } from '../operation-words.ts';
import { OPERATIONS } from '../operations.js';
import { derived, type Reading } from '../reading.ts';
import type { Resource } from '../requests.ts';
import { may, useSession } from '../signed-in.tsx';
import type { RefusalsOfCaller, Usage } from '../types.ts';

// The head of the screen of a key or a customer: what an operator can do, then its state, its tightest limit, and since when it is refused.

interface CallerCardProps {
  readonly id: string;
  /** The badge of its state. */
  readonly state: ComponentChildren;
  /** Why it admits no request, in place of its limits; null if it may. */
  readonly ended: ComponentChildren;
  readonly facts: ComponentChildren;
  readonly usage: Reading<Usage>;
  readonly recent: Resource<RefusalsOfCaller>;
}

export function CallerCard({ id, state, ended, facts, usage, recent }: CallerCardProps) {
  return (
    <div class="panel stack">
      <p class="row">
        {state}
        <CopyId id={id} />
        {facts}
      </p>
      {ended !== null ? (
        <p>{ended}</p>
      ) : (
        usage.state === 'known' && (
          <Aged of={usage}>
            <Tightest of={usage.value} />
          </Aged>
        )
      )}
      {recent.reading.state === 'known' && (
        <LastCall of={recent.reading.value} isRefused={derived(usage, isRefusing)} isEnded={ended !== null} />
      )}
    </div>
  );
}

/** What can be done: the dialog, its name, and where it stands: `primary`, `more` in the menu, `final` at its end, or a usual button. */
export type Action = readonly [dialog: string, text: string, place: 'primary' | 'more' | 'final' | ''];

/** Up to this width style.css gives a screen one column, and a row has room for one button and a menu. */
const NARROW = window.matchMedia('(max-width: 46rem)');

function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener('change', change);
    return () => NARROW.removeEventListener('change', change);
  }, []);
  return isNarrow;
}

/** The actions that the reader may take now: on a phone the first one and a menu. @param of false: not that one */
export function Actions({ of, open }: { of: readonly (Action | false)[]; open: (dialog: string) => void }) {
  const isNarrow = useIsNarrow();
  const actions = of.filter((one) => one !== false);
  const isInMenu = ([, , place]: Action, i: number) => place === 'more' || place === 'final' || (isNarrow && i > 0);
  const more = actions.filter(isInMenu);
  return (
    <>
      {actions
        .filter((one, i) => !isInMenu(one, i))
        .map(([dialog, text, kind]) => (
          <Act text={text} key={dialog} kind={kind} on={() => open(dialog)} />
        ))}
      <MoreMenu entries={more.map(([dialog, text, place]) => [text, () => open(dialog), place === 'final'])} />
    </>
  );
}

/** The limit of which the largest share is used. */
function Tightest({ of: { windows } }: { of: Usage }) {
  const tightest = tightestOf(windows);
  if (tightest === null) return <p class="muted">No limit applies to it.</p>;
  const [name, { used, limit, remaining, resetAt, form, unit = '' }] = tightest;
  return (
    <div class="stack tight tightest">
      <p>
        <strong>{say`${countText(remaining)} ${unit} left`}</strong> of {countText(limit)} a {windowText(name, unit)}{' '}
        {remaining === 0 && <Badge kind="bad">Spent</Badge>}
      </p>
      <Meter label="Used of the tightest limit" used={used} limit={limit} />
      <p class="muted">{used > 0 ? <ResetText form={form} at={resetAt} /> : 'Nothing used yet.'}</p>
    </div>
  );
}

interface LastCallProps {
  readonly of: RefusalsOfCaller;
  readonly isRefused: Reading<boolean>;
  readonly isEnded: boolean;
}

/** @param isRefused whether a ban or a limit refuses its next request */
function LastCall({ of: { last, refusedSince, complete }, isRefused, isEnded }: LastCallProps) {
  const since =
    refusedSince === null || isEnded || isRefused.state !== 'known' ? null : !isRefused.value ? (
      say`It was refused from ${<Time at={refusedSince} />} on; nothing refuses its next request. `
    ) : (
      <>
        <span class="bad">
          Refused since <Time at={refusedSince} />, without an admitted request in between.
        </span>{' '}
      </>
    );
  return (
    <p class="muted">
      {since}
      {last === null
        ? 'No gateway remembers a request of it.'
        : say`Last request ${<Time at={last.at} />} from ${<code>{last.clientAddress}</code>}.`}
      {!complete && ' As far as this gateway knows: the store is away.'}
    </p>
  );
}

/** The verbs of the operations that screens place among their actions themselves. */
const PLACED = ['lift', 'resume', 'topup', 'reset', 'rotate', 'end', 'move', 'suspend', 'revoke', 'delete'];

/** The other operations on a key or a customer that the reader may use. What ends a ban is among them only while there is one. */
export function useFurtherActions(id: string, isBanned: boolean): readonly Action[] {
  const { role } = useSession();
  return OPERATIONS.filter((one) => {
    const isMeant = isOn(id, one) && one.effect !== undefined && !PLACED.includes(verbOf(one));
    return isMeant && (isBanned || one.endsBan === undefined) && may(role, one.role);
  }).map((one) => [verbOf(one), `${titleOf(verbOf(one))}…`, one.isFinal === true ? 'final' : 'more']);
}
