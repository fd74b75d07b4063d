import { Failure } from '../failure.ts';
import { escapedText } from '../io/terminal-text.ts';
import { type StoreContext, storeContext } from '../operations/catalogue/contexts.ts';
import { keyFilterFrom } from '../operations/key-search.ts';
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

/**
 * Reads a key, or something of it, by the word that a person gave as its id. Where there is no such id, the error names the keys
 * whose name or owner has the word.
 * @throws Failure as `work` does
 */
export async function withMeantKeys<T>(
  store: OpenStore,
  word: string,
  work: (found: Operations) => Promise<T>,
): Promise<T> {
  const operations = operationsOn(store);
  try {
    return await work(operations);
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'not_found' || word.startsWith('key_')) throw error;
    const meant = await meantKeys(operations, word, store);
    throw meant === '' ? error : new Failure(error.code, `There is no key with this id. Did you mean ${meant}?`, error);
  }
}

/** At most this many keys are named. */
const MEANT_KEYS = 3;

/** The keys that a word finds, with their names; empty if it finds none, or may be a secret. */
async function meantKeys(operations: Operations, word: string, { settings }: OpenStore): Promise<string> {
  const given = { text: word, plan: null, owner: null, customer: null, expiring: null, unused: null };
  const words = { nameOf: String, secretAdvice: '', formats: settings.keyFormats, keepsHistory: false };
  const filter = keyFilterFrom(given, false, words);
  if ('fault' in filter) return '';
  const { keys } = await operations.search(filter, { limit: MEANT_KEYS, cursor: null });
  return keys.map(({ key: { id, name, owner } }) => `${id} (${escapedText(name ?? owner ?? 'no name')})`).join(' or ');
}
