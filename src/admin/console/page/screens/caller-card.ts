import type { Resource } from '../api.ts';
import { type Children, html } from '../html.ts';
import { Meter } from '../kit/charts.ts';
import { CopyId } from '../kit/copy.ts';
import { countText, Time, Until } from '../kit/format.ts';
import { MoreMenu } from '../kit/menu.ts';
import { Badge } from '../kit/page.ts';
import { ResetText, tightestOf, windowText } from '../kit/windows.ts';
import type { RefusalsOfCaller, Usage } from '../types.ts';

// The head of the screen of a key or a customer: what an operator can do, then its state, its tightest limit, and since when it is refused.

export function CallerCard({
  id,
  state,
  ended,
  facts,
  usage,
  recent,
}: {
  id: string;
  /** The badge of its state; null while it is not known. */
  state: Children;
  /** Why it admits no request, in place of its limits; null if it may. */
  ended: Children;
  facts: Children;
  usage: Usage | null;
  recent: Resource<RefusalsOfCaller>;
}) {
  const ban = usage?.ban ?? null;
  return html`<div class="panel caller-card">
    <p class="actions caller-head">
      ${state}
      ${ban !== null && html`<${Badge} kind="bad">Banned until <${Until} at=${ban.until} /></${Badge}>`}
      <${CopyId} id=${id} />
      ${facts}
    </p>
    ${ended === null ? usage !== null && html`<${Tightest} of=${usage} />` : html`<p>${ended}</p>`}
    <${LastCall} of=${recent.data} isEnded=${ended !== null} />
  </div>`;
}

/** What can be done: the dialog, its name, and where it stands: `primary`, `more` in the menu, or a usual button. */
export type Action<Dialog extends string> = readonly [dialog: Dialog, text: string, place: 'primary' | 'more' | ''];

/** The actions that the reader may take now. @param of false: not that one */
export function Actions<Dialog extends string>({
  of,
  open,
}: {
  of: readonly (Action<Dialog> | false)[];
  open: (dialog: Dialog) => void;
}) {
  const actions = of.filter((one) => one !== false);
  const more = actions.filter(([, , place]) => place === 'more');
  return html`
    ${actions
      .filter(([, , place]) => place !== 'more')
      .map(
        ([dialog, text, kind]) =>
          html`<button key=${dialog} type="button" class=${kind} onClick=${() => open(dialog)}>${text}</button>`,
      )}
    <${MoreMenu} entries=${more.map(([dialog, text]) => [text, () => open(dialog)])} />`;
}

/** The limit of which the largest share is used. */
function Tightest({ of: { windows } }: { of: Usage }) {
  const tightest = tightestOf(windows);
  if (tightest === null) return html`<p class="muted">No limit applies to it.</p>`;
  const [name, { used, limit, remaining, resetAt, form, unit = '' }] = tightest;
  return html`<div class="tightest">
    <p><strong>${countText(remaining)} ${unit} left</strong> of ${countText(limit)} a ${windowText(name, unit)}${remaining === 0 && html` <${Badge} kind="bad">Spent</${Badge}>`}</p>
    <${Meter} label="Used of the tightest limit" used=${used} limit=${limit} />
    <p class="muted">${used > 0 ? html`<${ResetText} form=${form} at=${resetAt} />` : 'Nothing used yet.'}</p>
  </div>`;
}

function LastCall({ of, isEnded }: { of: RefusalsOfCaller | null; isEnded: boolean }) {
  if (of === null) return null;
  const { last, refusedSince, complete } = of;
  return html`<p class="muted">
    ${refusedSince !== null && !isEnded && html`<span class="refused-since">Refused since <${Time} at=${refusedSince} />, without an admitted request in between.</span> `}
    ${last === null ? 'No gateway remembers a request of it.' : html`Last request <${Time} at=${last.at} /> from <code>${last.clientAddress}</code>.`}
    ${!complete && ' As far as this gateway knows: the store is away.'}
  </p>`;
}
