import { useRef, useState } from 'preact/hooks';
import { type CustomerOfKey, nameOf, pathOf } from './kit/callers.tsx';
import { ChangeDialog, Field, ReasonField, reasonIn, SelectField, settledText } from './kit/dialog.tsx';
import { countText, momentText, ownZone, plural, Until } from './kit/format.tsx';
import { entriesOf, limitText, spentIn, WindowList, type Windows, windowText, zoneOf } from './kit/limit-windows.tsx';
import { MomentField, momentIn } from './kit/moment-field.tsx';
import { Shown } from './kit/states.tsx';
import { SHARED, useUsage } from './limits.tsx';
import { effectOf } from './operation-words.ts';
import { ifKnown } from './reading.ts';
import { ApiError, request, useOnce } from './requests.ts';
import type { LiftedBan, NewReset, NewTopUp, Reset, TopUp, Usage } from './types.ts';

// What an operator does for a caller that is refused. Used by the screens Now, Key, Customer and Explain.

/** A caller, and the help for it. */
export interface Helped {
  readonly how: 'lift' | 'topup';
  readonly id: string;
  readonly name: string | null;
  /** The plan of a token caller, without which its windows are unknown. */
  readonly plan?: string | null | undefined;
  /** The window that refuses it. */
  readonly window?: string | undefined;
  /** How many keys of the customer are banned: their bans are lifted with its own. */
  readonly banned?: number | undefined;
  /** Of a key. */
  readonly customer?: CustomerOfKey | undefined;
}

/** Whose limit is to be topped up: the customer's, if a limit that its keys share refuses the key. */
function toppedUp(of: Helped): Helped {
  const { window = '', customer } = of;
  if (customer === undefined || !window.startsWith(SHARED)) return of;
  return { how: 'topup', ...customer, window: window.slice(SHARED.length) };
}

interface Changes {
  readonly of: Helped;
  readonly onClose: () => void;
  /** Called after the change, so that the screen reads again what it shows. */
  readonly onChanged?: () => void;
}

export function HelpDialog(changes: Changes) {
  const Dialog = changes.of.how === 'lift' ? LiftDialog : TopUpDialog;
  return <Dialog {...changes} />;
}

export function LiftDialog({ of, onClose, onChanged }: Changes) {
  const { id, name, plan, banned = 0 } = of;
  const what = banned > 0 ? 'bans' : 'ban';
  const usage = useUsage(of.id, of.plan);
  const topUp = useTopUp(of, ifKnown(usage.reading)?.windows);
  const [isToppingUp, setToppingUp] = useState(false);
  const [toppedUpWindow, setToppedUpWindow] = useState<string | null>(null);
  const toggle = () => {
    setToppingUp(!isToppingUp);
    setToppedUpWindow(null);
  };
  /** What the top-up made, also if the lift fails after it: the dialog stays open then, without the fields of a top-up. */
  const added = useRef('');
  const act = async (form: FormData) => {
    if (form.get('amount')) {
      added.current = `${await topUp(form)} `;
      toggle();
      void usage.reload();
    }
    const reason = reasonIn(form);
    const query = new URLSearchParams({
      ...(reason === '' ? {} : { reason }),
      ...(banned > 0 ? { keys: 'true' } : {}),
    });
    const lifting = request<LiftedBan>('DELETE', `/admin/bans/${encodeURIComponent(id)}?${query}`);
    const { status, data } = await lifting.catch((failure) => {
      if (!(failure instanceof ApiError) || added.current === '') throw failure;
      onChanged?.();
      throw new ApiError(failure.status, failure.code, `${added.current}The ban is not lifted: ${failure.message}`);
    });
    onChanged?.();
    const spent = (data.spent ?? [])
      .map(({ window, resetAt }) => `${windowText(window)} (until ${momentText(resetAt)})`)
      .join(', ');
    const still =
      spent === '' ? '' : ` Still spent, so further requests are refused: ${spent}. Top it up to help at once.`;
    const lifted = data.keys === undefined ? 'The ban' : `${plural(data.keys.length, 'ban')} of keys`;
    const verb = data.keys === undefined || data.keys.length === 1 ? 'is' : 'are';
    return `${added.current}${lifted} of ${name ?? id} ${verb} lifted.${still}${settledText(status)}`;
  };
  return (
    <ChangeDialog
      title={`Lift the ${what} of ${name ?? id}`}
      isOneRequest={!isToppingUp}
      action={`Lift the ${what}`}
      act={act}
      onClose={onClose}
    >
      {banned > 0 && <p class="effect">{plural(banned, 'key')} banned now.</p>}
      {banned === 0 && usage.reading.state === 'known' && (
        <LiftEffect of={usage.reading.value} toppedUpWindow={toppedUpWindow} />
      )}
      <p>{effectOf(id, 'lift')}</p>
      <ReasonField hint="For operators, in the record of changes. Callers never see it." />
      {(plan || !id.startsWith('jwt_')) && (
        <Shown of={usage} what="the windows">
          {({ windows }: Usage) => (
            <>
              <WindowList of={windows} />
              {!id.startsWith('jwt_') && (
                <label class="check">
                  <input type="checkbox" checked={isToppingUp} onChange={toggle} /> Top up a limit, too
                </label>
              )}
              {isToppingUp && <TopUpFields windows={windows} refusing={of.window} onChange={setToppedUpWindow} />}
            </>
          )}
        </Shown>
      )}
    </ChangeDialog>
  );
}

/** What becomes of the next request when the ban is lifted. @param toppedUpWindow the window that is topped up before; null without one */
function LiftEffect({ of: { ban, windows }, toppedUpWindow }: { of: Usage; toppedUpWindow: string | null }) {
  const spent = spentIn(windows).filter(([name]) => name !== toppedUpWindow);
  if (ban === null) return <p class="effect">The ban has ended by itself.</p>;
  return (
    <p class="effect">
      Banned until <Until at={ban.until} />.{' '}
      {spent.length === 0 ? (
        'The next request is admitted within a second of the lift.'
      ) : (
        <>
          The next request is still refused:{' '}
          {spent.map(([name, { resetAt, form }], i) => (
            <>
              {i > 0 && '; '}the {windowText(name)} is spent until <Until at={resetAt} zone={zoneOf(form)} />
            </>
          ))}
          .
        </>
      )}
    </p>
  );
}

export function TopUpDialog({ of: helped, onClose, onChanged }: Changes) {
  const of = toppedUp(helped);
  const { id, name } = of;
  const usage = useUsage(of.id, of.plan);
  const topUp = useTopUp(of, ifKnown(usage.reading)?.windows);
  const act = async (form: FormData) => {
    const message = await topUp(form);
    onChanged?.();
    return message;
  };
  return (
    <ChangeDialog title={`Top up ${name ?? id}`} isOneRequest={true} action="Top up" act={act} onClose={onClose}>
      <p>{effectOf(id, 'topup')}</p>
      <Shown of={usage} what="the windows">
        {({ windows }: Usage) => (
          <>
            <TopUpFields windows={windows} refusing={of.window} />
            <ReasonField hint="For operators, in the record of changes. Callers never see it." />
          </>
        )}
      </Shown>
    </ChangeDialog>
  );
}

/** Tops up with the values of TopUpFields. A second click, or a repetition after a lost response, adds nothing. */
function useTopUp({ id, name }: Helped, windows: Windows = {}): (form: FormData) => Promise<string> {
  const once = useOnce();
  return async (form) => {
    const window = form.get('window') as NewTopUp['window'];
    const reason = reasonIn(form);
    const body: NewTopUp = {
      window,
      amount: Number(form.get('amount')),
      ...endIn(form),
      ...(reason === '' ? {} : { reason }),
    };
    const path = `${pathOf(id)}/topups`;
    const { status, data } = await request<TopUp>('POST', path, { body, headers: once(body) });
    const unit = windows[window]?.unit;
    const until = data.until === null ? '' : ` until ${momentText(data.until)}`;
    return `${name ?? id} has ${limitText(data.limit, data.window, unit)}${until}.${settledText(status)}`;
  };
}

/** The end that the fields of EndFields have. */
function endIn(form: FormData): Pick<NewTopUp, 'until' | 'zone'> {
  const [until, zone] = String(form.get('until')).split(' ') as [string, string?];
  if (until === 'window') return {};
  return zone === undefined ? { until: momentIn(String(form.get('date')))!.toISOString() } : { until, zone };
}

function TopUpFields({
  windows,
  refusing,
  onChange = () => {},
}: {
  windows: Windows;
  refusing: string | undefined;
  /** Called with the window that an amount is given for; null without an amount. */
  onChange?: (window: string | null) => void;
}) {
  const counted = changeable(windows);
  // Unless one refuses, the longest: a day is topped up more often than each minute until the evening.
  const [window, setWindow] = useState(
    () =>
      (counted.find(([name]) => name === refusing) ??
        counted.findLast(([, { unit }]) => unit === undefined) ??
        counted[0])?.[0] ?? '',
  );
  const [amount, setAmount] = useState('');
  const [end, setEnd] = useState('window');
  const chosen = counted.find(([name]) => name === window)?.[1];
  const changed = (change: { window?: string; amount?: string }) => {
    const next = { window, amount, ...change };
    setWindow(next.window);
    setAmount(next.amount);
    onChange(isAmount(next.amount) ? next.window : null);
  };
  const shared = Object.keys(windows).some((window) => window.startsWith(SHARED)) && (
    <p class="muted">What it shares with other keys is topped up on the screen of its customer.</p>
  );
  if (counted.length === 0)
    return (
      <>
        <p>It has no limit of its own.</p>
        {shared}
      </>
    );
  return (
    <>
      {shared}
      <div class="grid">
        <SelectField
          id="topup-window"
          name="window"
          label="Window"
          value={window}
          options={counted.map(([window, { used, limit }]) => [
            window,
            `${windowText(window)}: ${countText(used)} of ${countText(limit)} used`,
          ])}
          onChange={({ currentTarget }) => changed({ window: currentTarget.value })}
        />
        <Field
          id="topup-amount"
          label={counted.some(([, { unit }]) => unit !== undefined) ? 'Amount to add' : 'Requests to add'}
        >
          <input
            id="topup-amount"
            name="amount"
            type="number"
            min="1"
            max="999999999999999"
            step="1"
            title="A whole number of 1 or more"
            required
            inputmode="numeric"
            onInput={(event: Event) => changed({ amount: (event.target as HTMLInputElement).value })}
          />
        </Field>
        <EndFields windows={windows} end={end} setEnd={setEnd} />
      </div>
      {chosen !== undefined && isAmount(amount) && (
        <TopUpEffect window={window} of={chosen} amount={Number(amount)} end={end} />
      )}
    </>
  );
}

function isAmount(text: string): boolean {
  return /^[1-9]\d{0,14}$/.test(text);
}

/** What the limit is with the top-up, and for how long. @param end the value of EndFields */
function TopUpEffect({
  window,
  of: { limit, resetAt, form, unit },
  amount,
  end,
}: {
  window: string;
  of: ReturnType<typeof changeable>[number][1];
  amount: number;
  end: string;
}) {
  if (limit === 'unlimited') return null;
  const [until, zone] = end.split(' ');
  const then = limitText(limit + amount, window, unit);
  const isShort = /(?:^|-)(?:second|minute|hour)$/.test(window);
  if (until === 'window') {
    // A sliding window has no end, so the top-up lasts for one length.
    const isSliding = form?.startsWith('sliding') === true;
    return (
      <p class="effect">
        Then {then}{' '}
        {isSliding ? (
          `for one ${windowText(window, unit)}`
        ) : (
          <>
            until <Until at={resetAt} zone={zoneOf(form)} />
          </>
        )}
        .
      </p>
    );
  }
  return (
    <p class="effect">
      Then {then}
      {isShort && `, in each ${window.split('-').at(-1)}`}, until{' '}
      {until === 'today' ? `the end of today, ${zone}` : 'the given date'}.
    </p>
  );
}

/** When a top-up ends: with its window, at the end of today, or at a moment. */
function EndFields({ windows, end, setEnd }: { windows: Windows; end: string; setEnd: (end: string) => void }) {
  const own = ownZone();
  const ofWindows = changeable(windows).flatMap(([, { form }]) => zoneOf(form) ?? []);
  const zones = [...new Set([own, ...ofWindows, 'UTC'])];
  return (
    <>
      <SelectField
        id="topup-until"
        name="until"
        label="Ends"
        value={end}
        options={[
          ['window', 'with the window'],
          ...zones.map((zone) => [`today ${zone}`, `at the end of today, ${zone}`] as const),
          ['date', 'on a date…'],
        ]}
        onChange={({ currentTarget }) => setEnd(currentTarget.value)}
      />
      {end === 'date' && <MomentField id="topup-date" name="date" label="Date and time" />}
    </>
  );
}

/** @param of a key or a customer */
export function ResetDialog({
  of,
  usage,
  onClose,
  onChanged,
}: {
  of: { readonly id: string; readonly name: string | null };
  usage: Usage | null;
  onClose: () => void;
  onChanged: () => void;
}) {
  const once = useOnce();
  const [windows] = useState(() => changeable(usage?.windows ?? {}));
  const act = async (form: FormData) => {
    const chosen = form.getAll('windows') as NonNullable<NewReset['windows']>[number][];
    const body: NewReset = { windows: chosen };
    if (chosen.length === 0) throw new ApiError(0, 'none', 'Choose at least one window.');
    const path = `${pathOf(of.id)}/usage/reset`;
    const { status, data } = await request<Reset>('POST', path, { body, headers: once(body) });
    onChanged();
    const ban = data.ban === null ? '' : ` Its ban stays until ${momentText(data.ban.until)}: lift it to help at once.`;
    return `The usage of ${nameOf(of)} was reset: ${data.windows.map((window) => windowText(window)).join('; ')}.${ban}${settledText(status)}`;
  };
  return (
    <ChangeDialog
      title={`Reset the usage of ${nameOf(of)}`}
      isOneRequest={true}
      action="Reset usage"
      act={act}
      onClose={onClose}
    >
      <p>{effectOf(of.id, 'reset')}</p>
      {usage !== null && <ResetEffect of={usage} />}
      <fieldset>
        <legend>Windows</legend>
        {windows.length === 0 && <p>It has no limit of its own.</p>}
        {windows.map(([window, { used, limit }]) => (
          <label class="check" key={window}>
            <input type="checkbox" name="windows" value={window} defaultChecked={true} /> {windowText(window)}:{' '}
            {countText(used)} of {countText(limit)} used, then 0
          </label>
        ))}
      </fieldset>
    </ChangeDialog>
  );
}

/** What becomes of strikes and a ban when the usage is reset. */
function ResetEffect({ of: { strikes, ban } }: { of: Usage }) {
  const cleared =
    strikes === 0 ? 'There are no strikes.' : `${plural(strikes, 'strike')} ${strikes === 1 ? 'is' : 'are'} cleared.`;
  return (
    <p class="effect">
      {cleared}{' '}
      {ban === null ? (
        'There is no ban: the next request is admitted within a second.'
      ) : (
        <>
          The ban until <Until at={ban.until} /> stays: requests are refused until you lift it.
        </>
      )}
    </p>
  );
}

/** The windows that can be topped up and reset by the id that has them: they count, and belong to no one else. */
function changeable(windows: Windows) {
  return entriesOf(windows).filter(([name, { limit }]) => limit !== 'unlimited' && !name.startsWith(SHARED));
}
