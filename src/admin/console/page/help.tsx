import { useRef, useState } from 'preact/hooks';
import { Fields, type Hints, inputIn } from './fields.tsx';
import { type CustomerOfKey, nameOf } from './kit/callers.tsx';
import { settledText } from './kit/dialog.tsx';
import { countText, momentText, ownZone, plural, say, Until } from './kit/format.tsx';
import { entriesOf, limitText, spentIn, WindowList, type Windows, windowText, zoneOf } from './kit/limit-windows.tsx';
import { MomentField, momentIn } from './kit/moment-field.tsx';
import { Shown } from './kit/states.tsx';
import { SHARED, useUsage } from './limits.tsx';
import { type Changing, OperationDialog, send } from './operation-dialog.tsx';
import { operationOn } from './operation-words.ts';
import { ifKnown } from './reading.ts';
import { ApiError, useOnce } from './requests.ts';
import type { LiftedBan, Reset, TopUp, Usage } from './types.ts';

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
  readonly onChanged?: (() => void) | undefined;
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
  const topUpFirst = async (form: FormData) => {
    added.current = `${await topUp(form)} `;
    toggle();
    void usage.reload();
  };
  return (
    <OperationDialog<LiftedBan>
      operation={operationOn(id, 'lift')}
      of={of}
      title={`Lift the ${what} of ${name ?? id}`}
      action={`Lift the ${what}`}
      hints={{ keys: null }}
      given={() => (banned > 0 ? { keys: true } : {})}
      before={isToppingUp ? topUpFirst : undefined}
      failed={(failure) => {
        if (added.current === '') return failure;
        onChanged?.();
        return new ApiError(failure.status, failure.code, `${added.current}The ban is not lifted: ${failure.message}`);
      }}
      done={({ spent, keys }) => {
        const windows = (spent ?? []).map(
          ({ window, resetAt }) => `${windowText(window)} (until ${momentText(resetAt)})`,
        );
        const still = `Still spent, so further requests are refused: ${windows.join(', ')}. Top it up to help at once.`;
        const lifted = keys === undefined ? 'The ban' : `${plural(keys.length, 'ban')} of keys`;
        const verb = keys === undefined || keys.length === 1 ? 'is' : 'are';
        return `${added.current}${lifted} of ${name ?? id} ${verb} lifted.${windows.length === 0 ? '' : ` ${still}`}`;
      }}
      onDone={onChanged}
      onClose={onClose}
      intro={
        banned > 0 ? (
          <p class="effect">{plural(banned, 'key')} banned now.</p>
        ) : (
          usage.reading.state === 'known' && <LiftEffect of={usage.reading.value} toppedUpWindow={toppedUpWindow} />
        )
      }
    >
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
              {isToppingUp && <TopUpFields of={of} windows={windows} onChange={setToppedUpWindow} />}
            </>
          )}
        </Shown>
      )}
    </OperationDialog>
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
          {spent.map(
            ([name, { resetAt, form }], i) =>
              say`${i > 0 && '; '}the ${windowText(name)} is spent until ${<Until at={resetAt} zone={zoneOf(form)} />}`,
          )}
          .
        </>
      )}
    </p>
  );
}

export function TopUpDialog({ of: helped, onClose, onChanged }: Changes) {
  const of = toppedUp(helped);
  const usage = useUsage(of.id, of.plan);
  const windows = ifKnown(usage.reading)?.windows;
  return (
    <OperationDialog<TopUp>
      operation={operationOn(of.id, 'topup')}
      of={of}
      title={`Top up ${nameOf(of)}`}
      action="Top up"
      hints={{ ...OF_TOP_UP, ...(windows === undefined && { reason: null }) }}
      given={(form) => topUpIn(of, form)}
      done={(output) => toppedUpText(of, output, windows)}
      onDone={onChanged}
      onClose={onClose}
      intro={
        <Shown of={usage} what="the windows">
          {({ windows }: Usage) => <TopUpFields of={of} windows={windows} />}
        </Shown>
      }
    />
  );
}

/** The members that TopUpFields ask for. */
const OF_TOP_UP: Hints = { window: null, amount: null, until: null, zone: null };

function topUpIn(of: Helped, form: FormData): Record<string, unknown> {
  const { fields } = operationOn(of.id, 'topup');
  const [until, zone] = String(form.get('until')).split(' ') as [string, string?];
  const end = until === 'date' ? { until: momentIn(String(form.get('date')))!.toISOString() } : { until, zone };
  return { ...inputIn(form, fields), ...end };
}

/** What a top-up has made of a limit, in words. */
function toppedUpText(of: Helped, { limit, window, until }: TopUp, windows: Windows = {}): string {
  const end = until === null ? '' : ` until ${momentText(until)}`;
  return `${nameOf(of)} has ${limitText(limit, window, windows[window]?.unit)}${end}.`;
}

/** Tops up with the values of TopUpFields. A second click, or a repetition after a lost response, adds nothing. */
function useTopUp(of: Helped, windows: Windows | undefined): (form: FormData) => Promise<string> {
  const once = useOnce();
  return async (form) => {
    const body = topUpIn(of, form);
    const { status, data } = await send<TopUp>(operationOn(of.id, 'topup'), of.id, body, once(body));
    return `${toppedUpText(of, data, windows)}${settledText(status)}`;
  };
}

interface TopUpProps {
  readonly of: Helped;
  readonly windows: Windows;
  /** Called with the window that an amount is given for; null without an amount. */
  readonly onChange?: (window: string | null) => void;
}

function TopUpFields({ of, windows, onChange = () => {} }: TopUpProps) {
  const counted = changeable(windows);
  // Unless one refuses, the longest: a day is topped up more often than each minute until the evening.
  const [window, setWindow] = useState(
    () =>
      (counted.find(([name]) => name === of.window) ??
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
  const zones = new Set([ownZone(), ...counted.flatMap(([, { form }]) => zoneOf(form) ?? []), 'UTC']);
  const hints: Hints = {
    window: {
      options: counted.map(([name, { used, limit }]) => [
        name,
        `${windowText(name)}: ${countText(used)} of ${countText(limit)} used`,
      ]),
      first: window,
      onInput: (window) => changed({ window }),
    },
    amount: {
      label: counted.some(([, { unit }]) => unit !== undefined) ? 'Amount to add' : 'Requests to add',
      onInput: (amount) => changed({ amount }),
    },
    until: {
      label: 'Ends',
      options: [
        ['window', 'with the window'],
        ...[...zones].map((zone) => [`today ${zone}`, `at the end of today, ${zone}`] as const),
        ['date', 'on a date…'],
      ],
      first: end,
      onInput: setEnd,
    },
    zone: null,
    reason: null,
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
        <Fields of={operationOn(of.id, 'topup').fields} hints={hints} />
        {end === 'date' && <MomentField id="topup-date" name="date" label="Date and time" />}
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

interface TopUpEffectProps {
  readonly window: string;
  readonly of: ReturnType<typeof changeable>[number][1];
  readonly amount: number;
  readonly end: string;
}

/** What the limit is with the top-up, and for how long. @param end of the field `until` */
function TopUpEffect({ window, of: { limit, resetAt, form, unit }, amount, end }: TopUpEffectProps) {
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
        {isSliding ? `for one ${windowText(window, unit)}` : say`until ${<Until at={resetAt} zone={zoneOf(form)} />}`}.
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

export function ResetDialog({ of, usage, onClose, onChanged }: Changing & { usage: Usage | null }) {
  const [windows] = useState(() => changeable(usage?.windows ?? {}));
  const options = windows.map(
    ([name, { used, limit }]) =>
      [name, `${windowText(name)}: ${countText(used)} of ${countText(limit)} used, then 0`] as const,
  );
  return (
    <OperationDialog<Reset>
      operation={operationOn(of.id, 'reset')}
      of={of}
      title={`Reset the usage of ${nameOf(of)}`}
      action="Reset usage"
      hints={{ windows: { options, ...(options.length === 0 && { hint: 'It has no limit of its own.' }) } }}
      intro={usage !== null && <ResetEffect of={usage} />}
      done={({ windows, ban }) => {
        const still = ban === null ? '' : ` Its ban stays until ${momentText(ban.until)}: lift it to help at once.`;
        return `The usage of ${nameOf(of)} was reset: ${windows.map((one) => windowText(one)).join('; ')}.${still}`;
      }}
      onDone={onChanged}
      onClose={onClose}
    />
  );
}

/** What becomes of strikes and a ban when the usage is reset. */
function ResetEffect({ of: { strikes, ban } }: { of: Usage }) {
  const cleared =
    strikes === 0 ? 'There are no strikes.' : `${plural(strikes, 'strike')} ${strikes === 1 ? 'is' : 'are'} cleared.`;
  return (
    <p class="effect">
      {cleared}{' '}
      {ban === null
        ? 'There is no ban: the next request is admitted within a second.'
        : say`The ban until ${<Until at={ban.until} />} stays: requests are refused until you lift it.`}
    </p>
  );
}

/** The windows that can be topped up and reset by the id that has them: they count, and belong to no one else. */
function changeable(windows: Windows) {
  return entriesOf(windows).filter(([name, { limit }]) => limit !== 'unlimited' && !name.startsWith(SHARED));
}
