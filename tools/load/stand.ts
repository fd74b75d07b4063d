import type { BanRule } from '../../src/model/plan.ts';
import type { Bound } from './exchange.ts';

/** A key to call with. */
export interface Credential {
  readonly authorization: string;
  readonly plan: string;
  /** Shortest first. */
  readonly limits: readonly Bound[];
  readonly bans: BanRule | null;
  /** It was made for this run. */
  readonly fresh: boolean;
}

/** Which keys a client of a scenario needs. */
export interface KeyWish {
  readonly plan: string;
  readonly standIn: string;
  readonly limits: Readonly<Record<string, number | undefined>>;
  readonly count: number;
}

/** What is tested: gateways, and keys that they know. */
export interface Stand {
  /** One sentence for the head of the report. */
  readonly about: string;
  readonly origins: readonly string[];
  /** The gateways are the test's own: they have its plans, its routes, and nobody else calls them. */
  readonly own: boolean;
  /** As many keys as are wished for; else there are so many, and they have been used. */
  readonly makesKeys: boolean;
  /** No address has ever failed to authenticate there. */
  readonly freshAddresses: boolean;
  /** Failed authentications a minute and address. */
  readonly failedAuthentications: number;
  /** @throws Failure where such keys cannot be had */
  keys(wish: KeyWish): Promise<readonly Credential[]>;
  /** The run that they were for is over. */
  release(credentials: readonly Credential[]): void;
  /** Ends what was started and revokes what was made. */
  close(): Promise<void>;
}
