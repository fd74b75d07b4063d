import type { Fault } from '../fault.ts';
import { type Scenario, scenarioOf } from '../scenario.ts';
import type { StoreKind } from '../stand/store.ts';
import { DURABLE_SCENARIOS } from './durable.ts';
import { GATEWAY_FAULTS, WORKER_KILLED } from './gateways.ts';
import { LINK_FAULTS } from './link.ts';
import { MILLION } from './million.ts';
import { AOF_FAULTS, SERVER_FAULTS } from './server.ts';
import { CLUSTER_FAULTS, SENTINEL_FAULTS } from './shapes.ts';

const GATEWAYS = 3;
/** Where the store is well all the time, a busy machine must not make the gateways believe that it is away. */
const PATIENT_MS = 2_000;

const NOTHING = GATEWAY_FAULTS.find(({ name }) => name === 'nothing')!;
const CUT = LINK_FAULTS.find(({ name }) => name === 'link cut')!;
const CLOCKS = [0, 5, -7] as const;

/** Every scenario but the soak, in the order in which they are played. */
export const SCENARIOS: readonly Scenario[] = [
  ...GATEWAY_FAULTS.map((fault) => onThree(fault, 'plain')),
  scenarioOf(WORKER_KILLED, { store: 'plain', gateways: 2, workers: 2, timeoutMs: PATIENT_MS }),
  ...[...LINK_FAULTS, ...SERVER_FAULTS].map((fault) => onThree(fault, 'plain')),
  ...AOF_FAULTS.map((fault) => onThree(fault, 'aof')),
  scenarioOf(
    { ...CUT, name: 'link cut, with workers', about: `${CUT.about} Two gateways with WORKERS=2.` },
    { store: 'plain', gateways: 2, workers: 2 },
  ),
  ...SENTINEL_FAULTS.map((fault) => onThree(fault, 'sentinel')),
  ...CLUSTER_FAULTS.map((fault) => onThree(fault, 'cluster')),
  ...DURABLE_SCENARIOS,
  scenarioOf(
    { ...NOTHING, name: 'clocks', about: 'The wall clocks of three gateways are right, 5 h fast and 7 h slow.' },
    { store: 'plain', gateways: GATEWAYS, clockHours: CLOCKS, timeoutMs: PATIENT_MS },
  ),
  scenarioOf(
    { ...CUT, name: 'clocks, link cut', about: `${CUT.about} Clocks are right, 5 h fast and 7 h slow.` },
    { store: 'plain', gateways: GATEWAYS, clockHours: CLOCKS },
  ),
  MILLION,
];

function onThree(fault: Fault, store: StoreKind): Scenario {
  const patience = fault.allowed.alone === true ? {} : { timeoutMs: PATIENT_MS };
  return scenarioOf(fault, { store, gateways: GATEWAYS, ...patience });
}
