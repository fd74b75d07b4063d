/**
 * Where ACME keeps its records: the account, the certificates, failed attempts and the answers to challenges. Owned by
 * certificates, implemented by stores/embedded (files) and stores/redis. Names are those of `NAMES`; a store adds its own prefix.
 */
export interface CertificateStore {
  /** Whether other processes read and write the same records. */
  readonly isShared: boolean;
  /** @returns null if there is no such record, or it has expired */
  read(name: string): Promise<string | null>;
  /**
   * Takes the lease, or prolongs it if this holder has it. It ends by itself after `forMs` milliseconds.
   * @returns false if another holder has it
   */
  lease(lease: Lease, forMs: number): Promise<boolean>;
  /** Gives the lease back if this holder has it. */
  release(lease: Lease): Promise<void>;
  /**
   * Writes and removes records, if the holder still has the lease, so that an orderer that was paused for longer than its lease
   * cannot overwrite what the next one has written. In Redis all records change together; of the files each changes atomically, in
   * the given order.
   * @returns false, and nothing is written, if the lease is no longer this holder's
   */
  write(lease: Lease, changes: readonly RecordChange[]): Promise<boolean>;
}

export interface Lease {
  readonly name: string;
  /** A random text of this process. */
  readonly holder: string;
}

export interface RecordChange {
  readonly name: string;
  /** Null removes the record. Never empty. */
  readonly text: string | null;
  /** The time until the record expires, in milliseconds; null: never. Files ignore it, except those of challenges, which stay in memory. */
  readonly keptMs: number | null;
}

/**
 * The names of the records. `id` stands for one directory and one set of domains: gateways with other domains, during a rolling
 * restart for example, order their own certificate and do not replace each other's.
 */
export const NAMES = {
  account: (directoryId: string) => `account.${directoryId}`,
  certificate: (id: string) => `certificate.${id}`,
  /** A copy of the certificate that was issued last, for gateways whose domains have changed and that have none yet. */
  latest: 'certificate.latest',
  attempt: (id: string) => `attempt.${id}`,
  lease: (id: string) => `lease.${id}`,
  /** @param subject the domain for TLS-ALPN-01, the token for HTTP-01 */
  challenge: (subject: string) => `${CHALLENGE}${subject}`,
} as const;

/** What the names of challenges begin with. */
export const CHALLENGE = 'challenge.';
