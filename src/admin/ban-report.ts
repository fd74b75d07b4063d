import type { BanInForce } from '../admit/ledger.ts';

/** A ban in force, as commands and the admin API show it. `until` in Unix seconds. */
export function banReport({ consumerId, ban }: BanInForce) {
  return { id: consumerId, number: ban.number, window: ban.window, until: Math.ceil(ban.untilMs / 1000) };
}
