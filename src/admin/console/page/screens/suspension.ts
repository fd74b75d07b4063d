import { html } from '../html.ts';
import { isCustomer, nameOf, pathOf } from '../kit/callers.ts';
import { ChangeDialog, Field, settledText } from '../kit/dialog.ts';
import { momentText } from '../kit/format.ts';
import { MomentField, momentIn } from '../kit/moment-field.ts';
import type { KeyOrCustomer, NewSuspension } from '../types.ts';
import { type Changing, changeIfSame } from './key-dialogs.ts';
import { RecentUse } from './recent-use.ts';

// The two dialogs that begin and end the suspension of a key or of a customer.

type ChangingEither = Omit<Changing, 'of'> & { readonly of: KeyOrCustomer };

export function SuspendDialog(changing: ChangingEither) {
  const { of: record, onClose, onChanged } = changing;
  const act = async (form: FormData) => {
    const reason = String(form.get('reason')).trim();
    const body: NewSuspension = {
      until: momentIn(String(form.get('until')))?.toISOString() ?? null,
      reason: reason === '' ? null : reason,
    };
    const { status, data } = await changeIfSame<KeyOrCustomer>(changing, 'POST', `${pathOf(record.id)}/suspend`, body);
    onChanged();
    const end = data.suspended?.until == null ? 'it is resumed' : momentText(data.suspended.until);
    return `${nameOf(record)} is suspended until ${end}.${settledText(status)}`;
  };
  const effect = isCustomer(record.id)
    ? 'Each request with its keys, or with a token that names it, gets a 403 within a second, and is not counted, until you resume it. Its keys, counts and bans stay.'
    : 'Each of its requests gets a 403 within a second, and is not counted, until you resume it. Its secrets, counts and ban stay.';
  return html`<${ChangeDialog} title=${`Suspend ${nameOf(record)}`} action="Suspend" act=${act} onClose=${onClose}>
    <p>${effect}</p>
    <${RecentUse} id=${record.id} />
    <${MomentField} id="suspend-until" name="until" label="Until" empty="until it is resumed" />
    <${Field} id="suspend-reason" label="Reason" hint="For operators. Callers never see it.">
      <input id="suspend-reason" name="reason" maxlength="200" autocomplete="off" aria-describedby="suspend-reason-hint" />
    </${Field}>
  </${ChangeDialog}>`;
}

export function ResumeDialog(changing: ChangingEither) {
  const { of: record, onClose, onChanged } = changing;
  const act = async () => {
    const { status } = await changeIfSame<KeyOrCustomer>(changing, 'POST', `${pathOf(record.id)}/resume`);
    onChanged();
    return `${nameOf(record)} is resumed.${settledText(status)}`;
  };
  const effect = isCustomer(record.id)
    ? 'Its keys and tokens work again within a second, under the limits, counts and bans that they had. A key that is suspended itself stays suspended.'
    : 'Its requests are admitted again within a second, under the limits, counts and ban that it had.';
  return html`<${ChangeDialog} title=${`Resume ${nameOf(record)}`} action="Resume" act=${act} onClose=${onClose}>
    <p>${effect}</p>
  </${ChangeDialog}>`;
}
