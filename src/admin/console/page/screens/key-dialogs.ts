import { useRef, useState } from 'preact/hooks';
import { ApiError, request } from '../api.ts';
import { html } from '../html.ts';
import { ChangeDialog, Field, notify, SecretShown, settledText } from '../kit/dialog.ts';
import { momentText } from '../kit/format.ts';
import type { Key, KeyWithSecret, NewSuspension } from '../types.ts';
import { pathOf } from './key-form.ts';

// The dialogs that change with which secrets a key works, and whether it works at present.

export interface Changing {
  readonly of: Key;
  readonly etag: string | null;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export type Secret = Key['secrets'][number];

export function nameOf({ id, name }: Key): string {
  return name ?? id;
}

/** Makes a change of the key as it was read with `etag`, and reports it in words if the key has changed since. */
export async function changeIfSame<T>({ etag, onChanged }: Changing, method: string, path: string, body?: object) {
  try {
    const headers = { 'If-Match': etag ?? '*' };
    return await request<T>(method, path, body === undefined ? { headers } : { body, headers });
  } catch (failure) {
    if (!(failure instanceof ApiError) || failure.status !== 412) throw failure;
    onChanged();
    const message =
      'The key was changed since this dialog was opened, by someone else or by an earlier attempt of yours. Nothing was done now. Close this dialog, look at the key on the page, and decide again.';
    throw new ApiError(412, failure.code, message);
  }
}

export function RotateDialog(changing: Changing) {
  const { of: key, onClose, onChanged } = changing;
  const [made, setMade] = useState<string | null>(null);
  const end = useRef('');
  const act = async (form: FormData) => {
    const overlap = String(form.get('overlap'));
    const isLeaked = form.get('leaked') === 'yes';
    const body = isLeaked ? { leaked: true } : { overlap };
    const { status, data } = await changeIfSame<KeyWithSecret>(changing, 'POST', `${pathOf(key.id)}/rotate`, body);
    end.current =
      isLeaked || overlap === '0s'
        ? 'The earlier secrets have ended.'
        : `The earlier secrets work for ${OVERLAPS[overlap]} more.`;
    setMade(data.key);
    notify(`${nameOf(key)} has a new secret. ${end.current}${settledText(status)}`);
    onChanged();
    return null;
  };
  return html`<${ChangeDialog}
    title=${made === null ? `Rotate the secret of ${nameOf(key)}` : `${nameOf(key)} has a new secret`}
    action="Rotate"
    act=${act}
    onClose=${onClose}
    result=${made !== null && html`<${SecretShown} secret=${made}><p>${end.current}</p></${SecretShown}>`}
  >
    <p>It gets a second secret, under the same limits and counts.</p>
    <fieldset>
      <legend>Was the old secret leaked?</legend>
      <label class="check"><input type="radio" name="leaked" value="no" defaultChecked=${true} /> No: the earlier secrets keep working for a while</label>
      <label class="check"><input type="radio" name="leaked" value="yes" /> Yes: they end at once</label>
    </fieldset>
    <${Field} id="rotate-overlap" label="The earlier secrets work for" hint="Unless the old secret was leaked.">
      <select id="rotate-overlap" name="overlap" aria-describedby="rotate-overlap-hint">
        ${Object.entries(OVERLAPS).map(([value, text]) => html`<option key=${value} value=${value} selected=${value === '24h'}>${text}</option>`)}
      </select>
    </${Field}>
  </${ChangeDialog}>`;
}

const OVERLAPS: Readonly<Record<string, string>> = {
  '0s': 'no time: they end at once',
  '1h': '1 hour',
  '24h': '24 hours',
  '7d': '7 days',
  '30d': '30 days',
};

export function EndSecretDialog({ secret, ...changing }: Changing & { secret: Secret }) {
  const { of: key, onClose, onChanged } = changing;
  const what = secret.last4 === null ? 'the secret that is known by its hash' : `the secret …${secret.last4}`;
  const act = async () => {
    const body = { last4: secret.last4 ?? '' };
    const { status } = await changeIfSame<Key>(changing, 'POST', `${pathOf(key.id)}/secrets/end`, body);
    onChanged();
    return `${what[0]!.toUpperCase()}${what.slice(1)} of ${nameOf(key)} has ended.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`End ${what} of ${nameOf(key)}`} action="End it for good" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>Requests with this secret get a 401 within a second. The other secrets of the key keep working. This cannot be undone.</p>
  </${ChangeDialog}>`;
}

export function SuspendDialog(changing: Changing) {
  const { of: key, onClose, onChanged } = changing;
  const act = async (form: FormData) => {
    const [until, reason] = [String(form.get('until')), String(form.get('reason')).trim()];
    const body: NewSuspension = {
      until: until === '' ? null : new Date(until).toISOString(),
      reason: reason === '' ? null : reason,
    };
    const { status, data } = await changeIfSame<Key>(changing, 'POST', `${pathOf(key.id)}/suspend`, body);
    onChanged();
    const end = data.suspended?.until == null ? 'it is resumed' : momentText(data.suspended.until);
    return `${nameOf(key)} is suspended until ${end}.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Suspend ${nameOf(key)}`} action="Suspend" act=${act} onClose=${onClose}>
    <p>Each of its requests gets a 403 within a second, and is not counted, until you resume it. Its secrets, counts and ban stay.</p>
    <${Field} id="suspend-until" label="Until" hint="In your time zone. Empty: until it is resumed.">
      <input id="suspend-until" name="until" type="datetime-local" max="9999-12-30T00:00" aria-describedby="suspend-until-hint" />
    </${Field}>
    <${Field} id="suspend-reason" label="Reason" hint="For those who look after keys. Callers never see it.">
      <input id="suspend-reason" name="reason" maxlength="200" autocomplete="off" aria-describedby="suspend-reason-hint" />
    </${Field}>
  </${ChangeDialog}>`;
}

export function ResumeDialog(changing: Changing) {
  const { of: key, onClose, onChanged } = changing;
  const act = async () => {
    const { status } = await changeIfSame<Key>(changing, 'POST', `${pathOf(key.id)}/resume`);
    onChanged();
    return `${nameOf(key)} is resumed.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Resume ${nameOf(key)}`} action="Resume" act=${act} onClose=${onClose}>
    <p>Its requests are admitted again within a second, under the limits, counts and ban that it had.</p>
  </${ChangeDialog}>`;
}
