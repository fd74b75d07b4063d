import { readGatewayClock } from './history-costs.ts';
import { ARGV, KEYS, tonumber } from './script-globals.ts';
import { seconds } from './script-time.ts';
import { recordRefused } from './stored-history.ts';

/*
 * Records how often one consumer was refused.
 *
 * KEYS[1] its history
 * ARGV    refusals, ban answers; the gateway's clock (history-costs.ts)
 */

/** The script. */
export function main(): 0 {
  readGatewayClock(seconds);
  recordRefused(KEYS[0]!, Math.floor(seconds / 3_600), tonumber(ARGV[0]!)!, tonumber(ARGV[1]!)!);
  return 0;
}
