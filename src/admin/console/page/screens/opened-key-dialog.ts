import { LiftDialog, ResetDialog, TopUpDialog } from '../help.ts';
import { html } from '../html.ts';
import { nameOf, pathOf } from '../kit/callers.ts';
import { ChangeDialog, settledText } from '../kit/dialog.ts';
import { spentIn } from '../kit/windows.ts';
import { navigate } from '../router.ts';
import type { Key, Plan, Usage } from '../types.ts';
import { type Changing, changeIfSame, EndSecretDialog, MoveDialog, RotateDialog, type Secret } from './key-dialogs.ts';
import { EditDialog } from './key-form.ts';
import { RecentUse } from './recent-use.ts';
import { ResumeDialog, SuspendDialog } from './suspension.ts';

// The dialogs of the screen of a key, which the browser loads when the first one is opened.

export type KeyDialogName =
  | ('lift' | 'topup' | 'reset' | 'rotate' | 'end-secret')
  | ('suspend' | 'resume' | 'revoke' | 'delete' | 'edit' | 'move');

export function OpenedKeyDialog({
  dialog,
  of: key,
  etag,
  secret,
  id,
  name,
  usage,
  plans,
  onClose,
  onChanged,
}: Omit<Changing, 'of'> & {
  dialog: KeyDialogName;
  of: Key | null;
  secret: Secret | null;
  id: string;
  name: string | null;
  usage: Usage | null;
  plans: readonly Plan[] | null;
}) {
  // The one that refuses for longest.
  const spent = spentIn(usage?.windows ?? {}).at(-1)?.[0];
  if (dialog === 'lift')
    return html`<${LiftDialog} of=${{ how: 'lift', id, name, plan: usage?.plan, window: spent }} onClose=${onClose} onChanged=${onChanged} />`;
  if (dialog === 'topup') {
    return html`<${TopUpDialog} of=${{ how: 'topup', id, name, window: spent, customer: key?.customer }} onClose=${onClose} onChanged=${onChanged} />`;
  }
  if (key === null) return null;
  const changing = { of: key, etag, onClose, onChanged };
  if (dialog === 'reset') return html`<${ResetDialog} ...${changing} usage=${usage} />`;
  if (dialog === 'move') return html`<${MoveDialog} ...${changing} plans=${plans} />`;
  if (dialog === 'rotate') return html`<${RotateDialog} ...${changing} />`;
  if (dialog === 'end-secret') return html`<${EndSecretDialog} ...${changing} secret=${secret} />`;
  if (dialog === 'suspend') return html`<${SuspendDialog} ...${changing} />`;
  if (dialog === 'resume') return html`<${ResumeDialog} ...${changing} />`;
  if (dialog === 'revoke') return html`<${RevokeDialog} ...${changing} />`;
  if (dialog === 'delete') return html`<${DeleteDialog} ...${changing} />`;
  return html`<${EditDialog} ...${changing} plans=${plans} />`;
}

function RevokeDialog(changing: Changing) {
  const { of: key, onClose, onChanged } = changing;
  const act = async () => {
    const { status } = await changeIfSame<Key>(changing, 'DELETE', pathOf(key.id));
    onChanged();
    return `${nameOf(key)} is revoked. Every gateway refuses it within a second.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Revoke ${nameOf(key)}`} action="Revoke for good" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>All secrets of <code>${key.id}</code>${key.owner !== null && html` of <bdi>${key.owner}</bdi>`} end at once and for good: each of its requests gets a 401. This cannot be undone. To change a secret without an interruption, rotate it instead.</p>
    <${RecentUse} id=${key.id} />
  </${ChangeDialog}>`;
}

function DeleteDialog(changing: Changing) {
  const { of: key, onClose } = changing;
  const act = async () => {
    const { status } = await changeIfSame<unknown>(changing, 'POST', `${pathOf(key.id)}/delete`);
    navigate('/keys');
    return `${nameOf(key)} (${key.id}) is deleted.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Delete ${nameOf(key)}`} action="Delete for good" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>Name, owner, notes, counts and ban of <code>${key.id}</code> are removed for good. Audit keeps its records of the key.</p>
  </${ChangeDialog}>`;
}
