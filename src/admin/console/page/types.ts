import type { liftBan, listRefused } from '../../../operations/catalogue/ban-operations.ts';
import type {
  createCustomer,
  deleteCustomer,
  listCustomers,
  listStandings,
  showCustomer,
} from '../../../operations/catalogue/customer-operations.ts';
import type {
  createKey,
  findKey,
  listKeys,
  listNames,
  listScopes,
  moveKey,
  showKey,
  showKeyNetworks,
  suspendKey,
  updateKey,
} from '../../../operations/catalogue/key-operations.ts';
import type {
  explainRefusal,
  listGateways,
  listNear,
  listRefusals,
} from '../../../operations/catalogue/live-operations.ts';
import type { InputOf, OutputOf } from '../../../operations/catalogue/operation.ts';
import type {
  checkPlans,
  diffPlans,
  listPlansHistory,
  showPlans,
  showPlansFile,
  showPlansVersion,
  simulatePlans,
  writePlansFile,
} from '../../../operations/catalogue/plan-operations.ts';
import type {
  listChanges,
  listDeprecations,
  showKeyDeprecations,
} from '../../../operations/catalogue/recorded-operations.ts';
import type { showTrafficHistory } from '../../../operations/catalogue/traffic-operations.ts';
import type {
  listCustomersByUse,
  resetUsage,
  showHistory,
  showUsage,
  topUp,
  undoTopUp,
} from '../../../operations/catalogue/usage-operations.ts';

export type { RequestsEvent } from '../../event-resources.ts';
export type { NowEvent } from '../../now-feed.ts';
export type { BegunSignIn, SessionReport as Session } from '../../sign-in.ts';

// What the page sends to the admin API and reads from it. Each type is made of the operation. The browser does not load this file.

export type KeyPage = OutputOf<typeof listKeys>;
export type Key = KeyPage['keys'][number];
export type ShownKey = OutputOf<typeof showKey>;
export type KeyNetworks = OutputOf<typeof showKeyNetworks>;
export type NewSuspension = Omit<InputOf<typeof suspendKey>, 'id'>;
export type KeyWithSecret = OutputOf<typeof createKey>;
export type FoundKey = OutputOf<typeof findKey>;
export type KeyEdits = Omit<InputOf<typeof updateKey>, 'id'>;
export type Names = OutputOf<typeof listNames>;
export type ScopeList = OutputOf<typeof listScopes>;
export type KeyMove = Omit<InputOf<typeof moveKey>, 'id'>;
export type MovedKey = OutputOf<typeof moveKey>;

export type CustomerPage = OutputOf<typeof listCustomers>;
export type Customer = CustomerPage['customers'][number];
export type ShownCustomer = OutputOf<typeof showCustomer>;
export type NewCustomer = InputOf<typeof createCustomer>;
export type DeletedCustomer = OutputOf<typeof deleteCustomer>;
export type Standings = OutputOf<typeof listStandings>;
export type CustomerStanding = Standings['standings'][number];
export type KeyOrCustomer = Key | Customer;
export type SearchPage = KeyPage | CustomerPage;

export type Usage = OutputOf<typeof showUsage>;
export type WatchedUsage = NonNullable<Usage['shadow']>;
export type TopUp = OutputOf<typeof topUp>;
export type NewTopUp = Omit<InputOf<typeof topUp>, 'id'>;
export type UndoneTopUp = OutputOf<typeof undoTopUp>;
export type Reset = OutputOf<typeof resetUsage>;
export type NewReset = Omit<InputOf<typeof resetUsage>, 'id'>;
export type History = OutputOf<typeof showHistory>;

export type CustomerUseList = OutputOf<typeof listCustomersByUse>;
export type CustomerByUse = CustomerUseList['customers'][number];

export type RefusedPage = OutputOf<typeof listRefused>;
export type LiftedBan = OutputOf<typeof liftBan>;
export type RefusalList = OutputOf<typeof explainRefusal>;
export type RefusalsOfCaller = OutputOf<typeof listRefusals>;
export type Refusal = RefusalList['refusals'][number];

export type InForce = OutputOf<typeof showPlans>;
export type Plan = InForce['plans'][number];
export type PlansHistory = OutputOf<typeof listPlansHistory>;
export type PlansVersion = PlansHistory['versions'][number];
export type ShownPlansVersion = OutputOf<typeof showPlansVersion>;
export type PlansFile = OutputOf<typeof showPlansFile>;
export type PlansWritten = OutputOf<typeof writePlansFile>;
export type Checked = OutputOf<typeof checkPlans>;
export type Compared = OutputOf<typeof diffPlans>;
export type PlanChange = Compared['changes'][number];
export type AffectedPlan = NonNullable<Compared['affected']>[number];
export type AffectedCaller = AffectedPlan['callers'][number];
export type Simulated = OutputOf<typeof simulatePlans>;
export type SimulationInput = InputOf<typeof simulatePlans>;

export type DeprecatedRoutes = OutputOf<typeof showKeyDeprecations>;
export type DeprecatedRoute = DeprecatedRoutes['routes'][number];
export type DeprecationPage = OutputOf<typeof listDeprecations>;
export type Deprecation = DeprecationPage['deprecations'][number];
export type ChangePage = OutputOf<typeof listChanges>;
export type Change = ChangePage['changes'][number];

export type TrafficHistory = OutputOf<typeof showTrafficHistory>;
export type TrafficPeriod = TrafficHistory['period'];

export type NearList = OutputOf<typeof listNear>;
export type GatewayList = OutputOf<typeof listGateways>;
export type Gateway = GatewayList['gateways'][number];
