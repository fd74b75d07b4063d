import { useState } from 'preact/hooks';
import { Act } from './kit/act.tsx';
import { nameOf, pathOf } from './kit/callers.tsx';
import { notify, settledText } from './kit/dialog.tsx';
import { countText, lengthText, ordinal, plural, say, Until } from './kit/format.tsx';
import { type DrawUndo, InFlight, limitText, type TopUpPart, WindowList } from './kit/limit-windows.tsx';
import { Badge, Facts, Note, Section } from './kit/page.tsx';
import { Shown } from './kit/states.tsx';
import { ApiError, type Resource, request, useResource } from './requests.ts';
import { useMay } from './signed-in.tsx';
import type { Plan, UndoneTopUp, Usage } from './types.ts';

// What a key or a customer may use and has used, with its strikes and its ban.

/** How the names of limits begin that all keys of a customer share. They are changed for the customer alone. */
export const SHARED = 'customer-';

/** The counts of a caller. @param id null: nothing is read. @param everyMs as of useResource */
export function useUsage(id: string | null, plan?: string | null, everyMs: number | null = null): Resource<Usage> {
  const query = id?.startsWith('jwt_') ? plan && `?plan=${encodeURIComponent(plan)}` : '';
  return useResource<Usage>(id === null || query == null ? null : `${pathOf(id)}/usage${query}`, everyMs);
}

interface LimitsProps {
  readonly of: { readonly id: string; readonly name: string | null };
  readonly usage: Resource<Usage>;
  readonly plan: Plan | undefined;
  /** A customer, or a key that is not revoked: only its top-ups can be undone. */
  readonly isLive: boolean;
}

export function Limits({ of, usage, plan, isLive }: LimitsProps) {
  const undo = useUndo(of, usage.reload);
  const note = plan?.enforce === false ? 'This plan is only watched: it counts requests, but refuses none.' : null;
  return (
    <Section title="Limits" note={note}>
      <Shown of={usage} what="the limits">
        {(data: Usage) => (
          <div class="panel stack">
            <WindowList of={data.windows} undo={isLive ? undo : undefined} />
            <InFlight of={data.inFlight} />
            <Strikes of={data} plan={plan} />
            {data.shadow !== undefined && (
              <div class="rule stack">
                <h3>Watched limits, which refuse no request</h3>
                <WindowList of={data.shadow.windows} />
                <p>
                  {plural(data.shadow.strikes, 'strike')}
                  {data.shadow.ban !== null && say`, would be banned until ${<Until at={data.shadow.ban.until} />}`}
                </p>
              </div>
            )}
          </div>
        )}
      </Shown>
    </Section>
  );
}

/** Draws the button that takes a top-up back, for an operator. @param onUndone called afterwards */
export function useUndo(of: { readonly id: string; readonly name: string | null }, onUndone: () => void): DrawUndo {
  const mayHelp = useMay('operator');
  return (part, window, unit) =>
    mayHelp && !window.startsWith(SHARED) && <UndoTopUp of={of} part={part} unit={unit} onUndone={onUndone} />;
}

interface UndoTopUpProps {
  readonly of: { readonly id: string; readonly name: string | null };
  readonly part: TopUpPart;
  readonly unit?: string | undefined;
  readonly onUndone: () => void;
}

/** The button that takes a top-up back, without a dialog: what was used of it stays counted, and it can be made again. */
function UndoTopUp({ of, part: { id: topUp, amount }, unit, onUndone }: UndoTopUpProps) {
  const [isRunning, setRunning] = useState(false);
  const undo = async () => {
    if (isRunning) return;
    setRunning(true);
    try {
      const path = `${pathOf(of.id)}/topups/${encodeURIComponent(topUp)}`;
      const { status, data } = await request<UndoneTopUp>('DELETE', path);
      notify(
        `The top-up of ${nameOf(of)} is undone: it has ${limitText(data.limit, data.window, unit)}.${settledText(status)}`,
      );
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      notify(`The top-up was not undone. ${failure.message}`);
    }
    setRunning(false);
    onUndone();
  };
  return <Act text="Undo" aria-busy={isRunning} aria-label={`Undo the top-up of ${countText(amount)}`} on={undo} />;
}

function Strikes({ of: { strikes, ban, rung, nextBanSeconds }, plan }: { of: Usage; plan: Plan | undefined }) {
  if (nextBanSeconds === null) return <p class="muted">This plan has no bans.</p>;
  const rule = plan?.bans ?? null;
  return (
    <Facts
      of={[
        [
          'Strikes',
          ban === null && (
            <>
              {rule === null ? countText(strikes) : `${countText(strikes)} of ${countText(rule.after)}`}
              {rule !== null && <Note>within {lengthText(rule.withinMs / 1_000)}; each refusal is one</Note>}
            </>
          ),
        ],
        [
          'Ban',
          ban === null ? (
            say`none now${rung > 0 && <Note>its {ordinal(rung)} ban is not forgotten yet</Note>}`
          ) : (
            <>
              <Badge kind="bad">{say`${ordinal(ban.number)} ban, until ${<Until at={ban.until} />}`}</Badge>
              <p class="muted">
                {rule !== null &&
                  `Banned for ${plural(rule.after, 'refusal')} within ${lengthText(rule.withinMs / 1_000)}. `}
                Requests during a ban do not lengthen it.
              </p>
            </>
          ),
        ],
        ['Next ban', `the ${ordinal(rung + 1)}, would last ${lengthText(nextBanSeconds)}`],
      ]}
    />
  );
}
