import { useRef, useState } from 'preact/hooks';
import { SEARCHED } from '../attributes.js';
import { Act, Go } from '../kit/act.tsx';
import { isCustomer, isWholeId } from '../kit/callers.tsx';
import { type Filter, SPANS } from '../kit/filters.tsx';
import { say } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Badge } from '../kit/page.tsx';
import { navigate, usePlace } from '../place.ts';
import { ApiError, request } from '../requests.ts';
import type { FoundKey, Key, KeyPage } from '../types.ts';
import { FILTERED, recordRows } from './attribute-fields.tsx';
import { KeyTable } from './key-table.tsx';
import { ListScreen } from './list-screen.tsx';

const CreateDialog = later(async () => (await import('./opened-dialog.tsx')).CreateDialog);

/** What is known of the pepper of a secret. */
const PEPPERS = [
  ['current', 'the newest'],
  ['old', 'an older one'],
  ['removed', 'one that was removed'],
  ['unknown', 'unknown'],
] as const;

/** Those of `GET /admin/keys`. */
const FILTERS: readonly Filter[] = [
  { name: 'plan', label: 'Plan', as: 'plan' },
  ...FILTERED,
  { name: 'customer', label: 'Customer id' },
  { name: 'expiring', label: 'Expires within', as: 'choice', any: 'any time', options: SPANS },
  { name: 'unused', label: 'Unused for', as: 'choice', any: 'any time', options: SPANS },
  { name: 'pepper', label: 'Pepper', as: 'choice', any: 'any', options: PEPPERS },
  { name: 'form', label: 'Form of the secret' },
  { name: 'all', label: 'Show revoked', as: 'check' },
];

/** `/keys`, the search. */
export function Keys() {
  const { query } = usePlace();
  const [secret, findSecret, forgetSecret] = useFoundSecret();
  const filter = (name: string, value: string) => {
    forgetSecret();
    // The whole id of a customer names one customer, not some keys.
    const isOne = name === 'q' && isWholeId(value) && isCustomer(value);
    if (isOne) navigate(`/customers/${value}`);
    return isOne;
  };
  const back = () => {
    forgetSecret();
    // Its button is gone.
    document.getElementById('filter-q')?.focus();
  };
  const found = secret !== null && <FoundSecret found={secret} back={back} />;
  return (
    <ListScreen
      noun="key"
      searched={`${SEARCHED}, id, last four, meta.team=blue, or a whole secret`}
      filters={FILTERS}
      onFilter={filter}
      onSecret={findSecret}
      beside={<Go text="Near a limit" path={'/?callers=near'} />}
      rowsOf={({ keys }: KeyPage) => keys}
      tableOf={(keys: readonly Key[], selection) => <KeyTable keys={keys} selection={selection} />}
      csv={(keys: readonly Key[]) => recordRows(keys)}
      bulk={['suspend', 'resume', 'lift', 'move']}
      none={<p>{say`Create one here, or with ${<code>tollgate keys create</code>}.`}</p>}
      leftOut={query.get('all') === 'true' ? '' : 'Revoked ones were left out.'}
      Create={CreateDialog}
      instead={secret !== null && !('error' in secret) ? found : null}
    >
      {secret !== null && 'error' in secret && found}
    </ListScreen>
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
          <Act text="Close" on={back} />
        </p>
      </div>
    );
  }
  const { key, isCurrent } = found;
  return (
    <div class="panel stack">
      <p role="status">
        {isCurrent
          ? 'This secret belongs to this key:'
          : say`${<Badge kind="warn">This secret no longer works:</Badge>} it was rotated away or has expired. It belonged to this key:`}
      </p>
      <KeyTable keys={[key]} />
      <p class="row">
        <Act text="Back to the list" on={back} />
      </p>
    </div>
  );
}
