import type { ComponentChildren } from 'preact';
import { useEffect, useId, useState } from 'preact/hooks';
import type { Helped } from '../help.tsx';
import { HelpDialog } from '../help-later.ts';
import { Act, Go } from '../kit/act.tsx';
import { CallerName, isCallerId, pathOf } from '../kit/callers.tsx';
import { Meter } from '../kit/charts.tsx';
import { CopyButton } from '../kit/copy.tsx';
import { Field } from '../kit/dialog.tsx';
import {
  countText,
  latencyText,
  millisecondsOf,
  Prose,
  plural,
  say,
  Time,
  Until,
  useNow,
  WholeMoments,
} from '../kit/format.tsx';
import { WindowList, windowText } from '../kit/limit-windows.tsx';
import { Badge, Page } from '../kit/page.tsx';
import { hasFormOfSecret, isRequestId } from '../kit/request-id.ts';
import { Empty, Loading, Shown } from '../kit/states.tsx';
import { VerdictBadge } from '../kit/verdict-badge.tsx';
import { useUndo, useUsage } from '../limits.tsx';
import { isEnding } from '../operation-words.ts';
import { hrefOf, navigate } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { useResource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { ChangePage, Refusal, RefusalList, ShownKey, Usage } from '../types.ts';
import { refusalOf, stateOf } from './caller-state.ts';
import { actorText, membersOf } from './change-columns.tsx';
import { answerOf, isInForce, refusing, wholeSecond } from './explain-since.ts';
import { useGatewayNames } from './gateways-screen.tsx';

/** Why a request was refused, for support staff who have its X-Request-Id. */
export function Explain({ rest }: { rest: string }) {
  const isId = isRequestId(rest);
  const read = useResource<RefusalList>(isId ? `/admin/refusals/${encodeURIComponent(rest)}` : null);
  const isNotFound = read.error?.status === 404;
  // Read again while the store is away, a refusal of another gateway is not found: what is shown stays.
  const isKnown = read.reading.state === 'known';
  const refusals = isNotFound && isKnown ? { ...read, error: null } : read;
  const [helping, setHelping] = useState<Helping | null>(null);
  const all = ifKnown(read.reading)?.refusals ?? [];
  useWhenPast(all, refusals.reload);
  const isUnknown = isNotFound && !isKnown;
  const [newest] = all;
  return (
    <Page title="Explain">
      <Ask key={rest} id={isId ? rest : ''} fault={rest === '' || isId ? null : NO_ID} />
      <p class="hidden" role="status">
        {newest && <Prose text={newest.sentence} />}
      </p>
      {!isId ? (
        rest === '' && (
          <Empty title="Why was a request refused?">
            <p>Each response has a field X-Request-Id. Ask the caller for the one of the refused request.</p>
            <p>
              Without it, look at <a href={hrefOf('/keys')}>the caller’s key</a>, or watch{' '}
              <a href={hrefOf('/live')}>Requests</a> while the caller tries again.
            </p>
          </Empty>
        )
      ) : isUnknown ? (
        refusals.isLoading ? (
          <Loading what="the refusal" />
        ) : (
          <NotFound id={rest} message={refusals.error!.message} retry={refusals.reload} />
        )
      ) : (
        <Shown of={refusals} what="the refusal">
          {({ refusals: found }: RefusalList) => (
            <>
              {found.length > 1 && (
                <p class="muted">
                  {plural(found.length, 'refused request')} had this id, because the client used it again. The newest is
                  first.
                </p>
              )}
              {found.map((refusal, i) => (
                <Explained key={`${refusal.at} ${i}`} of={refusal} help={setHelping} />
              ))}
            </>
          )}
        </Shown>
      )}
      {helping !== null && <HelpDialog {...helping} onClose={() => setHelping(null)} />}
    </Page>
  );
}

/** The help that is given in a dialog, and what reads the counts of its caller again. */
interface Helping {
  readonly of: Helped;
  readonly onChanged: () => void;
}

const NO_ID = 'This is not a request id: a request id has 1 to 64 letters, digits, dots, hyphens and underscores.';
const IS_SECRET = 'This looks like the secret of a key. It was not sent. Search for it on the screen Keys.';

function Ask({ id, fault }: { id: string; fault: string | null }) {
  const [error, setError] = useState(fault);
  const submit = (event: Event) => {
    event.preventDefault();
    const input = (event.target as HTMLFormElement).elements.namedItem('id') as HTMLInputElement;
    // The whole line of a log or of a response is pasted as often as the id alone.
    const text = input.value
      .trim()
      .replace(/^["']?x-request-id["']?\s*[:=]?\s*/i, '')
      .replace(/^["']|["',]+$/g, '');
    if (hasFormOfSecret(text)) input.value = '';
    else if (isRequestId(text)) {
      navigate(`/explain/${text}`);
      return;
    }
    setError(hasFormOfSecret(text) ? IS_SECRET : NO_ID);
    input.focus();
  };
  return (
    <search aria-label="Explain a refusal">
      <form class="filters" onSubmit={submit}>
        <Field id="request-id" label="X-Request-Id">
          <input
            id="request-id"
            name="id"
            defaultValue={id}
            autofocus={id === ''}
            required
            placeholder="X-Request-Id of the response"
            autocomplete="off"
            spellcheck={false}
            autocapitalize="off"
            class="code"
            aria-invalid={error !== null}
            aria-describedby="request-id-fault"
          />
        </Field>
        <button type="submit" class="primary">
          Explain
        </button>
        <p class="problem-line wide" role="alert" id="request-id-fault">
          {error}
        </p>
      </form>
    </search>
  );
}

function NotFound({ id, message, retry }: { id: string; message: string; retry: () => Promise<void> }) {
  return (
    <Empty title="No refusal with this id is known.">
      <p>Refused and failed requests are kept, and none that your service answered without an error.</p>
      <p class="muted">{message}</p>
      <ul class="bullets">
        <li>{say`Compare the id with the response: ${<code>{id}</code>}.`}</li>
        <li>{say`Look at ${<a href={hrefOf('/keys')}>the caller’s key</a>}.`}</li>
        <li>{say`Watch ${<a href={hrefOf('/live')}>Requests</a>} while the caller tries again.`}</li>
      </ul>
      <p>
        <Act text="Try again" on={retry} />
      </p>
    </Empty>
  );
}

function Explained({ of: refusal, help }: { of: Refusal; help: (helping: Helping) => void }) {
  const { consumerId, name, owner, plan, window, ban, limits, strike, status, code } = refusal;
  const { upstream, target, totalMs, endedBy } = refusal;
  const retryAt = wholeSecond(refusal.retryAt);
  const ofPlan = (of: string) => (refusal.planLimits as Readonly<Record<string, number>>)[of];
  const mayHelp = useMay('operator');
  const now = useNow();
  const isKnown = consumerId !== null && isCallerId(consumerId);
  const gateways = useGatewayNames();
  const usage = useUsage(isKnown ? consumerId : null, plan, COUNTS_MS);
  const key = useResource<ShownKey>(isKnown && consumerId.startsWith('key_') ? pathOf(consumerId) : null, COUNTS_MS);
  const [counts, present] = [ifKnown(usage.reading), ifKnown(key.reading)];
  // A key that is revoked, expired or suspended is refused whatever its limits are.
  const isGone = key.error?.status === 404;
  const ended = isGone ? 'the key is deleted' : present && refusalOf(present);
  const isLive = !isGone && (present === null || stateOf(present) !== 'revoked');
  const undo = useUndo({ id: consumerId ?? '', name }, usage.reload);
  const answerId = useId();
  const isAhead = retryAt !== null && retryAt * 1_000 > now;
  const isOfLimit = code === 'api_key_banned' || code === 'rate_limit_exceeded';
  // The advice that was written for the refusal is about what may be over: an operator lifted the ban, or another limit refuses now.
  const isOver = isOfLimit && retryAt !== null && counts !== null && !isInForce(refusing(counts, refusal), refusal);
  const answer = answerOf(refusal, { usage: retryAt === null ? null : counts, ended });
  const isBanned = counts === null ? ban !== null && isAhead : counts.ban !== null;
  const one = { id: consumerId ?? '', name, plan, ...(window === null ? {} : { window }) };
  return (
    <article class="panel" aria-label="Refusal">
      {name !== null && (
        <h2>
          <bdi>{name}</bdi>
        </h2>
      )}
      <p class="sentence large">
        <Prose text={refusal.sentence} />
      </p>
      <p class="before">
        {isOver ? (
          say`What refused the request is over. ${<Since usage={counts} of={refusal} ended={ended} />}`
        ) : (
          <Prose text={refusal.advice} />
        )}
      </p>
      {isKnown && (
        <p class="row">
          {mayHelp && isBanned && (
            <Act
              text="Lift the ban…"
              kind={isOfLimit ? 'primary' : ''}
              on={() => help({ of: { ...one, how: 'lift' }, onChanged: usage.reload })}
            />
          )}
          {mayHelp && isLive && isOfLimit && consumerId.startsWith('key_') && limits.length > 0 && (
            <Act text="Top up…" on={() => help({ of: { ...one, how: 'topup' }, onChanged: usage.reload })} />
          )}
          <Go text="Open the key" path={`/keys/${consumerId}`} />
        </p>
      )}
      {answer !== null && (
        <div class="effect stack tight after">
          <p id={answerId}>
            <WholeMoments text={answer} />
          </p>
          <p class="row">
            <CopyButton of={answerId} what="for the customer" text={answer} />
          </p>
        </div>
      )}
      <ol class="timeline">
        <Step title="The request came">
          <p>{say`${<Time at={refusal.at} />} from ${<code>{refusal.clientAddress}</code>}`}</p>
          <p class="break">
            <code>
              {refusal.method} <bdi>{refusal.path ?? '(not readable)'}</bdi>
            </code>
          </p>
        </Step>
        <Step title="Gateway">
          <p class="break">
            {gateways.get(refusal.gateway) ?? refusal.gatewayHost}{' '}
            {refusal.gatewayHost !== refusal.gateway && <span class="muted">{refusal.gateway}</span>}
          </p>
        </Step>
        <Step title="Route">
          {refusal.route === null ? (
            <p class="muted">None matched.</p>
          ) : (
            <p class="break">
              <code>{refusal.route}</code>
            </p>
          )}
        </Step>
        <Step title="Caller">
          {consumerId === null ? (
            <p class="muted">Not known.</p>
          ) : (
            <p>{isKnown ? <CallerName id={consumerId} name={name} owner={owner} /> : <code>{consumerId}</code>}</p>
          )}
          {plan !== null && <p>Plan {plan}</p>}
        </Step>
        <Step title="Limits at the decision" note={refusal.decidedAt !== null && <Time at={refusal.decidedAt} />}>
          {limits.length === 0 && <p class="muted">No limit was asked.</p>}
          {refusal.cost > 1 && <p>The request cost {countText(refusal.cost)}.</p>}
          {Object.entries(refusal.judgement === 'admitted' ? (refusal.units ?? {}) : {}).map(([unit, paid]) => (
            <p key={unit}>
              It took {countText(paid.reserved)} {unit} in advance and paid {countText(paid.settled)}
              {paid.unknown && ', because its cost is not known'}
              {paid.parts && ` (${paid.parts.map(partText).join(' + ')})`}.
            </p>
          ))}
          <ul class="stack tight">
            {limits.map(({ window: of, form, unit = '', needed = 1, limit, used, remaining }) => (
              <li key={of}>
                <p>
                  <strong>{windowText(of)}</strong> <span class="muted">{form}</span>{' '}
                  {of === window && code === 'rate_limit_exceeded' && <Badge kind="bad">Refused here</Badge>}
                </p>
                <Meter label={`Used of the ${of}`} used={used} limit={limit} />
                <p>
                  {countText(used)} of {countText(limit)} {unit} used, {countText(remaining)} left
                  {needed > 1 && `; the request takes ${countText(needed)} in advance`}{' '}
                  {ofPlan(of) !== undefined && (
                    <span class="muted">{say`own limit; plan ${plan} gives ${countText(ofPlan(of)!)}`}</span>
                  )}
                </p>
              </li>
            ))}
          </ul>
        </Step>
        {strike !== null && (
          <Step title="Strike">
            <p>
              {countText(strike.number)} of {countText(strike.of)}{' '}
              <span class="muted">a ban begins at {countText(strike.of)}</span>
            </p>
          </Step>
        )}
        {ban !== null && (
          <Step title="Ban">
            <p class="break">
              Ban {ban.number}
              {refusal.imposedBan ? ', begun by this request' : ''}:{' '}
              <BanEnd of={refusal} at={wholeSecond(ban.until)!} isOver={isOver} now={now} />
            </p>
          </Step>
        )}
        {upstream !== null && (
          <Step title="Upstream">
            <p class="break">
              {upstream} {target === null ? <span class="muted">no target</span> : <code>{target}</code>}
            </p>
          </Step>
        )}
        <Step title="Response">
          <p>
            <VerdictBadge verdict={refusal.judgement} />{' '}
            {refusal.judgement === 'admitted' ? 'by the limits, then answered with' : 'with'} {status}{' '}
            {code !== '' && <code>{code}</code>}
            {totalMs !== null && ` after ${latencyText(totalMs)}`}
            {endedBy !== null && `, ended by the ${endedBy}`}
          </p>
        </Step>
        <Step title="Earliest moment that succeeds">
          {retryAt === null ? (
            <p class="muted">Not a matter of waiting.</p>
          ) : isAhead && !isOver ? (
            <p class="large">
              <Until at={retryAt} />
            </p>
          ) : (
            <p>
              {!isAhead && say`${<Time at={retryAt} />}: that has passed. `}
              <Since usage={counts} of={refusal} ended={ended} />
            </p>
          )}
        </Step>
        {isKnown && (
          <Step title="Its windows now">
            <Shown of={usage} what="the windows">
              {({ windows, ban }: Usage) => (
                <>
                  {ban !== null && (
                    <p class="before">
                      <Badge kind="bad">{say`Banned until ${<Until at={ban.until} />}`}</Badge>
                    </p>
                  )}
                  <WindowList of={windows} undo={isLive ? undo : undefined} />
                </>
              )}
            </Shown>
          </Step>
        )}
      </ol>
    </article>
  );
}

/** @param at when the ban of the refusal was to end, in Unix seconds. @param isOver whether it does not refuse any more */
function BanEnd({ of, at, isOver, now }: { of: Refusal; at: number; isOver: boolean; now: number }) {
  if (at * 1_000 <= now) return say`ended ${<Time at={at} />}`;
  return isOver
    ? say`was lifted${<Lift of={of} />}. It would have ended ${<Time at={at} />}`
    : say`until ${<Until at={at} />}`;
}

/** Who lifted the ban of a refusal, when and why, as far as it is recorded. */
function Lift({ of: { consumerId, at } }: { of: Refusal }) {
  const query = new URLSearchParams({ key: consumerId!, since: at, limit: '1000' });
  const data = ifKnown(useResource<ChangePage>(`/admin/audit?${query}`).reading);
  // The first one after the refusal: a later one lifted a later ban.
  const lift = data?.changes.findLast(({ action, outcome }) => outcome === 'done' && isEnding(action));
  if (lift === undefined) return null;
  const { reason } = membersOf(lift.after);
  return (
    <>
      {' '}
      <Time at={lift.time} /> by <bdi>{actorText(lift.actor)}</bdi>
      {typeof reason === 'string' && say` (${<bdi>{reason}</bdi>})`}
    </>
  );
}

/**
 * What would happen to the same request now.
 * @param usage null while it is not known
 * @param ended why the key is refused whatever its limits are; null if it is not
 */
function Since({ usage, of: refusal, ended }: { usage: Usage | null; of: Refusal; ended: string | null }) {
  if (ended !== null) return `The same request is refused now: ${ended}.`;
  if (usage === null) return 'The same request succeeds, unless other requests have used up a limit since.';
  const now = refusing(usage, refusal);
  if (now.length === 0) return 'The same request succeeds now.';
  return now.map(({ what, until }, i) => (
    <>
      {i > 0 && ' '}
      {what === 'ban' ? 'The caller is banned now' : `The ${windowText(what)} is used up now`}, until{' '}
      <Until at={until} />.
    </>
  ));
}

/** Reads the refusals again when the next of them may be repeated: their advice is another one then. */
function useWhenPast(refusals: readonly Refusal[], reload: () => unknown): void {
  const ahead = refusals.map(({ retryAt }) => millisecondsOf(retryAt ?? 0)).filter((atMs) => atMs > Date.now());
  const nextMs = Math.min(...ahead);
  useEffect(() => {
    const waitMs = nextMs - Date.now() + 1_000;
    if (waitMs > MAX_WAIT_MS) return;
    const timer = setTimeout(reload, waitMs);
    return () => clearTimeout(timer);
  }, [nextMs]);
}

/** How long the page waits at most, in milliseconds. */
const MAX_WAIT_MS = 86_400_000;

/** How often the counts of the present are read again, in milliseconds. */
const COUNTS_MS = 5_000;

function Step({ title, note, children }: { title: string; note?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <li>
      <h2>
        {title} {note && <span class="muted">{note}</span>}
      </h2>
      {children}
    </li>
  );
}

/** A part of a cost: `120 × 2.5 (/usage/prompt_tokens of gpt-4o)`. */
function partText({ of, amount, times, row }: PaidPart): string {
  return `${amount} × ${times} (${of}${row === undefined ? '' : ` of ${row}`})`;
}

type PaidPart = NonNullable<NonNullable<Refusal['units']>[string]['parts']>[number];
