import { useState } from 'preact/hooks';
import { html } from './html.ts';
import { ChangeDialog } from './kit/dialog.ts';
import { lengthText, ownZone, Time } from './kit/format.ts';
import { Icon } from './kit/icon.ts';
import { Menu } from './kit/menu.ts';
import { Segments } from './kit/segments.ts';
import { THEMES, useTheme } from './kit/theme.ts';
import { hasUnsavedDraft } from './plans-kept.ts';
import { signOut, useSession } from './signed-in.ts';

/** Who is signed in, how the page looks, and how to leave. */
export function Account() {
  const { name, role } = useSession();
  const button = html`<${Icon} of="user" /><span>${name}</span> <span class="tag">${role}</span><${Icon} of="down" />`;
  // The sign-out that would lose a draft: everywhere or here. Null while none is asked for.
  const [asked, setAsked] = useState<{ readonly everywhere: boolean } | null>(null);
  const leave = (everywhere: boolean, close: () => void) => {
    if (!hasUnsavedDraft()) return void signOut(everywhere);
    // First, so that the focus returns to its button after the dialog.
    close();
    setAsked({ everywhere });
  };
  return html`<${Menu} button=${button}>${(close: () => void) => html`<${AccountMenu} leave=${(everywhere: boolean) => leave(everywhere, close)} />`}</${Menu}>
    ${asked !== null && html`<${LosesDraft} ...${asked} onClose=${() => setAsked(null)} />`}`;
}

function LosesDraft({ everywhere, onClose }: { everywhere: boolean; onClose: () => void }) {
  const act = async () => {
    await signOut(everywhere);
    return null;
  };
  return html`<${ChangeDialog} title="Sign out without the draft of plans.yaml?" action="Sign out and lose it" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>Your changes are in no file yet, and are lost when you sign out${everywhere && ' everywhere'}.</p>
  </${ChangeDialog}>`;
}

function AccountMenu({ leave }: { leave: (everywhere: boolean) => void }) {
  const { name, role, via, expiresAt, idleSeconds } = useSession();
  const [theme, choose] = useTheme();
  return html`<div class="who">
      <p><strong><bdi>${name}</bdi></strong></p>
      <p class="muted">Role ${role}, times in ${ownZone()}</p>
      ${expiresAt !== null && html`<p class="muted">Signed in until <${Time} at=${expiresAt} />${idleSeconds !== null && `, or ${lengthText(idleSeconds)} without use`}</p>`}
    </div>
    <div>
      <h2>Theme</h2>
      <${Segments} label="Theme" options=${THEMES} value=${theme} choose=${choose} />
    </div>
    <div>
      <a href="/admin/openapi.json"><${Icon} of="book" />The admin API (OpenAPI)</a>
      <p class="muted">Documents: <code>tollgate docs</code></p>
    </div>
    <div>
      ${
        via === 'proxy'
          ? html`<p class="muted">Your proxy signs you in and out.</p>`
          : html`<button type="button" onClick=${() => leave(false)}><${Icon} of="out" />Sign out</button>
              <button type="button" onClick=${() => leave(true)}><${Icon} of="out" />Sign out everywhere</button>`
      }
    </div>`;
}
