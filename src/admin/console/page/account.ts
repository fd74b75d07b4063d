import { html } from './html.ts';
import { lengthText, ownZone, Time } from './kit/format.ts';
import { Icon } from './kit/icon.ts';
import { Menu } from './kit/menu.ts';
import { Segments } from './kit/segments.ts';
import { THEMES, useTheme } from './kit/theme.ts';
import { signOut, useSession } from './session.ts';

/** Who is signed in, how the page looks, and how to leave. */
export function Account() {
  const { name, role } = useSession();
  const button = html`<${Icon} of="user" /><span>${name}</span> <span class="tag">${role}</span><${Icon} of="down" />`;
  return html`<${Menu} button=${button}>${() => html`<${AccountMenu} />`}</${Menu}>`;
}

function AccountMenu() {
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
      <p class="muted">Documents: <code>tollgate docs --serve</code></p>
    </div>
    <div>
      ${
        via === 'proxy'
          ? html`<p class="muted">Your proxy signs you in and out.</p>`
          : html`<button type="button" onClick=${() => signOut(false)}><${Icon} of="out" />Sign out</button>
              <button type="button" onClick=${() => signOut(true)}><${Icon} of="out" />Sign out everywhere</button>`
      }
    </div>`;
}
