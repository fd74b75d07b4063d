import type { Resource } from './api.ts';
import { SHARED, UndoTopUp } from './help.ts';
import { html } from './html.ts';
import { countText, lengthText, ordinal, plural, Until } from './kit/format.ts';
import { Badge, Section } from './kit/page.ts';
import { Shown } from './kit/states.ts';
import { type DrawUndo, InFlight, WindowList } from './kit/windows.ts';
import { useMay } from './session.ts';
import type { Plan, Usage } from './types.ts';

// What a key or a customer may use and has used, with its strikes and its ban.

export function Limits({
  of,
  usage,
  plan,
  isLive,
  open,
}: {
  of: { readonly id: string; readonly name: string | null };
  usage: Resource<Usage>;
  plan: Plan | undefined;
  /** A customer, or a key that is not revoked: only its usage can be topped up and reset. */
  isLive: boolean;
  open: (dialog: 'lift' | 'topup' | 'reset') => void;
}) {
  const mayHelp = useMay('operator');
  const undo: DrawUndo = (part, window, unit) =>
    mayHelp &&
    isLive &&
    !window.startsWith(SHARED) &&
    html`<${UndoTopUp} of=${of} part=${part} unit=${unit} onUndone=${usage.reload} />`;
  const note = plan?.enforce === false ? 'This plan is only watched: it counts requests, but refuses none.' : null;
  return html`<${Section} title="Limits" note=${note}>
    <${Shown} of=${usage} what="the limits">
      ${(data: Usage) => html`<div class="panel stack">
        <${WindowList} of=${data.windows} undo=${undo} />
        <${InFlight} of=${data.inFlight} />
        <${Strikes} of=${data} plan=${plan} />
        ${
          mayHelp &&
          html`<p class="actions">
            ${data.ban !== null && html`<button type="button" class="primary" onClick=${() => open('lift')}>Lift the ban…</button>`}
            ${isLive && html`<button type="button" onClick=${() => open('topup')}>Top up…</button>`}
            ${isLive && html`<button type="button" onClick=${() => open('reset')}>Reset usage…</button>`}
          </p>`
        }
        ${
          data.shadow !== undefined &&
          html`<div class="watched stack">
            <h3>Watched limits, which refuse no request</h3>
            <${WindowList} of=${data.shadow.windows} />
            <p>${plural(data.shadow.strikes, 'strike')}${data.shadow.ban !== null && html`, would be banned until <${Until} at=${data.shadow.ban.until} />`}</p>
          </div>`
        }
      </div>`}
    </${Shown}>
  </${Section}>`;
}

function Strikes({ of: { strikes, ban, rung, nextBanSeconds }, plan }: { of: Usage; plan: Plan | undefined }) {
  if (nextBanSeconds === null) return html`<p class="muted">This plan has no bans.</p>`;
  const rule = plan?.bans ?? null;
  return html`<dl class="facts">
    ${
      ban === null &&
      html`<dt>Strikes</dt>
        <dd>
          ${rule === null ? countText(strikes) : `${countText(strikes)} of ${countText(rule.after)}`}
          ${rule !== null && html` <span class="muted">within ${lengthText(rule.withinMs / 1_000)}; each refusal is one</span>`}
        </dd>`
    }
    <dt>Ban</dt>
    <dd>
      ${
        ban === null
          ? html`none now${rung > 0 && html` <span class="muted">its ${ordinal(rung)} ban is not forgotten yet</span>`}`
          : html`<${Badge} kind="bad">${ordinal(ban.number)} ban, until <${Until} at=${ban.until} /></${Badge}>
              <p class="muted">${rule !== null && `Banned for ${plural(rule.after, 'refusal')} within ${lengthText(rule.withinMs / 1_000)}. `}Requests during a ban do not lengthen it.</p>`
      }
    </dd>
    <dt>Next ban</dt>
    <dd>the ${ordinal(rung + 1)}, would last ${lengthText(nextBanSeconds)}</dd>
  </dl>`;
}
