import { useEffect, useId, useState } from 'preact/hooks';
import { ENDINGS } from '../endings.js';
import type { Helped } from '../help.ts';
import { HelpDialog } from '../help-later.ts';
import { type Children, html } from '../html.ts';
import { CallerName, pathOf } from '../kit/callers.ts';
import { Meter } from '../kit/charts.ts';
import { CopyButton } from '../kit/copy.ts';
import { Field } from '../kit/dialog.ts';
import { isCallerId } from '../kit/filters.ts';
import { countText, millisecondsOf, Prose, plural, Time, Until, useNow, WholeMoments } from '../kit/format.ts';
import { WindowList, windowText } from '../kit/limit-windows.ts';
import { Badge, Page } from '../kit/page.ts';
import { hasFormOfSecret, isRequestId } from '../kit/request-id.ts';
import { Empty, Loading, Shown } from '../kit/states.ts';
import { VerdictBadge } from '../kit/verdict-badge.ts';
import { useUndo, useUsage } from '../limits.ts';
import { hrefOf, navigate } from '../place.ts';
import { useRefresh, useResource } from '../requests.ts';
import { useMay } from '../signed-in.ts';
import type { ChangePage, Refusal, RefusalList, ShownKey, Usage } from '../types.ts';
import { refusalOf, stateOf } from './caller-state.ts';
import { actorText, membersOf } from './change-columns.ts';
import { answerOf, isInForce, refusing, wholeSecond } from './explain-since.ts';
import { useGatewayNames } from './gateways-screen.ts';

/** Why a request was refused, for support staff who have its X-Request-Id. */
export function Explain({ rest }: { rest: string }) {
  const isId = isRequestId(rest);
  const read = useResource<RefusalList>(isId ? `/admin/refusals/${encodeURIComponent(rest)}` : null);
  const isNotFound = read.error?.status === 404;
  // Read again while the store is away, a refusal of another gateway is not found: what is shown stays.
  const refusals = isNotFound && read.data !== null ? { ...read, error: null } : read;
  const [helping, setHelping] = useState<Helping | null>(null);
  useWhenPast(refusals.data?.refusals ?? [], refusals.reload);
  const isUnknown = isNotFound && read.data === null;
  const [newest] = refusals.data?.refusals ?? [];
  return html`<${Page} title="Explain">
    <${Ask} key=${rest} id=${isId ? rest : ''} fault=${rest === '' || isId ? null : NO_ID} />
    <p class="hidden" role="status">${newest && html`<${Prose} text=${newest.sentence} />`}</p>
    ${
      !isId
        ? rest === '' &&
          html`<${Empty} title="Why was a request refused?">
            <p>Each response has a field X-Request-Id. Ask the caller for the one of the refused request.</p>
            <p>Without it, look at <a href=${hrefOf('/keys')}>the caller’s key</a>, or watch <a href=${hrefOf('/live')}>Requests</a> while the caller tries again.</p>
          </${Empty}>`
        : isUnknown
          ? refusals.isLoading
            ? html`<${Loading} what="the refusal" />`
            : html`<${NotFound} id=${rest} message=${refusals.error!.message} retry=${refusals.reload} />`
          : html`<${Shown} of=${refusals} what="the refusal">
              ${({ refusals: found }: RefusalList) =>
                html`${
                  found.length > 1 &&
                  html`<p class="muted">${plural(found.length, 'refused request')} had this id, because the client used it again. The newest is first.</p>`
                }
                ${found.map((refusal, i) => html`<${Explained} key=${`${refusal.at} ${i}`} of=${refusal} help=${setHelping} />`)}`}
            </${Shown}>`
    }
    ${helping !== null && html`<${HelpDialog} ...${helping} onClose=${() => setHelping(null)} />`}
  </${Page}>`;
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
  return html`<form class="filters" role="search" aria-label="Explain a refusal" onSubmit=${submit}>
    <${Field} id="request-id" label="X-Request-Id">
      <input id="request-id" name="id" defaultValue=${id} autofocus=${id === ''} required placeholder="X-Request-Id of the response" autocomplete="off" spellcheck="false" autocapitalize="off" class="code" aria-invalid=${error !== null} aria-describedby="request-id-fault" />
    </${Field}>
    <button type="submit" class="primary">Explain</button>
    <p class="problem-line wide" role="alert" id="request-id-fault">${error}</p>
  </form>`;
}

function NotFound({ id, message, retry }: { id: string; message: string; retry: () => Promise<void> }) {
  return html`<${Empty} title="No refusal with this id is known.">
    <p>Only refused requests are kept, and none that your service answered.</p>
    <p class="muted">${message}</p>
    <ul class="bullets">
      <li>Compare the id with the response: <code>${id}</code>.</li>
      <li>Look at <a href=${hrefOf('/keys')}>the caller’s key</a>.</li>
      <li>Watch <a href=${hrefOf('/live')}>Requests</a> while the caller tries again.</li>
    </ul>
    <p><button type="button" onClick=${retry}>Try again</button></p>
  </${Empty}>`;
}

function Explained({ of: refusal, help }: { of: Refusal; help: (helping: Helping) => void }) {
  const { consumerId, name, owner, plan, window, ban, limits, strike, status, code } = refusal;
  const retryAt = wholeSecond(refusal.retryAt);
  const ofPlan = (of: string) => (refusal.planLimits as Readonly<Record<string, number>>)[of];
  const mayHelp = useMay('operator');
  const now = useNow();
  const isKnown = consumerId !== null && isCallerId(consumerId);
  const gateways = useGatewayNames();
  const usage = useUsage(isKnown ? consumerId : null, plan);
  const key = useResource<ShownKey>(isKnown && consumerId.startsWith('key_') ? pathOf(consumerId) : null);
  useRefresh(() => Promise.all([usage.reload(), key.reload()]), COUNTS_MS);
  // A key that is revoked, expired or suspended is refused whatever its limits are.
  const isGone = key.error?.status === 404;
  const ended = isGone ? 'the key is deleted' : key.data && refusalOf(key.data);
  const isLive = !isGone && (key.data === null || stateOf(key.data) !== 'revoked');
  const undo = useUndo({ id: consumerId ?? '', name }, usage.reload);
  const answerId = useId();
  const isAhead = retryAt !== null && retryAt * 1_000 > now;
  const isOfLimit = code === 'api_key_banned' || code === 'rate_limit_exceeded';
  // The advice that was written for the refusal is about what may be over: an operator lifted the ban, or another limit refuses now.
  const isOver =
    isOfLimit && retryAt !== null && usage.data !== null && !isInForce(refusing(usage.data, refusal), refusal);
  const answer = answerOf(refusal, { usage: retryAt === null ? null : usage.data, ended });
  const isBanned = usage.data === null ? ban !== null && isAhead : usage.data.ban !== null;
  const one = { id: consumerId ?? '', name, plan, ...(window === null ? {} : { window }) };
  return html`<article class="panel explained" aria-label="Refusal">
    ${name !== null && html`<h2><bdi>${name}</bdi></h2>`}
    <p class="sentence"><${Prose} text=${refusal.sentence} /></p>
    <p class="advice">${isOver ? html`What refused the request is over. <${Since} usage=${usage.data} of=${refusal} ended=${ended} />` : html`<${Prose} text=${refusal.advice} />`}</p>
    ${
      isKnown &&
      html`<p class="actions">
        ${mayHelp && isBanned && html`<button type="button" class=${isOfLimit ? 'primary' : ''} onClick=${() => help({ of: { ...one, how: 'lift' }, onChanged: usage.reload })}>Lift the ban…</button>`}
        ${mayHelp && isLive && isOfLimit && consumerId.startsWith('key_') && limits.length > 0 && html`<button type="button" onClick=${() => help({ of: { ...one, how: 'topup' }, onChanged: usage.reload })}>Top up…</button>`}
        <a class="button" href=${hrefOf(`/keys/${consumerId}`)}>Open the key</a>
      </p>`
    }
    ${
      answer !== null &&
      html`<div class="customer">
        <p id=${answerId}><${WholeMoments} text=${answer} /></p>
        <p class="actions foot"><${CopyButton} of=${answerId} what="for the customer" text=${answer} /></p>
      </div>`
    }
    <ol class="timeline">
      <${Step} title="The request came">
        <p><${Time} at=${refusal.at} /> from <code>${refusal.clientAddress}</code></p>
        <p class="break"><code>${refusal.method} <bdi>${refusal.path ?? '(not readable)'}</bdi></code></p>
      </${Step}>
      <${Step} title="Gateway">
        <p class="break">${gateways.get(refusal.gateway) ?? refusal.gatewayHost}${refusal.gatewayHost !== refusal.gateway && html` <span class="muted">${refusal.gateway}</span>`}</p>
      </${Step}>
      <${Step} title="Route">${refusal.route === null ? html`<p class="muted">None matched.</p>` : html`<p class="break"><code>${refusal.route}</code></p>`}</${Step}>
      <${Step} title="Caller">
        ${
          consumerId === null
            ? html`<p class="muted">Not known.</p>`
            : html`<p>
                ${isKnown ? html`<${CallerName} id=${consumerId} name=${name} owner=${owner} />` : html`<code>${consumerId}</code>`}
              </p>`
        }
        ${plan !== null && html`<p>Plan ${plan}</p>`}
      </${Step}>
      <${Step} title="Limits at the decision" note=${refusal.decidedAt !== null && html`<${Time} at=${refusal.decidedAt} />`}>
        ${limits.length === 0 && html`<p class="muted">No limit was asked.</p>`}
        ${refusal.cost > 1 && html`<p>The request cost ${countText(refusal.cost)}.</p>`}
        ${Object.entries(refusal.judgement === 'admitted' ? (refusal.units ?? {}) : {}).map(([unit, paid]) => html`<p key=${unit}>It took ${countText(paid.reserved)} ${unit} in advance and paid ${countText(paid.settled)}${paid.unknown && ', because its cost is not known'}.</p>`)}
        <ul class="limits">
          ${limits.map(
            ({ window: of, form, unit = '', needed = 1, limit, used, remaining }) =>
              html`<li key=${of}>
                <p><strong>${windowText(of)}</strong> <span class="muted">${form}</span> ${of === window && code === 'rate_limit_exceeded' && html`<${Badge} kind="bad">Refused here</${Badge}>`}</p>
                <${Meter} label=${`Used of the ${of}`} used=${used} limit=${limit} />
                <p>
                  ${countText(used)} of ${countText(limit)} ${unit} used, ${countText(remaining)} left${needed > 1 && `; the request takes ${countText(needed)} in advance`}
                  ${ofPlan(of) !== undefined && html` <span class="muted">own limit; plan ${plan} gives ${countText(ofPlan(of)!)}</span>`}
                </p>
              </li>`,
          )}
        </ul>
      </${Step}>
      ${strike !== null && html`<${Step} title="Strike"><p>${countText(strike.number)} of ${countText(strike.of)} <span class="muted">a ban begins at ${countText(strike.of)}</span></p></${Step}>`}
      ${
        ban !== null &&
        html`<${Step} title="Ban">
          <p class="break">Ban ${ban.number}${refusal.imposedBan ? ', begun by this request' : ''}: <${BanEnd} of=${refusal} at=${wholeSecond(ban.until)!} isOver=${isOver} now=${now} /></p>
        </${Step}>`
      }
      <${Step} title="Response"><p><${VerdictBadge} verdict=${refusal.judgement} /> ${refusal.judgement === 'admitted' ? 'by the limits, then answered with' : 'with'} ${status} <code>${code}</code></p></${Step}>
      <${Step} title="Earliest moment that succeeds">
        ${
          retryAt === null
            ? html`<p class="muted">Not a matter of waiting.</p>`
            : isAhead && !isOver
              ? html`<p class="countdown"><${Until} at=${retryAt} /></p>`
              : html`<p>${!isAhead && html`<${Time} at=${retryAt} />: that has passed. `}<${Since} usage=${usage.data} of=${refusal} ended=${ended} /></p>`
        }
      </${Step}>
      ${
        isKnown &&
        html`<${Step} title="Its windows now">
          <${Shown} of=${usage} what="the windows">
            ${({ windows, ban }: Usage) =>
              html`${ban !== null && html`<p class="before"><${Badge} kind="bad">Banned until <${Until} at=${ban.until} /></${Badge}></p>`}<${WindowList} of=${windows} undo=${isLive ? undo : undefined} />`}
          </${Shown}>
        </${Step}>`
      }
    </ol>
  </article>`;
}

/** @param at when the ban of the refusal was to end, in Unix seconds. @param isOver whether it does not refuse any more */
function BanEnd({ of, at, isOver, now }: { of: Refusal; at: number; isOver: boolean; now: number }) {
  if (at * 1_000 <= now) return html`ended <${Time} at=${at} />`;
  return isOver
    ? html`was lifted<${Lift} of=${of} />. It would have ended <${Time} at=${at} />`
    : html`until <${Until} at=${at} />`;
}

/** Who lifted the ban of a refusal, when and why, as far as it is recorded. */
function Lift({ of: { consumerId, at } }: { of: Refusal }) {
  const query = new URLSearchParams({ key: consumerId!, since: at, limit: '1000' });
  const { data } = useResource<ChangePage>(`/admin/audit?${query}`);
  // The first one after the refusal: a later one lifted a later ban.
  const lift = data?.changes.findLast(({ action, outcome }) => outcome === 'done' && ENDINGS.includes(action ?? ''));
  if (lift === undefined) return null;
  const { reason } = membersOf(lift.after);
  return html` <${Time} at=${lift.time} /> by <bdi>${actorText(lift.actor)}</bdi>${typeof reason === 'string' && html` (<bdi>${reason}</bdi>)`}`;
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
  return now.map(
    ({ what, until }, i) =>
      html`${i > 0 && ' '}${what === 'ban' ? 'The caller is banned now' : `The ${windowText(what)} is used up now`}, until <${Until} at=${until} />.`,
  );
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

function Step({ title, note, children }: { title: string; note?: Children; children?: Children }) {
  return html`<li>
    <h2>${title}${note && html` <span class="muted">${note}</span>`}</h2>
    ${children}
  </li>`;
}
