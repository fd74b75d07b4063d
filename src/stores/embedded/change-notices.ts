import type { ChangeFeed, StoreChange } from '../../identify/record-store.ts';

/** Notifies the gateway that owns the store of each change. Only that gateway makes changes while it runs. */
export class EmbeddedChanges implements ChangeFeed {
  readonly isCurrent = true;
  readonly #listeners: ((change: StoreChange) => void)[] = [];

  readonly announce = (change: StoreChange): void => {
    for (const listener of this.#listeners) listener(change);
  };

  subscribe(listener: (change: StoreChange) => void): void {
    this.#listeners.push(listener);
  }
}
