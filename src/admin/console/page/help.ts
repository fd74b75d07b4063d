import { useRef } from 'preact/hooks';
import { newIdempotencyKey, request, useResource } from './api.ts';
import { html } from './html.ts';
import { ChangeDialog, Field, settledText } from './kit/dialog.ts';
import { countText, momentText } from './kit/format.ts';
import { Shown } from './kit/states.ts';

// What an operator does for a caller that is refused. Used by the screens Now, Key and Explain.

/** A caller and what is done for it. */
export interface Helped {
  readonly how: 'lift' | 'topup';
  readonly id: string;
  readonly name: string | null;
  /** The window that refuses it. */
  readonly window?: string;
}

interface Changes {
  readonly of: Helped;
  readonly onClose: () => void;
  /** Called after the change, so that the screen reads again what it shows. */
  readonly onChanged?: () => void;
}

export function LiftDialog({ of: { id, name }, onClose, onChanged }: Changes) {
  const act = async () => {
    const { status, data } = await request<{ spent: readonly { window: string; resetAt: number }[] | null }>(
      'DELETE',
      `/admin/bans/${encodeURIComponent(id)}`,
    );
    onChanged?.();
    const spent = (data.spent ?? [])
      .map(({ window, resetAt }) => `${window} (until ${momentText(resetAt)})`)
      .join(', ');
    const still =
      spent === '' ? '' : ` Still spent, so further requests are refused: ${spent}. Top it up to help at once.`;
    return `The ban of ${name ?? id} is lifted.${still}${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Lift the ban of ${name ?? id}`} action="Lift the ban" act=${act} onClose=${onClose}>
    <p>Its strikes are cleared and the next ban is as long as this one was. What its windows have counted stays.</p>
  </${ChangeDialog}>`;
}

interface UsageWindows {
  readonly windows: Readonly<
    Record<string, { limit: number | 'unlimited'; used: number; remaining: number | 'unlimited' }>
  >;
}

export function TopUpDialog({ of: { id, name, window: refusing }, onClose, onChanged }: Changes) {
  const usage = useResource<UsageWindows>(`/admin/keys/${encodeURIComponent(id)}/usage`);
  // One id for each dialog: a second click, or a repetition after a lost response, adds nothing.
  const once = useRef(newIdempotencyKey());
  const act = async (form: FormData) => {
    const { status, data } = await request<{ window: string; amount: number; limit: number; until: number | null }>(
      'POST',
      `/admin/keys/${encodeURIComponent(id)}/topups`,
      {
        body: { window: form.get('window'), amount: Number(form.get('amount')) },
        headers: { 'Idempotency-Key': once.current },
      },
    );
    onChanged?.();
    const until = data.until === null ? '' : ` until ${momentText(data.until)}`;
    return `${name ?? id} has ${countText(data.limit)} requests a ${data.window}${until}.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Top up ${name ?? id}`} action="Top up" act=${act} onClose=${onClose}>
    <p>The amount is added to the limit of one window until that window ends. A ban stays until it is lifted.</p>
    <${Shown} of=${usage} what="the windows">
      ${({ windows }: UsageWindows) => {
        const counted = Object.entries(windows).filter(([, { limit }]) => limit !== 'unlimited');
        if (counted.length === 0) return html`<p>All windows of this key are unlimited.</p>`;
        return html`<${Field} id="topup-window" label="Window">
            <select id="topup-window" name="window">
              ${counted.map(
                ([window, { used, limit }]) =>
                  html`<option value=${window} selected=${window === refusing}>${window}: ${countText(used)} of ${countText(limit)} used</option>`,
              )}
            </select>
          </${Field}>
          <${Field} id="topup-amount" label="Requests to add">
            <input id="topup-amount" name="amount" type="number" min="1" max="999999999999999" step="1" required inputmode="numeric" />
          </${Field}>`;
      }}
    </${Shown}>
  </${ChangeDialog}>`;
}
