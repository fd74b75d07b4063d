import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, request } from './api.ts';
import { html } from './html.ts';
import { nameOf } from './kit/callers.ts';
import { Icon, type IconName } from './kit/icon.ts';
import { isSecretLike } from './kit/text-filter.ts';
import { navigate } from './router.ts';
import { useMay } from './session.ts';
import type { CustomerPage, FoundKey, KeyPage } from './types.ts';

/** What can be found without the gateway: a screen, or where an action begins. */
interface Destination {
  readonly title: string;
  readonly path: string;
  readonly icon: IconName;
}

interface Found extends Destination {
  readonly group: 'Keys' | 'Customers' | 'Requests' | 'Actions' | 'Screens';
  readonly note?: string;
}

/** How long after the last letter the gateway is asked, in milliseconds. */
const PAUSE_MS = 200;
/** How many keys, and how many customers, are offered. */
const MOST = 6;
const CALLER = /^(key|cus)_[0-9A-Za-z]{16}$|^jwt_[A-Za-z0-9_-]{32}$/;
const REQUEST_ID = /^[A-Za-z0-9._-]{8,64}$/;

/**
 * Finds anything by what is known of it: keys and customers by name, owner, id, metadata or the last four characters of a secret,
 * a key by a whole secret, a refused request by its id, screens and actions. A secret is sent in a body and put nowhere.
 */
export function Finder({ screens, onClose }: { screens: readonly Destination[]; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const near = useNearby(screens, text);
  const { found, status } = useFound(text);
  const all = [...found, ...near];
  const chosen = Math.min(at, all.length - 1);
  useEffect(() => dialog.current!.showModal(), []);
  useEffect(() => document.getElementById(`found-${chosen}`)?.scrollIntoView({ block: 'nearest' }), [chosen]);
  const go = ({ path }: Found) => {
    dialog.current!.close();
    navigate(path);
  };
  const key = (event: KeyboardEvent) => {
    const next = { ArrowDown: chosen + 1, ArrowUp: chosen - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      setAt((next + all.length) % Math.max(1, all.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      if (all[chosen] !== undefined) go(all[chosen]);
    }
  };
  const input = (event: Event) => {
    setText((event.target as HTMLInputElement).value);
    setAt(0);
  };
  return html`<dialog ref=${dialog} class="finder" aria-label="Find anything" onClose=${onClose} onClick=${({ target }: Event) => target === dialog.current && dialog.current!.close()}>
    <div class="finder-body">
      <label>
        <${Icon} of="search" /><span class="hidden">Find</span>
        <input value=${text} placeholder="Name, owner, id, last four, a secret, X-Request-Id…" autocomplete="off" autocapitalize="off" spellcheck="false" maxlength="4096"
          role="combobox" aria-expanded=${all.length > 0} aria-controls="found" aria-activedescendant=${all.length > 0 ? `found-${chosen}` : undefined} onKeyDown=${key} onInput=${input} />
        <kbd>Esc</kbd>
      </label>
      <p class="muted" role="status">${status || (all.length === 0 ? 'Nothing is found.' : null)}</p>
      <div class="found" id="found" role="listbox" aria-label="Found">
        ${all.map(
          (
            one,
            i,
          ) => html`${one.group !== all[i - 1]?.group && html`<h2 role="presentation" key=${one.group}>${one.group}</h2>`}
            <div key=${one.path} id="found-${i}" role="option" aria-selected=${i === chosen} onClick=${() => go(one)} onPointerMove=${() => setAt(i)}>
              <${Icon} of=${one.icon} /><bdi>${one.title}</bdi>${one.note && html`<span class="muted">${one.note}</span>`}
            </div>`,
        )}
      </div>
    </div>
  </dialog>`;
}

/** The screens and actions that match, without asking the gateway. */
function useNearby(screens: readonly Destination[], text: string): readonly Found[] {
  const mayCreate = useMay('admin');
  const wanted = text.trim().toLowerCase();
  return useMemo(() => {
    const actions: readonly Found[] = mayCreate
      ? [
          { group: 'Actions', title: 'Create key', path: '/keys?create', icon: 'plus' },
          { group: 'Actions', title: 'Create customer', path: '/customers?create', icon: 'plus' },
          { group: 'Actions', title: 'Edit plans', path: '/plans/edit', icon: 'plans' },
        ]
      : [];
    return [...screens.map((one): Found => ({ group: 'Screens', ...one })), ...actions].filter(({ title }) =>
      title.toLowerCase().includes(wanted),
    );
  }, [screens, wanted, mayCreate]);
}

/** What the gateway finds for a text, once the user pauses. */
function useFound(text: string): { readonly found: readonly Found[]; readonly status: string } {
  const [state, setState] = useState<{ found: readonly Found[]; status: string }>({ found: [], status: '' });
  const wanted = text.trim();
  useEffect(() => {
    if (wanted === '') {
      setState({ found: [], status: '' });
      return;
    }
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const found = await lookedUp(wanted, controller.signal);
        setState({ found, status: '' });
      } catch (failure) {
        if (controller.signal.aborted) return;
        if (!(failure instanceof ApiError)) throw failure;
        setState({ found: [], status: failure.code === 'not_found' ? 'No key has this secret.' : failure.message });
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [wanted]);
  return state;
}

async function lookedUp(wanted: string, signal: AbortSignal): Promise<readonly Found[]> {
  if (wanted.startsWith('tg_live_')) return [await keyOfSecret(wanted, signal)];
  if (CALLER.test(wanted)) {
    const isCustomer = wanted.startsWith('cus_');
    const [group, path, icon] = isCustomer
      ? (['Customers', '/customers', 'customer'] as const)
      : (['Keys', '/keys', 'key'] as const);
    return [{ group, title: wanted, path: `${path}/${wanted}`, icon }];
  }
  const explain: readonly Found[] = REQUEST_ID.test(wanted)
    ? [{ group: 'Requests', title: `Explain ${wanted}`, path: `/explain/${wanted}`, icon: 'explain' }]
    : [];
  // A long text without spaces may be the id of a request, or a secret of another maker: it is not sent as a query.
  if (isSecretLike(wanted)) return explain.length > 0 ? explain : [await keyOfSecret(wanted, signal)];
  const query = `q=${encodeURIComponent(wanted)}&limit=${MOST}`;
  const [{ data: ofKeys }, { data: ofCustomers }] = await Promise.all([
    request<KeyPage>('GET', `/admin/keys?${query}`, { signal }),
    request<CustomerPage>('GET', `/admin/customers?${query}`, { signal }),
  ]);
  const keys = ofKeys.keys.map(
    (key): Found => ({
      group: 'Keys',
      title: nameOf(key),
      path: `/keys/${key.id}`,
      icon: 'key',
      note: key.owner ?? key.plan,
    }),
  );
  const customers = ofCustomers.customers.map(
    (one): Found => ({
      group: 'Customers',
      title: nameOf(one),
      path: `/customers/${one.id}`,
      icon: 'customer',
      note: one.owner ?? one.plan,
    }),
  );
  return [...keys, ...customers, ...explain];
}

async function keyOfSecret(secret: string, signal: AbortSignal): Promise<Found> {
  const { data } = await request<FoundKey>('POST', '/admin/keys/find', { body: { secret }, signal });
  const note = data.isCurrent ? 'its secret' : 'its earlier secret, which no longer works';
  return { group: 'Keys', title: nameOf(data.key), path: `/keys/${data.key.id}`, icon: 'key', note };
}
