import { useEffect, useRef, useState } from 'preact/hooks';
import { SEARCHED } from '../attributes.js';
import { isCustomer, isWholeId } from '../kit/callers.tsx';
import { useCreating } from '../kit/creating.ts';
import { Choice, PlanChoice } from '../kit/filters.tsx';
import { later } from '../kit/later.tsx';
import { Badge, Page } from '../kit/page.tsx';
import { SearchResults } from '../kit/search.tsx';
import { isSecretLike, pathWith, SPANS, TextFilter } from '../kit/text-filter.tsx';
import { hrefOf, navigate, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { ApiError, request, useResource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { FoundKey, InForce, Key, KeyPage } from '../types.ts';
import { FILTERED } from './attribute-fields.tsx';
import { KeyTable } from './key-table.tsx';

const CreateDialog = later(async () => (await import('./key-form.tsx')).CreateDialog);

/** The filters in the address, which are those of `GET /admin/keys`. */
const FILTERS = ['q', 'plan', ...FILTERED.map(({ name }) => name), 'customer', 'expiring', 'unused', 'all'] as const;
type Filter = (typeof FILTERS)[number];

/** `/keys`, the search. */
export function Keys() {
  const { query } = usePlace();
  const mayCreate = useMay('admin');
  const plans = ifKnown(useResource<InForce>('/admin/plans').reading)?.plans ?? null;
  const [isCreating, setCreating] = useCreating('/keys', mayCreate);
  const [secret, findSecret, forgetSecret] = useFoundSecret();
  const asked = query.get('q') ?? '';
  const isSecretAsked = isSecretLike(asked);
  const given = FILTERS.flatMap((name) => {
    const value = query.get(name);
    return value && !(name === 'q' && isSecretAsked) ? [[name, value] as const] : [];
  });
  const set = (name: Filter, value: string) => {
    forgetSecret();
    // The whole id of a customer names one customer, not some keys.
    if (name === 'q' && isWholeId(value) && isCustomer(value)) navigate(`/customers/${value}`);
    else navigate(pathWith('/keys', given, name, value), 'replace');
  };
  useEffect(() => {
    // A user has put a secret into the address by hand.
    if (!isSecretAsked) return;
    set('q', '');
    findSecret(asked);
  }, [isSecretAsked]);
  const text = { set, onSecret: findSecret };
  const back = () => {
    forgetSecret();
    // Its button is gone.
    document.getElementById('filter-q')?.focus();
  };
  const close = (id: string | null) => {
    setCreating(false);
    if (id !== null) navigate(`/keys/${id}`);
  };
  const create = mayCreate && (
    <button type="button" class="primary" onClick={() => setCreating(true)}>
      Create key…
    </button>
  );
  return (
    <Page title="Keys" beside={create}>
      <search aria-label="Keys">
        <form class="filters" onSubmit={(event: Event) => event.preventDefault()}>
          <TextFilter
            name="q"
            label="Search"
            value={isSecretAsked ? '' : asked}
            {...text}
            isWide={true}
            placeholder={`${SEARCHED}, id, last four, meta.team=blue, or a whole secret`}
          />
          <PlanChoice id="filter-plan" onChange={(value: string) => set('plan', value)} />
          {FILTERED.map(({ name, label }) => (
            <TextFilter key={name} name={name} label={label} value={query.get(name) ?? ''} {...text} />
          ))}
          <TextFilter name="customer" label="Customer id" value={query.get('customer') ?? ''} {...text} />
          <Choice
            id="filter-expiring"
            name="expiring"
            label="Expires within"
            any="any time"
            options={SPANS}
            onChange={(value: string) => set('expiring', value)}
          />
          <Choice
            id="filter-unused"
            name="unused"
            label="Unused for"
            any="any time"
            options={SPANS}
            onChange={(value: string) => set('unused', value)}
          />
          <label class="check">
            <input
              type="checkbox"
              checked={query.get('all') === 'true'}
              onChange={(event: Event) => set('all', (event.target as HTMLInputElement).checked ? 'true' : '')}
            />
            Show revoked
          </label>
          <a class="button" href={hrefOf('/?callers=near&used=80')}>
            Near a limit
          </a>
        </form>
      </search>
      {secret !== null && <FoundSecret found={secret} back={back} />}
      {(secret === null || 'error' in secret) && (
        <SearchResults
          path="/admin/keys"
          noun="key"
          query={new URLSearchParams(given.map(([name, value]) => [name, value])).toString()}
          rowsOf={({ keys }: KeyPage) => keys}
          tableOf={(keys: readonly Key[]) => <KeyTable keys={keys} />}
          none={
            <p>
              Create one here, or with <code>tollgate keys create</code>.
            </p>
          }
          leftOut={query.get('all') === 'true' ? '' : 'Revoked ones were left out.'}
          clear={() => navigate('/keys', 'replace')}
        />
      )}
      {isCreating && <CreateDialog plans={plans} onClose={close} />}
    </Page>
  );
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
  if ('isRunning' in found)
    return (
      <p class="panel" role="status">
        Looking for the key of this secret…
      </p>
    );
  if ('error' in found) {
    return (
      <div class="panel" role="alert">
        <p class="state-title">
          {found.error.code === 'not_found' ? 'No key has this secret' : 'The secret was not looked up'}
        </p>
        <p>
          {found.error.code === 'not_found' ? 'It was never made here, or its key is deleted.' : found.error.message} A
          long text without spaces is taken for a secret; to search for a name, type a part of it.
        </p>
        <p class="row">
          <button type="button" onClick={back}>
            Close
          </button>
        </p>
      </div>
    );
  }
  const { key, isCurrent } = found;
  return (
    <div class="panel stack">
      <p role="status">
        {isCurrent ? (
          'This secret belongs to this key:'
        ) : (
          <>
            <Badge kind="warn">This secret no longer works:</Badge> it was rotated away or has expired. It belonged to
            this key:
          </>
        )}
      </p>
      <KeyTable keys={[key]} />
      <p class="row">
        <button type="button" onClick={back}>
          Back to the list
        </button>
      </p>
    </div>
  );
}
