import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { backupPassphraseOf, faultOfPassphrase } from '../../config/environment.ts';
import { reasonOf } from '../../config/read-file.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { momentText } from '../../io/time-text.ts';
import { TEXT_WORDS } from '../../model/attributes.ts';
import { kindOf } from '../../model/record.ts';
import { restoreKeys } from '../../operations/catalogue/transfer-operations.ts';
import { everyRecord } from '../../operations/operator-store.ts';
import { type Backup, backupText, verifiedBackup } from '../../operations/transfer/backup-text.ts';
import { inSlices, numberOf } from '../../operations/transfer/keys-and-customers.ts';
import type { RestoredRecord } from '../../operations/transfer/restore.ts';
import { openSealed, sealed } from '../../operations/transfer/sealed-file.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { type OperationsAt, withOperations } from '../operations-at.ts';
import type { Command, Terminal, Words } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { OF_OPERATIONS, OF_STORE } from '../terminal/variables.ts';
import { UnreadableRecords } from '../unreadable-records.ts';
import { json } from './text-form.ts';
import { transferred } from './transferred.ts';

// `tollgate keys backup` and `keys restore`: the keys of a store in one encrypted file, and back.

const PASSPHRASE_ABOUT =
  'The passphrase is asked on a terminal; elsewhere BACKUP_PASSPHRASE has it, or the file that BACKUP_PASSPHRASE_FILE names.';

/** `tollgate keys backup`: writes every key to an encrypted file. */
export const keysBackup: Command = {
  name: 'keys backup',
  about:
    'Writes every customer and every API key, with its limits and the digests of its secrets, to an encrypted file that `tollgate keys restore` reads. ' +
    `It holds no secret, no pepper, and nothing that was counted. ${PASSPHRASE_ABOUT}`,
  positionals: ['FILE'],
  environment: [...OF_STORE, 'BACKUP_PASSPHRASE'],
  options: {
    force: { type: 'boolean', about: 'Replaces FILE if it exists, unless a record cannot be read.' },
    json: {
      type: 'boolean',
      about:
        'Prints {"file","keys","unreadable"}; unreadable are the records that FILE lacks because they cannot be read.',
    },
  },
  examples: [
    'tollgate keys backup keys.backup',
    'BACKUP_PASSPHRASE_FILE=/run/secrets/backup tollgate keys backup keys.backup --force',
  ],
  async run(words, terminal) {
    const { options, positionals } = words;
    const [file] = positionals as [string];
    const refuseExisting = () => {
      if (options.force === true || !existsSync(file)) return;
      throw new Failure('refused', `${file} exists. Give another name, or --force to replace it.`);
    };
    const unread = new UnreadableRecords();
    // Fault: a complete backup was replaced by one that lacked the records which had been damaged since.
    const refuseReplacing = () => {
      refuseExisting();
      if (unread.exitCode === 0 || !existsSync(file)) return;
      unread.describe(terminal, () => `would be missing in ${file}`);
      throw new Failure('refused', `${file} stays as it is. Give another name to write the records that can be read.`);
    };
    refuseExisting();
    const passphrase = await newPassphrase(terminal);
    return withStore<ExitCode>(
      terminal.env,
      async (store) => {
        const progress = new Progress(terminal, () => performance.now());
        let count = 0;
        const onKeys = (keys: number) => {
          count = keys;
          progress.show('keys', keys, null, String);
        };
        const head = { peppers: store.peppers, nowMs: Date.now() };
        const text = backupText(customersAndKeys(store), head, { onKeys, onUnreadable: unread.add });
        try {
          await writeWhole(file, sealed(text, passphrase, randomBytes), refuseReplacing);
        } finally {
          progress.end();
        }
        if (options.json === true) terminal.out(json({ file, keys: count, unreadable: unread.report }));
        else {
          terminal.out(`${file} has ${numberOf(count, 'key')} of ${store.name}.\n`);
          terminal.out(
            'It is of use only with its passphrase and with the pepper of the store: keep each of them elsewhere.\n',
          );
        }
        unread.describe(terminal, (isOne) => `${isOne ? 'is' : 'are'} not in ${file}`);
        return unread.exitCode;
      },
      { needsPlans: false, warn: terminal.error },
    );
  },
};

async function* customersAndKeys({ customers, keys }: OpenStore) {
  yield* everyRecord(customers);
  yield* everyRecord(keys);
}

/**
 * Writes a file beside its place and renames it, so that no one ever finds half of it.
 * @param check throws if the file must not be replaced
 */
async function writeWhole(file: string, bytes: AsyncIterable<Uint8Array>, check: () => void): Promise<void> {
  const draft = `${file}.${randomBytes(6).toString('hex')}.draft`;
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      for await (const piece of bytes) await handle.appendFile(piece);
      await handle.sync();
    } finally {
      await handle.close();
    }
    check();
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    // Only the file system numbers its errors: the records are read from the store meanwhile.
    const { errno, code } = error as NodeJS.ErrnoException;
    if (errno === undefined) throw error;
    throw new Failure('refused', `${file} cannot be written (${code}). Name another place.`, error);
  }
}

/** `tollgate keys restore`: writes the keys of a backup to the store. */
export const keysRestore: Command = {
  name: 'keys restore',
  about:
    'Writes the customers and the API keys of a backup to the store; those that are there already are left as they are. The file is read to its end first: ' +
    `one that is damaged or cut off restores nothing. ${PASSPHRASE_ABOUT}`,
  positionals: ['FILE'],
  environment: [...OF_OPERATIONS, 'BACKUP_PASSPHRASE'],
  options: {
    'dry-run': { type: 'boolean', about: 'Shows the outcome for each key, and writes nothing.' },
    force: {
      type: 'boolean',
      about:
        `Gives keys that are there already the plan, limits, ${TEXT_WORDS} and end of the backup, and its revocations and ` +
        'suspensions. Revoked and deleted keys, and secrets that were rotated away, do not come back.',
    },
    json: {
      type: 'boolean',
      about:
        'Prints {"madeAt","restored","same","left","replaced","unknown","refused","unreadable","dryRun","keys"}; keys are those with something to report, at most 1000.',
    },
  },
  examples: ['tollgate keys restore keys.backup --dry-run', 'tollgate keys restore keys.backup'],
  async run(words, terminal) {
    const [file] = words.positionals as [string];
    const handle = await open(file, 'r').catch((cause: NodeJS.ErrnoException) => {
      throw new Failure('refused', `${file} ${reasonOf(cause)}. Name another file.`, cause);
    });
    try {
      const passphrase = await knownPassphrase(terminal);
      const backup = await verifiedBackup(await openSealed((at, length) => readAt(handle, at, length), passphrase));
      const how = { force: words.options.force === true, dryRun: words.options['dry-run'] === true };
      // A store is opened for writing only once its peppers are known to be those of the backup: a refused restore makes neither a store nor a
      // pepper, and does not record those of the settings.
      const silent = { ...terminal, error: () => {} };
      const check = { madeAt: backup.madeAt, peppers: backup.peppers, records: [], dryRun: true };
      const { output } = await withOperations(silent, (at) => at.perform(restoreKeys, check), {
        missingStore: 'empty',
      });
      if (output.lackedPeppers > 0) terminal.error(FURTHER_PEPPERS);
      const options = how.dryRun
        ? ({ missingStore: 'empty' } as const)
        : ({ makesSecrets: true, missingStore: 'make' } as const);
      return await withOperations(terminal, (at) => restore(backup, how, at, words, terminal), options);
    } finally {
      await handle.close();
    }
  },
};

async function readAt(handle: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, position + filled).catch((cause) => {
      throw new Failure('refused', `The backup cannot be read (${(cause as NodeJS.ErrnoException).code}).`, cause);
    });
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

const FURTHER_PEPPERS =
  'warning: the backup was made with further peppers, which this store does not use: keys whose secrets are only known under those ' +
  'will not work. Add them to KEY_PEPPER as `new,old`.\n';

const OUTCOMES = {
  kinds: ['restored', 'same', 'left', 'replaced', 'unknown', 'refused', 'unreadable'],
  failed: ['unknown', 'refused', 'unreadable'],
} as const;

interface How {
  readonly dryRun: boolean;
  readonly force: boolean;
}

async function restore(
  backup: Backup,
  how: How,
  at: OperationsAt,
  words: Words,
  terminal: Terminal,
): Promise<ExitCode> {
  const progress = new Progress(terminal, () => performance.now());
  /** The plans of live keys that plans.yaml lacks. */
  const lacked = new Set<string>();
  let done = 0;
  const outcomes = async function* () {
    const { madeAt, peppers } = backup;
    for await (const records of inSlices(backup.records())) {
      const { output } = await at.perform(restoreKeys, { madeAt, peppers, records, ...how });
      for (const plan of output.lackedPlans) lacked.add(plan);
      yield* output.outcomes;
    }
  };
  const isCounted = ({ id }: RestoredRecord) => kindOf(id) === 'key';
  const { madeAt, count } = backup;
  return transferred(
    {
      ...OUTCOMES,
      ...{ printed: { madeAt }, member: 'keys', progress, outcomes: outcomes() },
      isCounted,
      lineOf: ({ id, why }) => `${id} ${why}`,
      show: (outcome) => {
        if (isCounted(outcome)) progress.show('restoring', ++done, count, String);
      },
      warn: () => warnOfPlans(lacked, terminal),
      textOf: (counts) => {
        const made = momentText(Date.parse(madeAt), Date.now(), terminal);
        return `${countsText(counts, how)}: ${numberOf(count, 'key')} made ${made}, into ${at.name}.`;
      },
    },
    words,
    terminal,
  );
}

/** @param lacked plans of live keys that plans.yaml lacks */
function warnOfPlans(lacked: ReadonlySet<string>, terminal: Terminal): void {
  if (lacked.size === 0) return;
  const names = [...lacked].join(', ');
  terminal.error(
    `warning: plans.yaml lacks plans that keys of the backup are on (${names}): requests with them are refused.\n`,
  );
}

/** `3 restored, 1 there already, 0 left as they are, 0 refused`. */
function countsText(
  { restored, same, left, replaced, unknown, refused, unreadable }: Readonly<Record<RestoredRecord['kind'], number>>,
  { dryRun, force }: How,
): string {
  return [
    `${restored} ${dryRun ? 'would be restored' : 'restored'}`,
    ...(force ? [`${replaced} ${dryRun ? 'would be replaced' : 'replaced'}`] : []),
    `${same} there already`,
    `${left} left as they are`,
    ...(unknown > 0 ? [`${unknown} perhaps not durable`] : []),
    `${refused} refused`,
    ...(unreadable > 0
      ? [`${unreadable} left because ${unreadable === 1 ? 'its record' : 'their records'} here cannot be read`]
      : []),
  ].join(', ');
}

async function newPassphrase(terminal: Terminal): Promise<string> {
  const given = givenPassphrase(terminal);
  const passphrase = given ?? (await askPassphrase(terminal, 'Passphrase of the backup: '));
  const fault = faultOfPassphrase(passphrase);
  if (fault !== null) throw new Failure('bad_usage', `The passphrase ${fault}.`);
  if (given === null && (await askPassphrase(terminal, 'The same again: ')) !== passphrase) {
    throw new Failure('bad_usage', 'The two passphrases differ. Nothing was written.');
  }
  return passphrase;
}

async function knownPassphrase(terminal: Terminal): Promise<string> {
  return givenPassphrase(terminal) ?? (await askPassphrase(terminal, 'Passphrase of the backup: '));
}

/** @throws Failure `bad_usage` if it is set and cannot be read */
function givenPassphrase({ env }: Terminal): string | null {
  const given = backupPassphraseOf(env);
  if ('faults' in given) throw new Failure('bad_usage', given.faults.join('\n'));
  return given.passphrase;
}

async function askPassphrase({ question, hiddenInput }: Terminal, prompt: string): Promise<string> {
  if (!question || hiddenInput === undefined) {
    throw new Failure(
      'bad_usage',
      'The passphrase is missing: set BACKUP_PASSPHRASE or BACKUP_PASSPHRASE_FILE, or run this on a terminal.',
    );
  }
  const passphrase = await hiddenInput(prompt);
  if (passphrase === '') throw new Failure('bad_usage', 'No passphrase was given. Nothing was done.');
  return passphrase;
}
