import { lengthOfOwner } from '../../admit/account-id.ts';

/**
 * Every name that Tollgate uses in Redis, with its content and lifetime. No other module may build a name.
 * The braces are hash tags: all names of one consumer, or of one customer and its consumers, are in one slot of a Redis
 * Cluster.
 */
export const keyspace = {
  /** Hash: the counters, strikes and ban of one account. Expires when the last of them has ended and the store forgets it. */
  account: (accountId: string) => `tg:a:${inSlot(accountId)}`,
  /** String of 1,000 bytes: the usage of one consumer or customer (engine/history-form.ts). Expires 92 days after the last use. */
  history: (accountId: string) => `tg:h:${inSlot(accountId)}`,
  /** Sorted set and hash: the consumers that are refused now, by the end of their refusal. Bounded; expires with the last refusal. */
  refusedNow: { ends: 'tg:{refused}:ends', rest: 'tg:{refused}:rest' },
  /**
   * String: the id that a repeatable creation has reserved, or the offer or the use of a sign-in link, by a digest of its code
   * (`KeyStore.reserve`). Expires after less than a day.
   */
  reserved: (name: string) => `tg:new:{${name}}`,
  /**
   * Hash: the last day on which a caller used each secret of an API key, by the name of the secret (identify/secret-use-store.ts).
   * Bounded; expires 92 days after the last first use of a day.
   */
  secretUses: (keyId: string) => `tg:used:{${keyId}}`,
  /** String, JSON: from where one API key was called (operations/key-networks.ts). At most 4 KB. Expires 41 days after the last call. */
  keyNetworks: (keyId: string) => `tg:from:{${keyId}}`,
  /** String, JSON: one API key (StoredKey). Never removed: a revoked key stays, and a deleted one becomes a tombstone. */
  apiKey: (id: string) => `tg:key:{${id}}`,
  /**
   * List: ids of the last changes to one API key, one customer or one ban, newest first. The script of each change writes it
   * atomically, so that a gateway can tell a change that a failover has undone from one that a later change has followed. Expires
   * an hour after the last change.
   */
  changesTo: (id: string) => `tg:made:${inSlot(id)}`,
  /** String: the top-up, its undoing or the reset that an operator made under an id (its digest). Expires after 24 hours. */
  madeOnce: (accountId: string, digest: string) => `tg:once:${inSlot(accountId)}:${digest}`,
  /** String: the id of the API key that has, or had, a secret with this digest. Removed when the record drops the digest. */
  digest: (digest: string) => `tg:digest:${digest}`,
  /** Sorted set: the ids of all API keys by the time of their creation, milliseconds. */
  apiKeys: 'tg:keys',
  /** String, JSON: one customer (StoredCustomer). Never removed: a deleted one becomes a tombstone. */
  customer: (id: string) => `tg:customer:{${id}}`,
  /** Sorted set: the ids of all customers by the time of their creation, milliseconds. */
  customers: 'tg:customers',
  /**
   * Sorted set: the ids of the API keys of one customer by the time of their creation. A member counts only while the record of the
   * key names the customer: it is added before that record is written, and removed after another one is.
   */
  keysOfCustomer: (id: string) => `tg:customer:{${id}}:keys`,
  /** String, JSON: check values of the peppers in use, and the encrypted history of peppers. Never removed. */
  peppers: 'tg:peppers',
  /** String, integer: the number of changes to keys, customers and bans so far. Gateways poll it. */
  changes: 'tg:changes',
  /**
   * Channel: `NUMBER key ID`, `NUMBER customer ID` or `NUMBER ban ID` for every change, where NUMBER is the new value of `changes`. `ban` also
   * stands for a top-up and a reset, as `WORDS` in changes.ts explains. Databases share the channels of a server, so the
   * name contains the database.
   */
  changesChannel: (database: number) => `tg:changes:${database}`,
  /**
   * Channel: the name of an account's hash, when a request waits for what gateways have borrowed of it. Without the database: units
   * that are returned for an account of another one are borrowed again.
   */
  recallsChannel: 'tg:changes:recalls',
  /**
   * Hash: the record of changes. Each field named by a number holds one record, `ID MILLISECONDS REVISION JSON`; `first` and
   * `last` are the numbers of the oldest and the latest record; where they are wrong, the fields count. Has at most `audit.keep` records. Never expires. Earlier
   * versions also kept `at`, when the latest was added.
   */
  audit: 'tg:audit',
  /**
   * Hash: refused attempts to change something. Each field, `ACTOR ACTION MINUTE`, counts those of one actor at one action in one
   * minute (Unix time): `ID FIRST LAST COUNT JSON`, both times in milliseconds. Has at most 1,000 fields. Never expires.
   */
  auditRefusals: 'tg:audit:refused',
  /**
   * Hash: what the gateways last recorded of the files `settings` and `plans`, each as `NUMBER STATE`, where NUMBER counts the changes
   * (src/operations/load-record.ts), and the last 20 of each, as `settings 0` to `settings 19` by NUMBER modulo 20. Never expires.
   */
  auditLoads: 'tg:audit:loads',
  /**
   * Hash: the versions of plans.yaml that came into force (src/operations/plans/plans-history-store.ts). `numbers` has the numbers of the
   * entries, rising. Each field named by a number is `MILLISECONDS VERSION BYTES ACTOR`, and `NUMBER text` is its text. `claim` is who
   * has written the version with a number, `NUMBER ACTOR`. Has at most 100 entries and 16 MiB of texts. Never expires.
   */
  plansHistory: 'tg:plans:history',
  /** Hash: calls of a deprecated route in a day, by consumer. Expires `KEPT_DAYS` after the last of them. */
  deprecatedCalls: (day: string, route: string) => `tg:deprecated:{${day} ${route}}`,
  /**
   * Hash: why requests of one hour were refused or failed, by request id, as JSON (src/operations/explanation-store.ts). Has at most 400
   * fields. Expires 25 hours after the last of them.
   */
  explanations: (hour: number) => `tg:explained:{${hour}}`,
  /**
   * String: the traffic of all gateways in one minute or hour, or the names of a day's series
   * (src/operations/traffic/traffic-record.ts), by the number of the minute, hour or day since 1970. At most 10 MB together. A minute expires 49
   * hours, an hour 93 days and a day's names 94 days after the last report.
   */
  traffic: (part: 'names' | 'minute' | 'hour', at: number) => `tg:{traffic}:${part}:${at}`,
  /**
   * What gateways with an admin token report to each other: when each last reported (sorted set, milliseconds) and its report
   * (hash, by gateway); the questions that are open (hash); since when the sessions of a name have ended (hash). A gateway's
   * report is removed after 60 s, a question after 5 s, an end of sessions after 8 hours.
   */
  fleet: {
    seen: 'tg:{fleet}:seen',
    reports: 'tg:{fleet}:reports',
    questions: 'tg:{fleet}:questions',
    ends: 'tg:{fleet}:ends',
    /** List: the answers to one gateway that it has not fetched yet. Bounded; expires after 10 s. */
    answers: (gatewayId: string) => `tg:{fleet}:answers:${gatewayId}`,
    /** String: a part of the recent requests of one gateway, for a simulation on another. A few dozen KiB; expires after 30 s. */
    part: (name: string) => `tg:{fleet}:record:${name}`,
  },
  /**
   * Strings of `listen.tls.acme`, by the names of certificates/certificate-store.ts: the account and the certificates (encrypted), failed
   * attempts, the lease of the gateway that orders (60 s), and the answers to challenges (10 minutes). A certificate expires 30 days
   * after its end.
   */
  certificates: (name: string) => `tg:{acme}:${name}`,
  /** String that is never read: written to test whether the server accepts writes. Expires after a second. */
  trial: 'tg:trial',
  /** String, integer: failed authentications of one client address (rate-limiter-flexible adds the address). */
  failedAttemptsPrefix: 'tg:fail',
} as const;

/** What precedes the hash tag in the name of an account's hash. */
export const ACCOUNT_PREFIX = keyspace.account('').slice(0, -2);

/** An account id with a hash tag around the part of it that all accounts of one decision have in common. */
function inSlot(accountId: string): string {
  const end = lengthOfOwner(accountId);
  return end === accountId.length ? `{${accountId}}` : `{${accountId.slice(0, end)}}${accountId.slice(end)}`;
}

/** The id of the account or the history that has this name, which begins with `prefix` and a hash tag. */
export function accountIdIn(name: string, prefix: string): string {
  return name.slice(prefix.length + 1).replace('}', '');
}
