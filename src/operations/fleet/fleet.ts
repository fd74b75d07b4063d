import { Explanations } from './explanations.ts';
import { FleetExchange, type FleetOptions } from './fleet-exchange.ts';
import { Presence } from './presence.ts';
import { RecordCollector } from './record-collector.ts';
import { SessionEnds } from './session-ends.ts';
import { StoreWatch } from './store-watch.ts';
import { Tails } from './tails.ts';

/**
 * The gateways on one store, seen from one of them: an exchange of messages, and the jobs that use it. While the store is
 * away, everything about this gateway is known as before.
 */
export class Fleet {
  readonly presence: Presence;
  readonly tails: Tails;
  readonly explanations: Explanations;
  readonly records: RecordCollector;
  readonly sessionEnds: SessionEnds;
  readonly storeWatch = new StoreWatch();
  readonly #exchange: FleetExchange;

  constructor(options: FleetOptions) {
    const exchange = new FleetExchange(options);
    this.#exchange = exchange;
    this.presence = new Presence(exchange, this.storeWatch, options);
    this.tails = new Tails(exchange);
    this.explanations = new Explanations(exchange, this.presence, options);
    this.records = new RecordCollector(exchange, this.presence, options);
    this.sessionEnds = new SessionEnds(exchange, options.wallMs);
    exchange.start([
      ...[this.storeWatch, this.tails, this.explanations, this.records],
      ...[this.presence, this.sessionEnds],
    ]);
  }

  /** Ends the exchange and removes the report of this gateway from the store. */
  close(): Promise<void> {
    return this.#exchange.close();
  }
}
