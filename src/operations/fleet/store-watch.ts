import type { LocalAnswer } from '../live/shapes.ts';
import type { FleetJob } from './fleet-exchange.ts';

export type StoreState = 'away' | 'present';

/** Whether the store answers, as of the last heartbeat. */
export class StoreWatch implements FleetJob {
  readonly #listeners = new Set<(state: StoreState) => void>();
  #state: StoreState = 'present';

  get state(): StoreState {
    return this.#state;
  }

  onChange(listener: (state: StoreState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onLocal({ facts: { store } }: LocalAnswer): void {
    const before = this.#state;
    this.#state = store === 'away' || store === 'never_reached' ? 'away' : 'present';
    if (this.#state !== before) for (const listener of this.#listeners) listener(this.#state);
  }
}
