import type * as bans from '../../../operations/catalogue/ban-operations.ts';
import type * as customers from '../../../operations/catalogue/customer-operations.ts';
import type * as keys from '../../../operations/catalogue/key-operations.ts';
import type * as live from '../../../operations/catalogue/live-operations.ts';
import type { InputOf, OutputOf } from '../../../operations/catalogue/operation.ts';
import type * as plans from '../../../operations/catalogue/plan-operations.ts';
import type * as records from '../../../operations/catalogue/recorded-operations.ts';
import type * as traffic from '../../../operations/catalogue/traffic-operations.ts';
import type * as usage from '../../../operations/catalogue/usage-operations.ts';

export type { RequestsEvent } from '../../event-resources.ts';
export type { NowEvent } from '../../now-feed.ts';
export type { BegunSignIn, SessionReport as Session } from '../../sign-in.ts';

// What the page sends to the admin API and reads from it. Each type is made of the operation. The browser does not load this file.

export type KeyPage = OutputOf<typeof keys.listKeys>;
export type Key = KeyPage['keys'][number];
export type ShownKey = OutputOf<typeof keys.showKey>;
export type KeyNetworks = OutputOf<typeof keys.showKeyNetworks>;
export type KeyWithSecret = OutputOf<typeof keys.createKey>;
export type FoundKey = OutputOf<typeof keys.findKey>;
export type KeyEdits = Omit<InputOf<typeof keys.updateKey>, 'id'>;
export type Names = OutputOf<typeof keys.listNames>;
export type ScopeList = OutputOf<typeof keys.listScopes>;
export type MovedKey = OutputOf<typeof keys.moveKey>;

export type CustomerPage = OutputOf<typeof customers.listCustomers>;
export type Customer = CustomerPage['customers'][number];
export type ShownCustomer = OutputOf<typeof customers.showCustomer>;
export type DeletedCustomer = OutputOf<typeof customers.deleteCustomer>;
export type Standings = OutputOf<typeof customers.listStandings>;
export type CustomerStanding = Standings['standings'][number];
export type KeyOrCustomer = Key | Customer;
export type SearchPage = KeyPage | CustomerPage;
/** A page of any list. Only a search says how many records it has looked at. */
export type ListPage = Pick<KeyPage, 'cursor'> & Partial<Pick<KeyPage, 'searched' | 'unreadable'>>;

export type Usage = OutputOf<typeof usage.showUsage>;
export type WatchedUsage = NonNullable<Usage['shadow']>;
export type TopUp = OutputOf<typeof usage.topUp>;
export type UndoneTopUp = OutputOf<typeof usage.undoTopUp>;
export type Reset = OutputOf<typeof usage.resetUsage>;
export type History = OutputOf<typeof usage.showHistory | typeof usage.showCustomerHistory>;

export type CustomerUseList = OutputOf<typeof usage.listCustomersByUse>;
export type CustomerByUse = CustomerUseList['customers'][number];

export type RefusedPage = OutputOf<typeof bans.listRefused>;
export type LiftedBan = OutputOf<typeof bans.liftBan>;
export type RefusalList = OutputOf<typeof live.explainRefusal>;
export type RefusalsOfCaller = OutputOf<typeof live.listRefusals>;
export type Refusal = RefusalList['refusals'][number];

export type InForce = OutputOf<typeof plans.showPlans>;
export type Plan = InForce['plans'][number];
export type PlansHistory = OutputOf<typeof plans.listPlansHistory>;
export type PlansVersion = PlansHistory['versions'][number];
export type ShownPlansVersion = OutputOf<typeof plans.showPlansVersion>;
export type PlansFile = OutputOf<typeof plans.showPlansFile>;
export type PlansWritten = OutputOf<typeof plans.writePlansFile>;
export type Checked = OutputOf<typeof plans.checkPlans>;
export type Compared = OutputOf<typeof plans.diffPlans>;
export type EditedDraft = OutputOf<typeof plans.editPlans>;
export type DraftEdit = InputOf<typeof plans.editPlans>['edits'][number];
export type PlanChange = Compared['changes'][number];
export type AffectedPlan = NonNullable<Compared['affected']>[number];
export type AffectedCaller = AffectedPlan['callers'][number];
export type Simulated = OutputOf<typeof plans.simulatePlans>;
export type SimulationInput = InputOf<typeof plans.simulatePlans>;

export type DeprecatedRoutes = OutputOf<typeof records.showKeyDeprecations>;
export type DeprecatedRoute = DeprecatedRoutes['routes'][number];
export type DeprecationPage = OutputOf<typeof records.listDeprecations>;
export type Deprecation = DeprecationPage['deprecations'][number];
export type ChangePage = OutputOf<typeof records.listChanges>;
export type Change = ChangePage['changes'][number];

export type TrafficHistory = OutputOf<typeof traffic.showTrafficHistory>;
export type TrafficPeriod = TrafficHistory['period'];

export type NearList = OutputOf<typeof live.listNear>;
export type GatewayList = OutputOf<typeof live.listGateways>;
export type Gateway = GatewayList['gateways'][number];
