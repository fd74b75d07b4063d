import * as bans from './bans.ts';
import * as keys from './keys.ts';
import * as live from './live.ts';
import * as plans from './plans.ts';
import * as records from './records.ts';
import * as usage from './usage.ts';

/** Every operation, in the order of the reference. */
export const OPERATIONS = [
  keys.listKeys,
  keys.createKey,
  keys.findKey,
  keys.showKey,
  keys.updateKey,
  keys.revokeKey,
  keys.rotateKey,
  keys.deleteKey,
  usage.topUp,
  usage.showUsage,
  usage.resetUsage,
  usage.showHistory,
  records.showKeyDeprecations,
  bans.listRefused,
  bans.listBans,
  bans.liftBan,
  plans.showPlans,
  plans.checkPlans,
  plans.diffPlans,
  plans.simulatePlans,
  plans.showPlansFile,
  plans.writePlansFile,
  records.listDeprecations,
  records.listChanges,
  live.listGateways,
  live.showTraffic,
  live.listNear,
  live.explainRefusal,
] as const;

/** Every stream of events. */
export const STREAMS = [live.followNow, live.followRequests] as const;
