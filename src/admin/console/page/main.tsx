import { type ComponentType, render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Account } from './account-menu.tsx';
import { Find } from './find.tsx';
import { Notices } from './kit/dialog.tsx';
import { clockText } from './kit/format.tsx';
import { Icon, type IconName } from './kit/icon.tsx';
import { Page } from './kit/page.tsx';
import { useIsOld } from './kit/seen.tsx';
import { Banner, Empty, Loading, Problem } from './kit/states.tsx';
import { startTheme } from './kit/theme.ts';
import { useLostSince, watchLink } from './link.ts';
import { followLinks, hrefOf, usePlace } from './place.ts';
import type { Known } from './reading.ts';
import { WatchedSettings } from './refused-settings.tsx';
import { ApiError, changes, useResource } from './requests.ts';
import { Shortcuts } from './shortcuts.tsx';
import { SignInGate } from './signed-in.tsx';
import type { RefusedPage } from './types.ts';

type Screen = ComponentType<{ rest: string }>;

interface NamedScreen {
  readonly path: string;
  /** The letter that goes there after `g`. */
  readonly key: string;
  readonly title: string;
  /** Of the navigation. */
  readonly group: 'Watch' | 'Manage' | 'System';
  readonly icon: IconName;
  readonly load: () => Promise<Screen>;
  /** Loads the screen of one record, or of a part, if that is another one. */
  readonly loadOne?: (rest: string) => Promise<Screen>;
}

const loadCaller = async () => (await import('./screens/caller-screen.tsx')).CallerScreen;
const loadPlans = async (rest: string) =>
  /^history(?:\/|$)/.test(rest)
    ? (await import('./screens/plans-history-screen.tsx')).History
    : (await import('./screens/plans-draft.tsx')).Drafting;

function at(path: string, key: string, title: string, group: NamedScreen['group'], icon: IconName) {
  return { path, key, title, group, icon };
}

/**
 * The screens in the order of the navigation, each loaded when it is first shown. `rest` of the path goes to the screen:
 * `/keys/key_1` → `key_1`.
 */
const SCREENS: readonly NamedScreen[] = [
  { ...at('/', 'n', 'Now', 'Watch', 'pulse'), load: async () => (await import('./screens/now-screen.tsx')).Now },
  {
    ...at('/traffic', 't', 'Traffic', 'Watch', 'chart'),
    load: async () => (await import('./screens/traffic-screen.tsx')).Traffic,
  },
  {
    ...at('/live', 'r', 'Requests', 'Watch', 'activity'),
    load: async () => (await import('./screens/live-screen.tsx')).Live,
  },
  {
    ...at('/explain', 'e', 'Explain', 'Watch', 'explain'),
    load: async () => (await import('./screens/explain-screen.tsx')).Explain,
  },
  {
    ...at('/keys', 'k', 'Keys', 'Manage', 'key'),
    load: async () => (await import('./screens/keys-screen.tsx')).Keys,
    loadOne: loadCaller,
  },
  {
    ...at('/customers', 'c', 'Customers', 'Manage', 'customer'),
    load: async () => (await import('./screens/customers-screen.tsx')).Customers,
    loadOne: loadCaller,
  },
  {
    ...at('/plans', 'p', 'Plans', 'Manage', 'plans'),
    load: async () => (await import('./screens/plans-screen.tsx')).Plans,
    loadOne: loadPlans,
  },
  {
    ...at('/retiring', 'd', 'Retiring routes', 'Manage', 'calendar'),
    load: async () => (await import('./screens/retiring-screen.tsx')).Retiring,
  },
  {
    ...at('/upstreams', 'u', 'Upstreams', 'System', 'server'),
    load: async () => (await import('./screens/upstreams-screen.tsx')).Upstreams,
  },
  {
    ...at('/audit', 'a', 'Audit', 'System', 'scroll'),
    load: async () => (await import('./screens/audit-screen.tsx')).Audit,
  },
];

function Shell() {
  const { path } = usePlace();
  const found = screenFor(path);
  const lostSince = useLostSince();
  useEffect(watchLink, []);
  const main = useRef<HTMLElement>(null);
  const screens = useRef<HTMLElement>(null);
  useEffect(() => keepFocus(main.current!), []);
  // On a phone the screens are a strip: the present one is in sight.
  useEffect(() => {
    const strip = screens.current!;
    const center = () => {
      const present = strip.querySelector<HTMLElement>('[aria-current]');
      if (present !== null) strip.scrollLeft = present.offsetLeft + (present.offsetWidth - strip.clientWidth) / 2;
    };
    // A count that appears in it moves the others.
    const observer = new ResizeObserver(center);
    observer.observe(strip.firstElementChild!);
    return () => observer.disconnect();
  }, [path]);
  return (
    <div class={lostSince === null ? 'shell' : 'shell is-lost'}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href={hrefOf('/')} aria-label="Tollgate">
          <img src="/console/icon.svg" alt="" width="24" height="24" />
          <span>Tollgate</span>
        </a>
        <Find screens={SCREENS} />
        <Account />
      </header>
      <nav aria-label="Screens" ref={screens}>
        <div>
          {[...Map.groupBy(SCREENS, ({ group }) => group)].map(([group, screens]) => (
            <div key={group}>
              <h2>{group}</h2>
              <ul>
                {screens.map(({ path, title, icon }) => (
                  <li key={path}>
                    <a href={hrefOf(path)} aria-current={found?.path === path ? 'page' : undefined}>
                      <Icon of={icon} />
                      {title}
                      {path === '/' && <BannedCount />}
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          ))}
        </div>
      </nav>
      <main id="main" tabindex={-1} ref={main}>
        {lostSince !== null && (
          <Banner title="The gateway does not answer">
            <p>This is as of {clockText(lostSince)}. The page tries again by itself.</p>
          </Banner>
        )}
        {found !== null && found.path !== '/' && <WatchedSettings />}
        {found === null ? (
          <Page title="Not found">
            <Empty title="There is no such screen." />
          </Page>
        ) : (
          <Shown key={found.key} title={found.title} load={found.load} rest={found.rest} whole={path} />
        )}
      </main>
      <Notices />
      <Shortcuts screens={SCREENS} />
    </div>
  );
}

/** How often the navigation reads who is refused, in milliseconds. */
const COUNT_MS = 15_000;

/** Shows how many callers are banned now or, if no caller is banned, how many are refused. Shows nothing while all callers are served. */
function BannedCount() {
  const { reading, reload } = useResource<RefusedPage>('/admin/now?limit=100', COUNT_MS);
  useEffect(() => changes.listen(reload), [reload]);
  if (reading.state === 'failed') {
    return (
      <span class="count" title="Unknown who is refused">
        {' '}
        –
      </span>
    );
  }
  return reading.state === 'known' && <Counted of={reading} />;
}

function Counted({ of }: { of: Known<RefusedPage> }) {
  const isOld = useIsOld(of);
  const all = of.value.consumers;
  const banned = all.filter(({ state }) => state === 'banned').length;
  if (all.length === 0) return null;
  return (
    <span class={`count ${banned > 0 && !isOld ? 'bad' : ''}`} title={isOld ? `As of ${clockText(of.at)}` : undefined}>
      {' '}
      {banned > 0 ? `${banned} banned` : `${all.length} refused`}
    </span>
  );
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

interface ShownProps {
  readonly title: string;
  readonly load: (rest: string) => Promise<Screen>;
  readonly rest: string;
  readonly whole: string;
}

/** Loads a screen and shows it. @param whole the path with `rest`; when it changes, the screen starts over */
function Shown({ title, load, rest, whole }: ShownProps) {
  const [screen, setScreen] = useState<{ readonly body: Screen } | ApiError | null>(null);
  const read = () => {
    const lost = () => new ApiError(0, 'lost', 'The gateway does not send this screen. It may be restarting.');
    load(rest).then(
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
  if (screen === null)
    return (
      <Page title={title}>
        <Loading what="the screen" />
      </Page>
    );
  if (screen instanceof ApiError) {
    return (
      <Page title={title}>
        <Problem error={screen} retry={() => window.location.reload()} />
      </Page>
    );
  }
  return <screen.body rest={rest} />;
}

startTheme();
const root = document.getElementById('console')!;
followLinks(root);
render(
  <SignInGate>
    <Shell />
  </SignInGate>,
  root,
);
