import { Failure } from '../failure.ts';
import { escapedText } from '../io/terminal-text.ts';
import { isCustomerId } from '../model/record.ts';
import { listCustomers } from '../operations/catalogue/customer-operations.ts';
import { listKeys } from '../operations/catalogue/key-operations.ts';
import { folded } from '../operations/key-search.ts';
import { type OperationsAt, pagesOf } from './operations-interface.ts';
import type { Placeholder } from './terminal/command.ts';

/** What an id may be of. */
type Kind = 'key' | 'customer';

const KINDS_OF: Readonly<Record<Placeholder, readonly Kind[]>> = {
  KEY_ID: ['key'],
  CUSTOMER_ID: ['customer'],
  ID: ['key', 'customer'],
};

/** Who has a name. */
interface NamedRecord {
  readonly kind: Kind;
  readonly id: string;
  readonly name: string | null;
  readonly owner: string | null;
  /** It is a key that is revoked. */
  readonly isRevoked: boolean;
}

/** What a search for a word has found, all of it: a second one of the same name counts wherever it is. */
interface NameMatches {
  /** Those with exactly this name, in any case. */
  readonly exact: readonly NamedRecord[];
  /** The first that have the word in their name, owner or metadata, and are not revoked. */
  readonly part: readonly NamedRecord[];
}

/** What a command asks for. */
export interface Meaning {
  readonly of: Placeholder;
  /** The command only reads, so the only one that has the word in its name or owner is taken as well. */
  readonly isRead: boolean;
  readonly isForRevoked?: boolean;
  /** Says on standard error whom a name means. */
  readonly note: (text: string) => void;
}

/** At most this many are named in an error. */
const MEANT = 3;

/**
 * Finds the id that a person means: the word itself if it has the form of one, or that of the only key or customer with this name. A
 * revoked key counts only if no other key has the name, unless the command is for revoked keys too.
 * @returns the word where nothing has such a name: the command says that it does not exist
 * @throws Failure `not_found` with those that may be meant, if they are several; or if the id or the name is that of the other kind
 */
export async function meantId(
  at: OperationsAt,
  word: string,
  { of, isRead, isForRevoked = false, note }: Meaning,
): Promise<string> {
  const kinds = KINDS_OF[of];
  const kind = kindOfId(word);
  if (kind !== null) {
    if (kinds.includes(kind)) return word;
    throw new Failure('not_found', `${word} is the id of a ${kind}. This takes a ${kinds[0]}.`);
  }
  const { exact, part } = await found(at, word, kinds);
  const hasLiveKey = exact.some((one) => one.kind === 'key' && !one.isRevoked);
  const named = exact.filter(({ isRevoked }) => isForRevoked || !isRevoked || !hasLiveKey);
  const meant = named.length === 0 && isRead ? part : named;
  if (meant.length === 1) {
    const [{ id, name, owner, isRevoked }] = meant as [NamedRecord];
    const whole = named.length === 1 ? '' : ` (${escapedText(name ?? owner ?? 'no name')})`;
    note(`note: ${escapedText(word)} is ${id}${whole}${isRevoked ? ', which is revoked' : ''}.\n`);
    return id;
  }
  const all = named.length === 0 ? part : named;
  const some = all.slice(0, MEANT);
  if (some.length === 0) {
    if (/^(?:key|cus|jwt)_/.test(word)) return word;
    if (of === 'ID') throw new Failure('not_found', NEITHER);
    const others = (
      await found(
        at,
        word,
        KINDS_OF.ID.filter((other) => !kinds.includes(other)),
      )
    ).exact;
    if (others.length === 0) return word;
    const [{ kind: other, id }] = others as [NamedRecord];
    throw new Failure('not_found', `${escapedText(word)} is the name of a ${other}, ${id}. This takes a ${kinds[0]}.`);
  }
  const names = some.map(({ id, name, owner }) => `${id} (${escapedText(name ?? owner ?? 'no name')})`);
  const why = named.length === 0 ? 'Nothing has exactly this name.' : 'Several have this name: give the id.';
  throw new Failure(
    'not_found',
    `${why} Did you mean ${names.join(' or ')}?${all.length > MEANT ? ' There are more.' : ''}`,
  );
}

const NEITHER =
  'There is no key and no customer with this id or name. `tollgate keys list` and `tollgate customers list` show them.';

/** What a word is the id of, by its form; null: it is no id. A token caller is named as a key would be. */
function kindOfId(word: string): Kind | null {
  if (isCustomerId(word)) return 'customer';
  return /^(?:key_[0-9A-Za-z]{16}|(?:cus_\w+\/)?jwt_[\w-]{32})$/.test(word) ? 'key' : null;
}

async function found(at: OperationsAt, word: string, kinds: readonly Kind[]): Promise<NameMatches> {
  const [exact, part]: [NamedRecord[], NamedRecord[]] = [[], []];
  const wanted = folded(word);
  for (const kind of kinds) {
    for await (const one of FIND[kind](at, word)) {
      if (folded(one.name ?? '') === wanted) exact.push(one);
      else if (!one.isRevoked && part.length <= MEANT) part.push(one);
      if (exact.filter(({ isRevoked }) => !isRevoked).length > MEANT) return { exact, part };
    }
  }
  return { exact, part };
}

/** The keys and customers that a word finds; none if it may be a secret. One that cannot be read is found by its id alone. */
const FIND: Readonly<Record<Kind, (at: OperationsAt, word: string) => AsyncGenerator<NamedRecord>>> = {
  async *key(at, q) {
    for await (const { keys } of unlessRefused(pagesOf(at, listKeys, { q, all: true })))
      for (const one of keys) yield { ...one, kind: 'key', isRevoked: one.revokedAt !== null };
  },
  async *customer(at, q) {
    for await (const { customers } of unlessRefused(pagesOf(at, listCustomers, { q })))
      for (const one of customers) yield { ...one, kind: 'customer', isRevoked: false };
  },
};

/** What a list gives, and nothing if it refuses the word. */
async function* unlessRefused<T>(pages: AsyncGenerator<T>): AsyncGenerator<T> {
  try {
    yield* pages;
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'refused') throw error;
  }
}
