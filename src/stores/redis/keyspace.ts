/**
 * Every name that Tollgate uses in Redis, its content and its lifetime. Nothing else may build a name.
 * The braces are hash tags: what belongs to one consumer lies in one slot of a Redis Cluster.
 */
export const keyspace = {
  /** Hash: the counters, strikes and ban of one consumer. Lives until the last of them has lost its meaning. */
  account: (consumerId: string) => `tg:a:{${consumerId}}`,
  /** String, JSON: one API key (StoredKey). Lives until it is deleted; a revoked key stays, to be recognised. */
  apiKey: (id: string) => `tg:key:{${id}}`,
  /**
   * List: ids of the last changes to one API key or one ban, newest first. Written with each change in one step, so that a
   * gateway can distinguish a change that a failover has undone from one that a later change has followed. Lives for an
   * hour after the last.
   */
  changesTo: (id: string) => `tg:made:{${id}}`,
  /** String: the id of the API key that has a secret with this digest, or had. Lives as long as the key's record has the digest. */
  digest: (digest: string) => `tg:digest:${digest}`,
  /** Sorted set: the ids of all API keys by the time of their creation, milliseconds. */
  apiKeys: 'tg:keys',
  /** String, JSON: check values of the peppers in use, and those before, sealed. Lives for as long as there are keys. */
  peppers: 'tg:peppers',
  /** String, integer: how many changes to keys and bans there have been. Gateways poll it. */
  changes: 'tg:changes',
  /**
   * Channel: `NUMBER key ID` or `NUMBER ban ID`, for every change; the number is what `changes` became with it. Channels
   * are the whole server's, so the database stands in the name.
   */
  changesChannel: (database: number) => `tg:changes:${database}`,
  /**
   * Hash: the record of the changes that operators made. A field for each record, its number: `ID MILLISECONDS REVISION JSON`; and
   * `first`, `last` (the numbers of the oldest and the latest) and `at` (when that was added). Has at most as many records as
   * `audit.keep` says, and no end.
   */
  audit: 'tg:audit',
  /** Hash: calls of a deprecated route in a day, by consumer. Lives for `KEPT_DAYS` after the last of them. */
  deprecatedCalls: (day: string, route: string) => `tg:deprecated:{${day} ${route}}`,
  /** String that nobody reads: written to see whether writing works. Lives for a second. */
  trial: 'tg:trial',
  /** String, integer: failed authentications of one client address (rate-limiter-flexible adds the address). */
  failedAttemptsPrefix: 'tg:fail',
} as const;
