import { type ComponentType, render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from './api.ts';
import { html } from './html.ts';
import { Notices } from './kit/dialog.ts';
import { Page } from './kit/page.ts';
import { Empty, Loading, Problem } from './kit/states.ts';
import { WatchedSettings } from './refused-settings.ts';
import { followLinks, hrefOf, usePlace } from './router.ts';
import { SignInGate, signOut, useSession } from './session.ts';

type Screen = ComponentType<{ rest: string }>;

interface NamedScreen {
  readonly path: string;
  readonly title: string;
  readonly load: () => Promise<Screen>;
  /** Loads the screen of one record, if that is another one. */
  readonly loadOne?: () => Promise<Screen>;
}

/**
 * The screens in the order of the navigation, each loaded when it is first shown. `rest` of the path goes to the screen:
 * `/keys/key_1` → `key_1`.
 */
const SCREENS: readonly NamedScreen[] = [
  { path: '/', title: 'Now', load: async () => (await import('./screens/now.ts')).Now },
  {
    path: '/keys',
    title: 'Keys',
    load: async () => (await import('./screens/keys.ts')).Keys,
    loadOne: async () => (await import('./screens/key.ts')).KeyScreen,
  },
  {
    path: '/customers',
    title: 'Customers',
    load: async () => (await import('./screens/customers.ts')).Customers,
    loadOne: async () => (await import('./screens/customer.ts')).CustomerScreen,
  },
  { path: '/plans', title: 'Plans', load: async () => (await import('./screens/plans.ts')).Plans },
  { path: '/explain', title: 'Explain', load: async () => (await import('./screens/explain.ts')).Explain },
  { path: '/live', title: 'Requests', load: async () => (await import('./screens/live.ts')).Live },
  { path: '/upstreams', title: 'Upstreams', load: async () => (await import('./screens/upstreams.ts')).Upstreams },
  { path: '/retiring', title: 'Retiring routes', load: async () => (await import('./screens/retiring.ts')).Retiring },
  { path: '/audit', title: 'Audit', load: async () => (await import('./screens/audit.ts')).Audit },
];

function Shell() {
  const { path } = usePlace();
  const found = screenFor(path);
  const main = useRef<HTMLElement>(null);
  useEffect(() => keepFocus(main.current!), []);
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
    <main id="main" tabindex="-1" ref=${main}>
      ${found !== null && found.path !== '/' && html`<${WatchedSettings} />`}
      ${
        found === null
          ? html`<${Page} title="Not found"><${Empty} title="There is no such screen." /></${Page}>`
          : html`<${Shown} ...${found} whole=${path} />`
      }
    </main>
    <${Notices} />
  </div>`;
}

/**
 * If the element with the focus is removed, such as a row with live data or the button that opened a dialog, moves the focus to the heading
 * of the screen: the next Tab would otherwise begin at the top of the page. @returns a function that ends it
 */
function keepFocus(main: HTMLElement): () => void {
  let last: EventTarget | null = null;
  const note = ({ target }: FocusEvent) => {
    last = target;
  };
  const observer = new MutationObserver(() => {
    if (!(last instanceof Element) || last.isConnected) return;
    last = null;
    if (document.activeElement !== document.body) return;
    main.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true });
  });
  document.addEventListener('focusin', note);
  observer.observe(main, { childList: true, subtree: true });
  return () => {
    document.removeEventListener('focusin', note);
    observer.disconnect();
  };
}

function screenFor(path: string) {
  for (const { path: base, title, load, loadOne } of SCREENS) {
    if (path !== base && (base === '/' || !path.startsWith(`${base}/`))) continue;
    const rest = path.slice(base.length + 1);
    const one = rest === '' ? undefined : loadOne;
    // The screen of another record starts over.
    return { path: base, title, load: one ?? load, rest, key: one === undefined ? base : path };
  }
  return null;
}

/** Whether a screen was shown before this one. The first screen does not take the focus. */
const shown = { isFirst: true };

/** Loads a screen and shows it. @param whole the path with `rest`; when it changes, the screen starts over */
function Shown({
  title,
  load,
  rest,
  whole,
}: {
  title: string;
  load: () => Promise<Screen>;
  rest: string;
  whole: string;
}) {
  const [screen, setScreen] = useState<{ readonly body: Screen } | ApiError | null>(null);
  const read = () => {
    const lost = () => new ApiError(0, 'lost', 'The gateway does not send this screen. It may be restarting.');
    load().then(
      (body) => setScreen({ body }),
      () => setScreen(lost()),
    );
  };
  useEffect(read, []);
  const isShown = screen !== null;
  useEffect(() => {
    if (!isShown) return;
    // A new screen begins at its heading, for the keyboard and for screen readers, unless it gives the focus to a field.
    const start = document.querySelector<HTMLElement>('main [autofocus]');
    if (start !== null || !shown.isFirst) (start ?? document.querySelector<HTMLElement>('main h1'))?.focus();
    shown.isFirst = false;
    window.scrollTo(0, 0);
  }, [isShown, whole]);
  if (screen === null) return html`<${Page} title=${title}><${Loading} what="the screen" /></${Page}>`;
  if (screen instanceof ApiError) {
    return html`<${Page} title=${title}><${Problem} error=${screen} retry=${() => window.location.reload()} /></${Page}>`;
  }
  return html`<${screen.body} rest=${rest} />`;
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
