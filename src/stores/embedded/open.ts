import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';
import { checkPeppers, type PepperStore, UNVERIFIED } from '../../identify/pepper-record.ts';
import { AccountsOnDisk, AccountsTable, bansIn } from './accounts.ts';
import { insistOnAcknowledged } from './acknowledged.ts';
import { EmbeddedAudit } from './audit.ts';
import { EmbeddedCertificateStore } from './certificates.ts';
import { EmbeddedChanges } from './change-notices.ts';
import { Checkpoints } from './checkpoints.ts';
import { customersIn, embeddedCustomers } from './customers.ts';
import { damageIn, hasDatabase, neverWait, openDatabase } from './database.ts';
import { EmbeddedDeprecatedCalls } from './deprecated-calls.ts';
import { damagedChanges } from './earlier-changes.ts';
import { EmbeddedExplanations } from './explanations.ts';
import { EmbeddedFleet } from './fleet.ts';
import { EmbeddedHistory } from './history.ts';
import { EmbeddedKeyNetworks } from './key-networks.ts';
import { EmbeddedKeys, keysIn } from './keys.ts';
import { EmbeddedLedger } from './ledger.ts';
import { ownStoreIfFree, ownStoreSoon, type StoreOwner, untilReleased } from './owner.ts';
import { socketOfOwner, socketToMake } from './owner-socket.ts';
import { EmbeddedPepperRecord, peppersOf, peppersToRead } from './pepper.ts';
import { EmbeddedPlansHistory } from './plans-history.ts';
import { EmbeddedSecretUses } from './secret-uses.ts';
import { EmbeddedTraffic } from './traffic.ts';

// Opens the embedded store: for a command, for a gateway, or for `tollgate doctor`.

/** The settings that the store needs. */
interface EmbeddedSettings {
  /** Absolute path. */
  readonly dataFolder: string;
  /** The peppers of KEY_PEPPER, newest first; may be empty. */
  readonly peppers: readonly string[];
}

interface EmbeddedCommand extends EmbeddedSettings {
  /** `always`: the command records its peppers as those in use. */
  readonly writesPeppers: 'always' | 'never';
  /** If there is no store, the command makes one, uses an empty one that leaves no trace, or refuses to run. */
  readonly ifMissing: 'make' | 'empty' | 'refuse';
  readonly wallMs: () => number;
}

/**
 * Opens the store for one command. A gateway may own it.
 * @throws Failure `not_found`, `store_corrupt`, `store_unavailable`, `store_rolled_back`, `pepper_mismatch`
 */
export async function openForCommand({
  dataFolder,
  peppers: given,
  writesPeppers,
  ifMissing,
  wallMs,
}: EmbeddedCommand) {
  const isMissing = !hasDatabase(dataFolder);
  if (isMissing && ifMissing === 'refuse') throw new Failure('not_found', withoutStore(dataFolder));
  const standIn = isMissing && ifMissing === 'empty' ? mkdtempSync(join(tmpdir(), 'tollgate-')) : null;
  const folder = standIn ?? dataFolder;
  const db = openDatabase(folder);
  const close = async () => {
    db.close();
    if (standIn !== null) rmSync(standIn, { recursive: true, force: true });
  };
  try {
    const older = insistOnAcknowledged(db, false);
    const peppers = (ifMissing === 'make' ? peppersOf : peppersToRead)(dataFolder, db, given);
    const check = { writes: writesPeppers, random: randomBytes };
    const { history, unverified } = await checkPeppers(new EmbeddedPepperRecord(db), peppers, check);
    return {
      name: nameOfEmbedded(dataFolder),
      warnings: [...(older === null ? [] : [older]), ...(unverified ? [UNVERIFIED] : [])],
      peppers,
      pepperHistory: history,
      ...storesIn({ db, wallMs }),
      ...ledgerOf(db, folder, wallMs),
      close,
    };
  } catch (error) {
    await close();
    throw damageIn(error, dataFolder);
  }
}

/** The ledger of a command, which changes accounts only while the command owns the store. */
function ledgerOf(db: DatabaseSync, folder: string, wallMs: () => number) {
  let owner: StoreOwner | null = null;
  const insistOnOwner = () => {
    if (owner === null) throw new Failure('store_owned', 'Only the owner of the embedded store changes an account.');
    owner.insist();
  };
  const accounts = new AccountsOnDisk(new AccountsTable(db), wallMs);
  const ledger = new EmbeddedLedger({ db, wallMs, accounts, insistOnOwner });
  const own = async () => {
    const taken = await ownStoreIfFree(folder);
    if (taken === null) return null;
    const release = () => {
      owner = null;
      taken.release();
    };
    try {
      ledger.takeOver();
    } catch (error) {
      release();
      throw error;
    }
    owner = taken;
    return { release };
  };
  return { ledger, own };
}

type StoreOptions = ConstructorParameters<typeof EmbeddedKeys>[0] &
  ConstructorParameters<typeof EmbeddedAudit>[0] &
  ConstructorParameters<typeof EmbeddedHistory>[0];

/** The stores that a command and a gateway both open (`Stores` of operations/stores.ts), but for the ledger. */
function storesIn(options: StoreOptions) {
  return {
    keys: new EmbeddedKeys(options),
    customers: embeddedCustomers(options),
    history: new EmbeddedHistory(options),
    audit: new EmbeddedAudit(options),
    plansHistory: new EmbeddedPlansHistory(options),
    deprecatedCalls: new EmbeddedDeprecatedCalls(options),
    secretUses: new EmbeddedSecretUses(options),
    explanations: new EmbeddedExplanations(options),
    keyNetworks: new EmbeddedKeyNetworks(options),
    traffic: new EmbeddedTraffic(options),
    // Without a gateway that owns the store, no responses are stored.
    cachePurges: {
      announce: async (purge: string) => options.onChange?.({ kind: 'cache', keyId: purge }),
    },
  };
}

/** The name of the store in messages. */
export function nameOfEmbedded(dataFolder: string): string {
  return `the embedded store in ${dataFolder}`;
}

function withoutStore(dataFolder: string): string {
  return (
    `There is no store in ${dataFolder} yet, and nothing was made. \`tollgate keys create\` or the start of a gateway makes one; ` +
    'if there are gateways already, set TOLLGATE_DATA or REDIS_URL as they have it.'
  );
}

export interface EmbeddedGateway extends EmbeddedSettings {
  /** True to open a store that may lack writes that it acknowledged. */
  readonly acceptsRollback: boolean;
  /** True if the gateway decides by itself while the store accepts no writes. */
  readonly decidesWhileAway: boolean;
  /** True if the gateway orders a certificate by ACME, so that it needs the records of ACME. */
  readonly usesAcme: boolean;
  readonly wallMs: () => number;
  /**
   * Compares the peppers with the record of the store, before the gateway reads the rest of the store. If it throws, the store
   * stays closed.
   */
  readonly checkPeppers: (record: PepperStore, peppers: readonly string[]) => Promise<void>;
  readonly onChange: (state: 'present' | 'away', reason?: string) => void;
  readonly onFailure: (error: unknown) => void;
  readonly onFailedWrite: (error: unknown) => void;
  readonly onWarning: (sentence: string) => void;
}

/**
 * Opens the store for a gateway, which owns it until it closes it. It waits some seconds for a command that owns the store.
 * @throws Failure `store_owned`, `store_corrupt`, `store_rolled_back`, and as `checkPeppers`
 */
export async function openForGateway(gateway: EmbeddedGateway) {
  const { dataFolder, peppers: given, wallMs, onChange, onFailure, onFailedWrite } = gateway;
  const owner = await ownStoreSoon(dataFolder);
  try {
    const db = openDatabase(dataFolder);
    const older = insistOnAcknowledged(db, gateway.acceptsRollback);
    if (older !== null) gateway.onWarning(older);
    const peppers = peppersOf(dataFolder, db, given);
    await gateway.checkPeppers(new EmbeddedPepperRecord(db), peppers);
    const changes = new EmbeddedChanges();
    let state: 'embedded' | 'away' = 'embedded';
    const ledger = new EmbeddedLedger({
      db,
      wallMs,
      onAccountChange: changes.announce,
      decidesWhileAway: gateway.decidesWhileAway,
      onChange: (present, reason) => {
        state = present === 'away' ? 'away' : 'embedded';
        onChange(present, reason);
      },
      onFailedWrite,
      onLoss: onFailure,
      insistOnOwner: owner.insist,
    });
    const writes = { insistOnOwner: owner.insist, onFailedWrite: (error: unknown) => ledger.failed(error) };
    const checkpoints = new Checkpoints(db);
    neverWait(db);
    return {
      ...storesIn({ db, wallMs, onChange: changes.announce, ...writes, live: ledger.histories }),
      ledger,
      fleet: new EmbeddedFleet({ wallMs }),
      certificates: gateway.usesAcme ? new EmbeddedCertificateStore(dataFolder) : null,
      changes,
      commandSocket: { make: () => socketToMake(dataFolder) },
      peppers,
      // The store counts by the clock of this machine.
      serverTimes: async () => [wallMs()],
      state: () => state,
      close: async () => {
        ledger.close();
        checkpoints.close();
        db.close();
        owner.release();
      },
    };
  } catch (error) {
    owner.release();
    throw damageIn(error, dataFolder);
  }
}

export { hasDatabase as hasStore, socketOfOwner, untilReleased };

/**
 * Opens the store for `tollgate doctor`, which changes nothing in it.
 * @returns null if there is no store
 * @throws Failure `store_corrupt`, `store_unavailable`, `store_rolled_back`
 */
export function openForDiagnosis({ dataFolder, peppers: given }: EmbeddedSettings) {
  if (!hasDatabase(dataFolder)) return null;
  const db = openDatabase(dataFolder);
  try {
    return {
      /** A sentence if the store may lack acknowledged writes; else null. */
      older: insistOnAcknowledged(db, false),
      pepperRecord: new EmbeddedPepperRecord(db),
      records: (wallMs: () => number) => ({
        keys: keysIn(db),
        customers: customersIn(db),
        bans: async () => bansIn(new AccountsOnDisk(new AccountsTable(db), wallMs), damagedChanges(db), wallMs()),
      }),
      /** @throws Failure `store_corrupt` */
      peppers: () => peppersToRead(dataFolder, db, given),
      close: () => db.close(),
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** The records of the certificates that the gateway orders by ACME. */
export function certificatesIn(dataFolder: string) {
  return new EmbeddedCertificateStore(dataFolder);
}
