import * as bans from './ban-operations.ts';
import * as cache from './cache-operations.ts';
import * as customers from './customer-operations.ts';
import * as keys from './key-operations.ts';
import * as live from './live-operations.ts';
import type { Stream } from './operation.ts';
import type { AnyOperation } from './perform.ts';
import * as plans from './plan-operations.ts';
import * as records from './recorded-operations.ts';
import * as traffic from './traffic-operations.ts';
import * as transfer from './transfer-operations.ts';
import * as usage from './usage-operations.ts';

type Exported =
  | (typeof bans)[keyof typeof bans]
  | (typeof cache)[keyof typeof cache]
  | (typeof customers)[keyof typeof customers]
  | (typeof keys)[keyof typeof keys]
  | (typeof live)[keyof typeof live]
  | (typeof plans)[keyof typeof plans]
  | (typeof records)[keyof typeof records]
  | (typeof traffic)[keyof typeof traffic]
  | (typeof transfer)[keyof typeof transfer]
  | (typeof usage)[keyof typeof usage];

/** The operations on the store, as their definitions have them. */
export type StoreOperation = Extract<Exported, { readonly line: string; readonly on: 'store' }>;

/** In the order in which a resource lists its methods. */
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Everything that these files define, by its path. */
const DEFINED = [bans, cache, customers, keys, live, plans, records, traffic, transfer, usage]
  .flatMap((file): unknown[] => Object.values(file))
  .filter((one): one is AnyOperation | Stream => typeof one === 'object' && one !== null && 'line' in one)
  .sort((a, b) => compare(a.line.split(' '), b.line.split(' ')));

function compare([method = '', path = '']: readonly string[], [other = '', otherPath = '']: readonly string[]): number {
  if (path !== otherPath) return path < otherPath ? -1 : 1;
  return METHODS.indexOf(method) - METHODS.indexOf(other);
}

/** Every operation, by its path. */
export const OPERATIONS: readonly AnyOperation[] = DEFINED.filter((one) => 'run' in one);

/** Every stream of events. */
export const STREAMS: readonly Stream[] = DEFINED.filter((one): one is Stream => !('run' in one));
