import { Gauge, type Registry } from 'prom-client';

/**
 * What is told of the issuer of callers' tokens.
 * @param up whether its keys can be had; null where no token is accepted, and then there is no series
 */
export function tokenMetrics(registry: Registry, up: () => boolean | null = () => null): void {
  new Gauge({
    name: 'tollgate_token_keys_up',
    help: "1 while the keys of the tokens' issuer can be had, 0 while they cannot; absent without jwt in gateway.yaml.",
    registers: [registry],
    collect() {
      const isUp = up();
      this.remove();
      if (isUp !== null) this.set(isUp ? 1 : 0);
    },
  });
}
