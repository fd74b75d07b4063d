import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, isPassing, request, useResource } from '../api.ts';
import { html } from '../html.ts';
import { Choice, PlanChoice } from '../kit/filters.ts';
import { countText, plural, Time, UtcDay } from '../kit/format.ts';
import { Badge, Page } from '../kit/page.ts';
import { Empty, Problem } from '../kit/states.ts';
import { Table } from '../kit/table.ts';
import { navigate, usePlace } from '../router.ts';
import { useMay } from '../session.ts';
import type { FoundKey, InForce, Key, KeyPage, RefusedPage } from '../types.ts';
import { KeyScreen } from './key.ts';
import { CreateDialog, KeyState, LastFour } from './key-form.ts';
import { KeyName } from './now.ts';

/** The filters in the address, which are those of `GET /admin/keys`. */
const FILTERS = ['q', 'plan', 'owner', 'expiring', 'unused', 'all'] as const;
type Filter = (typeof FILTERS)[number];

/** `/keys` is the search, `/keys/ID` one key. */
export function Keys({ rest }: { rest: string }) {
  return rest === '' ? html`<${KeyList} />` : html`<${KeyScreen} key=${rest} id=${decoded(rest)} />`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function KeyList() {
  const { query } = usePlace();
  const mayCreate = useMay('admin');
  const plans = useResource<InForce>('/admin/plans').data?.plans ?? null;
  const [isCreating, setCreating] = useState(false);
  const [secret, findSecret, forgetSecret] = useFoundSecret();
  const asked = query.get('q') ?? '';
  const isSecretAsked = isSecretLike(asked);
  const given = FILTERS.flatMap((name) => {
    const value = query.get(name);
    return value && !(name === 'q' && isSecretAsked) ? [[name, value] as const] : [];
  });
  const set = (name: Filter, value: string) => {
    forgetSecret();
    navigate(pathWith(given, name, value), 'replace');
  };
  useEffect(() => {
    // A user has put a secret into the address by hand.
    if (!isSecretAsked) return;
    set('q', '');
    findSecret(asked);
  }, [isSecretAsked]);
  const text = { set, findSecret };
  const back = () => {
    forgetSecret();
    // Its button is gone.
    document.getElementById('filter-q')?.focus();
  };
  const close = (id: string | null) => {
    setCreating(false);
    if (id !== null) navigate(`/keys/${id}`);
  };
  const create =
    mayCreate && html`<button type="button" class="primary" onClick=${() => setCreating(true)}>Create key…</button>`;
  return html`<${Page} title="Keys" beside=${create}>
    <form role="search" aria-label="Keys" class="filters" onSubmit=${(event: Event) => event.preventDefault()}>
      <${TextFilter} name="q" label="Search" value=${isSecretAsked ? '' : asked} ...${text} isWide=${true}
        hint="A part of a name, owner or id, the last four characters of a secret, a pair of metadata such as meta.team=blue, or a whole secret, which stays out of the address." />
      <${PlanChoice} id="filter-plan" onChange=${(value: string) => set('plan', value)} />
      <${TextFilter} name="owner" label="Owner" value=${query.get('owner') ?? ''} ...${text} />
      <${Choice} id="filter-expiring" name="expiring" label="Expires within" any="Any time" options=${SPANS} onChange=${(value: string) => set('expiring', value)} />
      <${Choice} id="filter-unused" name="unused" label="Unused for" any="Any time" options=${SPANS} onChange=${(value: string) => set('unused', value)} />
      <label class="check">
        <input type="checkbox" checked=${query.get('all') === 'true'} onChange=${(event: Event) => set('all', (event.target as HTMLInputElement).checked ? 'true' : '')} />
        Show revoked
      </label>
    </form>
    ${secret !== null && html`<${FoundSecret} found=${secret} back=${back} />`}
    ${
      (secret === null || 'error' in secret) &&
      html`<${Results} query=${new URLSearchParams(given.map(([name, value]) => [name, value])).toString()}
        clear=${() => navigate('/keys', 'replace')} />`
    }
    ${isCreating && html`<${CreateDialog} plans=${plans} onClose=${close} />`}
  </${Page}>`;
}

const SPANS = [
  ['1d', '1 day'],
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
] as const;

function pathWith(given: readonly (readonly [Filter, string])[], name: Filter, value: string): string {
  const query = new URLSearchParams(given.map(([name, value]) => [name, value]));
  if (value === '') query.delete(name);
  else query.set(name, value);
  const text = query.toString();
  return text === '' ? '/keys' : `/keys?${text}`;
}

/** Whether a text may be a secret: one of ours, or long without spaces, and neither an id nor an address of e-mail. */
function isSecretLike(text: string): boolean {
  const bare = text.trim();
  if (bare.includes('tg_live_')) return true;
  if (/^((?:key|cus)_[0-9A-Za-z]{16}|jwt_[\w-]{32}|[^@\s]+@[^@\s]+\.[a-z]{2,})$/.test(bare)) return false;
  return bare.length >= 20 && !/\s/.test(bare);
}

/** How long after the last letter a search begins, in milliseconds. */
const PAUSE_MS = 400;

/** A filter of text. A secret in it never gets into the address: it is looked up, and the field is emptied. */
function TextFilter({
  name,
  label,
  value,
  hint,
  isWide = false,
  set,
  findSecret,
}: {
  name: 'q' | 'owner';
  label: string;
  value: string;
  hint?: string;
  isWide?: boolean;
  set: (name: Filter, value: string) => void;
  findSecret: (secret: string) => void;
}) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    // The address was changed by something other than this field.
    if (value === sent.current) return;
    sent.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const commit = (input: HTMLInputElement) => {
    clearTimeout(timer.current);
    const wanted = input.value.trim();
    if (name === 'q' ? isSecretLike(wanted) : wanted.includes('tg_live_')) {
      setText('');
      input.value = '';
      sent.current = '';
      if (value !== '') set(name, '');
      findSecret(wanted);
    } else if (wanted !== sent.current) {
      sent.current = wanted;
      set(name, wanted);
    }
  };
  const onInput = (event: InputEvent) => {
    const input = event.target as HTMLInputElement;
    if (event.inputType === 'insertFromPaste' || event.inputType === 'insertFromDrop') {
      commit(input);
      if (input.value !== '') setText(input.value);
      return;
    }
    setText(input.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => commit(input), PAUSE_MS);
  };
  const id = `filter-${name}`;
  return html`<div class="field ${isWide ? 'wide' : ''}">
    <label for=${id}>${label}</label>
    <input id=${id} type="search" value=${text} autocomplete="off" autocapitalize="off" spellcheck="false" maxlength="4096"
      aria-describedby=${hint && `${id}-hint`} onInput=${onInput} onChange=${(event: Event) => commit(event.target as HTMLInputElement)} />
    ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
  </div>`;
}

type FoundBySecret = FoundKey | { error: ApiError } | { isRunning: true };

function useFoundSecret(): [FoundBySecret | null, (secret: string) => void, () => void] {
  const [found, setFound] = useState<FoundBySecret | null>(null);
  const last = useRef(0);
  const find = async (secret: string) => {
    last.current += 1;
    const run = last.current;
    setFound({ isRunning: true });
    let result: FoundBySecret;
    try {
      result = (await request<FoundKey>('POST', '/admin/keys/find', { body: { secret } })).data;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      result = { error };
    }
    if (run === last.current) setFound(result);
  };
  const forget = () => {
    last.current += 1;
    setFound(null);
  };
  return [found, (secret) => void find(secret), forget];
}

function FoundSecret({ found, back }: { found: FoundBySecret; back: () => void }) {
  if ('isRunning' in found) return html`<p class="panel" role="status">Looking for the key of this secret…</p>`;
  if ('error' in found) {
    return html`<div class="panel" role="alert">
      <p class="state-title">${found.error.code === 'not_found' ? 'No key has this secret' : 'The secret was not looked up'}</p>
      <p>${found.error.code === 'not_found' ? 'It was never made here, or its key is deleted.' : found.error.message} A long text without spaces is taken for a secret; to search for a name, type a part of it.</p>
      <p class="actions"><button type="button" onClick=${back}>Close</button></p>
    </div>`;
  }
  const { key, isCurrent } = found;
  return html`<div class="panel stack">
    <p role="status">${isCurrent ? 'This secret belongs to this key:' : html`<${Badge} kind="warn">This secret no longer works:</${Badge}> it was rotated away or has expired. It belonged to this key:`}</p>
    <${KeyTable} keys=${[key]} />
    <p class="actions"><button type="button" onClick=${back}>Back to the list</button></p>
  </div>`;
}

/** How many keys are shown at first, and more by each "Show more". */
const PAGE = 50;

interface Found {
  readonly query: string;
  readonly keys: readonly Key[];
  readonly cursor: string | null;
  readonly searched: number;
  readonly isRunning: boolean;
  readonly error: ApiError | null;
}

/** Searches until a page is full: a single response may have few keys, even none, although others follow. */
function useSearch(query: string): { found: Found; more: () => void; stop: () => void } {
  const none: Found = { query, keys: [], cursor: null, searched: 0, isRunning: true, error: null };
  const [found, setFound] = useState(none);
  const running = useRef<AbortController | null>(null);
  const search = async (from: Found) => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const wanted = (Math.floor(from.keys.length / PAGE) + 1) * PAGE;
    let now: Found = { ...from, isRunning: true, error: null };
    setFound(now);
    try {
      while (now.isRunning) {
        const page = new URLSearchParams(from.query);
        page.set('limit', String(wanted - now.keys.length));
        if (now.cursor !== null) page.set('cursor', now.cursor);
        const { data } = await request<KeyPage>('GET', `/admin/keys?${page}`, { signal: controller.signal });
        const { cursor } = data;
        const keys = [...now.keys, ...data.keys];
        const isRunning = cursor !== null && keys.length < wanted;
        now = { ...now, keys, cursor, searched: now.searched + data.searched, isRunning };
        setFound(now);
      }
    } catch (error) {
      if (controller.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      setFound({ ...now, isRunning: false, error });
    }
  };
  useEffect(() => {
    void search(none);
    return () => running.current?.abort();
  }, [query]);
  useEffect(() => {
    if (found.error === null || !isPassing(found.error)) return;
    const timer = setTimeout(() => void search(found), 3_000);
    return () => clearTimeout(timer);
  }, [found]);
  const stop = () => {
    running.current?.abort();
    setFound((before) => ({ ...before, isRunning: false }));
  };
  return { found: found.query === query ? found : none, more: () => void search(found), stop };
}

function Results({ query, clear }: { query: string; clear: () => void }) {
  const { found, more, stop } = useSearch(query);
  const { keys, cursor, searched, isRunning, error } = found;
  const status = useRef<HTMLParagraphElement>(null);
  const isClicked = useRef(false);
  const clicked = (act: () => void) => () => {
    isClicked.current = true;
    act();
  };
  useEffect(() => {
    if (isRunning || !isClicked.current) return;
    isClicked.current = false;
    // The button that had the focus is gone with the end of the list, or with the search that it stopped.
    if (document.activeElement === document.body) status.current?.focus();
  }, [isRunning]);
  const isLong = isRunning && searched > 0;
  if (keys.length === 0 && !isRunning && error === null && cursor === null) {
    return query === ''
      ? html`<${Empty} title="There are no keys yet.">
          <p>Create one here, or with <code>tollgate keys create</code>.</p>
        </${Empty}>`
      : html`<${Empty} title="No key matches.">
          <p>${countText(searched)} keys were searched.${!query.includes('all=true') && ' Revoked ones were left out.'}</p>
          <p class="actions"><button type="button" onClick=${clear}>Clear the filters</button></p>
        </${Empty}>`;
  }
  return html`<div class="stack" aria-busy=${isRunning}>
    ${keys.length > 0 && html`<${KeyTable} keys=${keys} />`}
    ${error !== null && html`<${Problem} error=${error} retry=${more} />`}
    <div class="actions foot">
      ${keys.length > 0 && cursor !== null && html`<button type="button" aria-busy=${isRunning} onClick=${clicked(() => !isRunning && more())}>Show more</button>`}
      ${keys.length === 0 && cursor !== null && !isRunning && error === null && html`<button type="button" onClick=${clicked(more)}>Search on</button>`}
      ${isLong && html`<button type="button" onClick=${clicked(stop)}>Stop</button>`}
      <p ref=${status} tabindex="-1" role="status" class="muted">
        ${isRunning && html`<span class="spinner" aria-hidden="true"></span>`}
        ${statusText(found)}
      </p>
    </div>
  </div>`;
}

function statusText({ keys, cursor, searched, isRunning, error }: Found): string {
  if (isRunning) return searched === 0 ? 'Loading keys…' : `Searched ${plural(searched, 'key')}…`;
  // The error above says why there are no more.
  if (error !== null) return keys.length === 0 ? '' : `${plural(keys.length, 'key')} shown.`;
  const shown = cursor === null ? `All ${plural(keys.length, 'key')} shown` : `${plural(keys.length, 'key')} shown`;
  return searched > keys.length ? `${shown}, ${countText(searched)} searched.` : `${shown}.`;
}

function KeyTable({ keys }: { keys: readonly Key[] }) {
  // The callers that were refused recently, in one request. Beyond the first thousand a key is shown as active though it is banned.
  const refused = useResource<RefusedPage>('/admin/now?limit=1000').data;
  const banned = new Set(refused?.consumers.flatMap(({ id, state }) => (state === 'banned' ? id : [])));
  const hasUse = keys.some(({ lastUsedOn }) => lastUsedOn !== undefined);
  return html`<${Table}
    caption="Keys"
    rows=${keys}
    keyOf=${(key: Key) => key.id}
    columns=${[
      {
        title: 'Key',
        isName: true,
        cell: ({ id, name }: Key) => html`<${KeyName} id=${id} name=${name} owner=${null} />`,
      },
      { title: 'Plan', cell: ({ plan }: Key) => plan },
      { title: 'Owner', cell: ({ owner }: Key) => html`<bdi class="clamp">${owner ?? '–'}</bdi>` },
      { title: 'Last four', cell: (key: Key) => html`<${LastFour} of=${key} />` },
      { title: 'Created', cell: ({ createdAt }: Key) => html`<${Time} at=${createdAt} dayOnly=${true} />` },
      {
        title: 'Expires',
        cell: ({ expiresAt }: Key) =>
          expiresAt === null ? 'never' : html`<${Time} at=${expiresAt} dayOnly=${true} />`,
      },
      ...(hasUse
        ? [
            {
              title: 'Last used',
              cell: ({ lastUsedOn }: Key) => (lastUsedOn ? html`<${UtcDay} of=${lastUsedOn} />` : 'not within 92 days'),
            },
          ]
        : []),
      { title: 'State', cell: (key: Key) => html`<${KeyState} of=${key} isBanned=${banned.has(key.id)} />` },
    ]}
  />`;
}
