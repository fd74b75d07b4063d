import { Failure } from '../failure.ts';
import type { StoredKey } from '../identify/key-store.ts';
import { escapedText } from '../io/terminal-text.ts';
import { type StoreContext, storeContext } from '../operations/catalogue/contexts.ts';
import { isSecretLike, keyFilterFrom } from '../operations/key-search.ts';
import type { Operations } from '../operations/operations.ts';
import type { OpenStore } from '../serve/open-store.ts';

/** What the operations of commands work on. */
export function contextOn(store: OpenStore): StoreContext {
  const { plans, settings } = store;
  const [inForce, secretAdvice] = [() => settings, ''];
  return storeContext({ ...store, plans: () => plans, settings: inForce, secretAdvice, nowMs: () => Date.now() });
}

/** The operations on the keys and bans of an open store, the same ones that the admin API offers. */
export function operationsOn(store: OpenStore): Operations {
  return contextOn(store).operations;
}

/** What an id may be of. */
type Kind = 'key' | 'customer';

/**
 * Finds the id that a person means: the word itself if it is one, or that of the only key or customer with this name.
 * @param kinds what the command is for; the first one is what the error speaks of
 * @param isRead the command only reads, so the only one whose name or owner has the word in it is taken as well
 * @returns the word where nothing has such a name: the command says that it does not exist
 * @throws Failure `not_found` with those that may be meant, if they are several
 */
export async function meantId(
  store: OpenStore,
  word: string,
  kinds: readonly [Kind, ...Kind[]],
  isRead: boolean,
): Promise<string> {
  if (/^(?:key|cus|jwt)_/.test(word)) return word;
  const found = (await Promise.all(kinds.map((kind) => FIND[kind](store, word)))).flat();
  const named = found.filter(({ name }) => name?.toLowerCase() === word.toLowerCase());
  const meant = named.length === 0 && isRead ? found : named;
  if (meant.length === 1) return meant[0]!.id;
  if (found.length === 0) return word;
  const some = (named.length === 0 ? found : named).slice(0, MEANT);
  const names = some.map(({ id, name, owner }) => `${id} (${escapedText(name ?? owner ?? 'no name')})`);
  throw new Failure('not_found', `There is no ${kinds[0]} with this id. Did you mean ${names.join(' or ')}?`);
}

/** At most this many are named. */
const MEANT = 3;
/** At most this many are looked at: a name that so many have in theirs means none of them. */
const MOST = 100;

type Named = Pick<StoredKey, 'id' | 'name' | 'owner'>;

/** The keys and customers that a word finds; none if it may be a secret. */
const FIND: Readonly<Record<Kind, (store: OpenStore, word: string) => Promise<readonly Named[]>>> = {
  async key(store, text) {
    const given = { text, plan: null, owner: null, customer: null, expiring: null, unused: null };
    const words = { nameOf: String, secretAdvice: '', formats: store.settings.keyFormats, keepsHistory: false };
    const filter = keyFilterFrom(given, false, words);
    if ('fault' in filter) return [];
    const { keys } = await operationsOn(store).search(filter, { limit: MOST, cursor: null });
    return keys.map(({ key }) => key);
  },
  async customer(store, text) {
    if (isSecretLike(text, store.settings.keyFormats)) return [];
    const filter = { text, plan: null, owner: null, expiringMs: null };
    return (await operationsOn(store).customers.search(filter, { limit: MOST, cursor: null })).customers;
  },
};
