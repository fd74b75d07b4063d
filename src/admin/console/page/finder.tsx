import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { isCustomer, isWholeId, nameOf } from './kit/callers.tsx';
import { plural } from './kit/format.tsx';
import { Icon, type IconName } from './kit/icon.tsx';
import { isRequestId, mayBeSecret } from './kit/request-id.ts';
import { navigate } from './place.ts';
import { ApiError, request } from './requests.ts';
import { useMay } from './signed-in.tsx';
import type { CustomerPage, FoundKey, KeyOrCustomer, KeyPage } from './types.ts';

/** What can be found without the gateway: a screen, or where an action begins. */
export interface Destination {
  readonly title: string;
  readonly path: string;
  readonly icon: IconName;
}

interface FinderEntry extends Destination {
  readonly group: 'Keys' | 'Customers' | 'Requests' | 'Actions' | 'Screens';
  readonly note?: string;
}

/** How long after the last letter the gateway is asked, in milliseconds. */
const PAUSE_MS = 200;
/** How many keys, and how many customers, are offered. */
const MOST = 6;
/** How many records that cannot be read are named. */
const MOST_NAMED = 3;

/** What the field above the list has to know of it. */
export interface Listed {
  /** The id of the element that Enter opens; undefined if nothing is listed. */
  readonly active: string | undefined;
  /** Moves in the list, and opens what is chosen. */
  readonly key: (event: KeyboardEvent) => void;
}

interface FinderProps {
  readonly screens: readonly Destination[];
  readonly wanted: string;
  readonly onListed: (listed: Listed) => void;
  readonly onClose: () => void;
}

/**
 * Finds anything by what is known of it: keys and customers by name, owner, id, metadata or the last four characters of a secret,
 * a key by a whole secret, a refused request by its id, screens and actions. A secret is sent in a body and put nowhere.
 * @param wanted the text, trimmed
 */
export function Finder({ screens, wanted, onListed, onClose }: FinderProps) {
  const [chosenFor, setChosenFor] = useState({ wanted, at: 0 });
  const near = useNearby(screens, wanted);
  const { of, found, status } = useFound(wanted);
  // A word that may be the id of a request is more often a part of a title.
  const all = [
    ...found.filter(({ group }) => group !== 'Requests'),
    ...near,
    ...found.filter(({ group }) => group === 'Requests'),
  ];
  const at = chosenFor.wanted === wanted ? chosenFor.at : 0;
  const chosen = Math.min(at, all.length - 1);
  const setAt = (next: number) => setChosenFor({ wanted, at: next });
  useEffect(() => document.getElementById(`found-${chosen}`)?.scrollIntoView({ block: 'nearest' }), [chosen]);
  const go = ({ path }: FinderEntry) => {
    onClose();
    navigate(path);
  };
  const key = (event: KeyboardEvent) => {
    const next = { ArrowDown: chosen + 1, ArrowUp: chosen - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      setAt((next + all.length) % Math.max(1, all.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      // What was found for an earlier text stays in sight, but Enter would open what the user did not ask for.
      const one = all[chosen];
      if (one !== undefined && (of === wanted || near.includes(one))) go(one);
    }
  };
  useLayoutEffect(
    () => onListed({ active: all.length > 0 ? `found-${chosen}` : undefined, key }),
    [wanted, of, found, near, chosen],
  );
  return (
    <>
      <p class="muted" role="status">
        {status || (all.length === 0 && of === wanted ? 'Nothing is found.' : null)}
      </p>
      <div class="found" id="found" role="listbox" aria-label="Found">
        {all.map((one, i) => (
          <>
            {one.group !== all[i - 1]?.group && (
              <h2 role="presentation" key={one.group}>
                {one.group}
              </h2>
            )}
            {/* biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the field, which names the chosen option */}
            {/* biome-ignore lint/a11y/useKeyWithClickEvents: Enter in the field goes to the chosen option */}
            <div
              key={one.path}
              id={`found-${i}`}
              role="option"
              aria-selected={i === chosen}
              onClick={() => go(one)}
              onPointerMove={() => setAt(i)}
            >
              <Icon of={one.icon} />
              <bdi>{one.title}</bdi>
              {one.note && <span class="muted">{one.note}</span>}
            </div>
          </>
        ))}
      </div>
    </>
  );
}

/** The screens and actions that match, without asking the gateway. */
function useNearby(screens: readonly Destination[], wanted: string): readonly FinderEntry[] {
  const mayCreate = useMay('admin');
  return useMemo(() => {
    const actions: readonly FinderEntry[] = mayCreate
      ? [
          { group: 'Actions', title: 'Create key', path: '/keys?create', icon: 'plus' },
          { group: 'Actions', title: 'Create customer', path: '/customers?create', icon: 'plus' },
          { group: 'Actions', title: 'Edit plans', path: '/plans/edit', icon: 'plans' },
        ]
      : [];
    const more: FinderEntry = { group: 'Screens', title: 'History of plans', path: '/plans/history', icon: 'plans' };
    return [...screens.map((one): FinderEntry => ({ group: 'Screens', ...one })), more, ...actions].filter(
      ({ title }) => title.toLowerCase().includes(wanted.toLowerCase()),
    );
  }, [screens, wanted, mayCreate]);
}

interface Answer {
  /** The text that was looked up. */
  readonly of: string;
  readonly found: readonly FinderEntry[];
  readonly status: string;
}

/** What the gateway finds for a text, once the user pauses. Until then it is the answer to an earlier text. */
function useFound(wanted: string): Answer {
  const [answer, setAnswer] = useState<Answer>(NONE);
  useEffect(() => {
    if (wanted === '') {
      setAnswer(NONE);
      return;
    }
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setAnswer({ of: wanted, ...(await lookedUp(wanted, controller.signal)) });
      } catch (failure) {
        if (controller.signal.aborted) return;
        if (!(failure instanceof ApiError)) throw failure;
        const status = failure.code === 'not_found' ? 'No key has this secret.' : failure.message;
        setAnswer({ of: wanted, found: [], status });
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [wanted]);
  return answer;
}

const NONE: Answer = { of: '', found: [], status: '' };

async function lookedUp(wanted: string, signal: AbortSignal): Promise<Omit<Answer, 'of'>> {
  const all = (...found: readonly FinderEntry[]) => ({ found, status: '' });
  if (isWholeId(wanted)) return all(recordFound({ id: wanted, name: null }));
  const mayBeRequest = isRequestId(wanted);
  const explain: readonly FinderEntry[] = mayBeRequest
    ? [{ group: 'Requests', title: `Explain the request ${wanted}`, path: `/explain/${wanted}`, icon: 'explain' }]
    : [];
  // A long text without spaces is the id of a request or a secret: it is not sent as a query.
  if (mayBeSecret(wanted)) return mayBeRequest ? all(...explain) : all(await keyOfSecret(wanted, signal));
  const query = `q=${encodeURIComponent(wanted)}&limit=${MOST}`;
  const [{ data: ofKeys }, { data: ofCustomers }] = await Promise.all([
    request<KeyPage>('GET', `/admin/keys?${query}`, { signal }),
    request<CustomerPage>('GET', `/admin/customers?${query}`, { signal }),
  ]);
  const records = [...ofKeys.keys, ...ofCustomers.customers];
  const found = records.map((record) => recordFound(record, record.owner ?? record.plan ?? undefined));
  return { found: [...found, ...explain], status: unreadableText([...ofKeys.unreadable, ...ofCustomers.unreadable]) };
}

/** Says which records may match although they are not listed. */
function unreadableText(records: KeyPage['unreadable']): string {
  if (records.length === 0) return '';
  const more = records.length > MOST_NAMED ? ' and more' : '';
  const ids = records.slice(0, MOST_NAMED).map(({ id }) => id);
  return `${plural(records.length, 'record')} cannot be read and may match: ${ids.join(', ')}${more}.`;
}

async function keyOfSecret(secret: string, signal: AbortSignal): Promise<FinderEntry> {
  const { data } = await request<FoundKey>('POST', '/admin/keys/find', { body: { secret }, signal });
  return recordFound(data.key, data.isCurrent ? 'its secret' : 'its earlier secret, which no longer works');
}

/** A key, a caller with tokens or a customer. */
function recordFound(record: Pick<KeyOrCustomer, 'id' | 'name'>, note = ''): FinderEntry {
  const place = isCustomer(record.id)
    ? ({ group: 'Customers', path: `/customers/${record.id}`, icon: 'customer' } as const)
    : ({ group: 'Keys', path: `/keys/${record.id}`, icon: 'key' } as const);
  return { ...place, title: nameOf(record), note };
}
