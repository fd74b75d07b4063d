import { type ComponentType, render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { html } from './html.ts';
import { Notices } from './kit/dialog.ts';
import { Page } from './kit/page.ts';
import { Empty } from './kit/states.ts';
import { followLinks, hrefOf, usePlace } from './router.ts';
import { Keys } from './screens/keys.ts';
import { Now } from './screens/now.ts';
import { Plans } from './screens/plans.ts';
import { Audit } from './screens/audit.ts';
import { Explain } from './screens/explain.ts';
import { Live } from './screens/live.ts';
import { Now } from './screens/now.ts';
import { Retiring } from './screens/retiring.ts';
import { Upstreams } from './screens/upstreams.ts';
import { SignInGate, signOut, useSession } from './session.ts';

/** The screens in the order of the navigation. `rest` of the path goes to the screen: `/keys/key_1` → `key_1`. */
const SCREENS: readonly { path: string; title: string; screen: ComponentType<{ rest: string }> }[] = [
  { path: '/', title: 'Now', screen: Now },
  { path: '/keys', title: 'Keys', screen: Keys },
  { path: '/plans', title: 'Plans', screen: Plans },
  { path: '/explain', title: 'Explain', screen: Explain },
  { path: '/live', title: 'Live', screen: Live },
  { path: '/upstreams', title: 'Upstreams', screen: Upstreams },
  { path: '/retiring', title: 'Retiring routes', screen: Retiring },
  { path: '/audit', title: 'Audit', screen: Audit },
];

function Shell() {
  const { path } = usePlace();
  const found = screenFor(path);
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    // A new screen begins at its heading, for the keyboard and for screen readers. The first one does not take the focus.
    if (isFirst.current) isFirst.current = false;
    else {
      main.current?.querySelector('h1')?.focus();
      window.scrollTo(0, 0);
    }
  }, [path]);
  return html`<div class="shell">
    <a class="skip" href="#main">Skip to the content</a>
    <header class="bar">
      <a class="brand" href=${hrefOf('/')}><img src="/console/icon.svg" alt="" width="24" height="24" />Tollgate</a>
      <${Account} />
    </header>
    <nav aria-label="Screens">
      <ul>
        ${SCREENS.map(
          ({ path, title }) =>
            html`<li key=${path}>
              <a href=${hrefOf(path)} aria-current=${found?.path === path ? 'page' : undefined}>${title}</a>
            </li>`,
        )}
      </ul>
    </nav>
    <main id="main" ref=${main} tabindex="-1">
      ${
        found === null
          ? html`<${Page} title="Not found"><${Empty} title="There is no such screen." /></${Page}>`
          : html`<${found.screen} key=${found.path} rest=${found.rest} />`
      }
    </main>
    <${Notices} />
  </div>`;
}

function screenFor(path: string) {
  for (const { path: base, screen } of SCREENS) {
    if (path === base) return { path: base, screen, rest: '' };
    if (base !== '/' && path.startsWith(`${base}/`)) return { path: base, screen, rest: path.slice(base.length + 1) };
  }
  return null;
}

function Account() {
  const { name, role, via } = useSession();
  return html`<details class="account">
    <summary>${name} <span class="tag">${role}</span></summary>
    <div class="menu">
      ${
        via === 'proxy'
          ? html`<p>Your proxy signs you in and out.</p>`
          : html`<button type="button" onClick=${() => signOut(false)}>Sign out</button>
              <button type="button" onClick=${() => signOut(true)}>Sign out everywhere</button>`
      }
    </div>
  </details>`;
}

const root = document.getElementById('console')!;
followLinks(root);
render(html`<${SignInGate}><${Shell} /></${SignInGate}>`, root);
