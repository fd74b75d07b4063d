import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { Acme } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import { type Certificate, type CertificateSource, checkedCertificate, readClientCa } from '../listen/tls.ts';
import {
  type Account,
  directoryIdOf,
  type Failed,
  type Issued,
  idOf,
  readAccount,
  readFailed,
  readIssued,
  type Sealing,
} from './acme-records.ts';
import { type CertificateStore, type Lease, NAMES, type RecordChange } from './certificate-store.ts';
import { FORGET_AFTER_MS } from './challenge-certificates.ts';
import { DirectoryError, printable } from './directory.ts';
import { type ChallengeAnswer, type OrderOptions, orderCertificate } from './order.ts';
import { isTime, MAX_WAIT_MS, renewalAtMs, waitAfterMs } from './schedule.ts';

export interface AcmeEvents {
  /** A certificate is in use: one that was stored, that another gateway has ordered, or that this one has. */
  readonly onLoaded: (certificate: Certificate) => void;
  readonly onOrdering: () => void;
  /**
   * This gateway has ordered a certificate.
   * @param again not null if it is due for renewal at once: why, and when the next order is
   */
  readonly onIssued: (again: Failed | null) => void;
  readonly onFailed: (failed: Failed) => void;
  /** Something else failed, for example the store does not answer. Called once for each sentence until the next success. */
  readonly onTrouble: (why: string) => void;
}

export interface AcmeOptions {
  readonly acme: Acme;
  /** The file of `clientCa`; null without one. */
  readonly clientCa: string | null;
  readonly store: CertificateStore;
  readonly sealing: Sealing;
  readonly events: AcmeEvents;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** From 0 to 1. */
  readonly random: () => number;
  /** @param ms milliseconds */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly order?: (options: OrderOptions) => Promise<Issued>;
  /** False while nothing may be ordered: under a wrong pepper, what is stored cannot be read and must not be replaced. */
  readonly mayOrder?: () => boolean;
}

/** An issued certificate, and the reason to wait with the next order if it is due at once. */
interface Unsaved {
  readonly issued: Issued;
  readonly again: Failed | null;
}

/** How often the store is looked at: other gateways use a new certificate within this time. */
const LOOK_EVERY_MS = 1_000;
const LEASE_MS = 60_000;
const PROLONG_EVERY_MS = 15_000;
/** An order is given up after this time, or if the lease is lost. */
const ORDER_WITHIN_MS = 5 * 60_000;
const CHALLENGE_KEPT_MS = 10 * 60_000;
const DAY_MS = 86_400_000;
const SAVE_ATTEMPTS = 10;
const UNFINISHED = 'The gateway ended, or lost its store, before the attempt was finished.';
const DUE_AT_ONCE = 'The certificate that was issued is to be renewed already. Check the clock of this machine.';
/** Maximum characters of a stored reason. */
const MAX_WHY = 500;

/**
 * The certificate that a certificate authority issues by ACME: loaded from the store, ordered when there is none, and renewed in
 * time. Of all processes on one store, the holder of the lease orders; each takes the new certificate from the store. The current
 * certificate stays in use until there is another, even when it has expired.
 *
 * An attempt is stored as failed before the authority receives it, and removed after its success. So a gateway that crashes during
 * each order waits longer each time, like one that is refused, and does not use up the authority's limits.
 *
 * Fault: a clock that is months ahead, or an authority that issues certificates near their end, makes each new certificate due at
 * once. Such a success is stored like a failure, so the next order waits as well.
 */
export class AcmeCertificates implements CertificateSource {
  readonly #options: AcmeOptions;
  readonly #id: string;
  readonly #lease: Lease;
  readonly #sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly #ended = new AbortController();
  readonly #users: ((certificate: Certificate) => void)[] = [];
  readonly #troubles = new Set<string>();
  #running: Promise<void> | null = null;
  #current: Certificate | null = null;
  /** Whether `#current` is for these domains of this directory. */
  #isOwn = false;
  #renewalAtMs = 0;
  /** What was read last, to notice changes without opening it. */
  #seen = { text: null as string | null, clientCa: null as Buffer | null };
  #issued: Issued | null = null;
  /** Issued, but not stored yet, because the store did not answer. */
  #unsaved: Unsaved | null = null;

  private constructor(options: AcmeOptions) {
    const { acme } = options;
    this.#options = options;
    this.#id = idOf(acme.directory, acme.domains);
    this.#lease = { name: NAMES.lease(this.#id), holder: randomBytes(12).toString('hex') };
    this.#sleep = options.sleep ?? ((ms, signal) => pause(ms, undefined, { signal, ref: false }));
  }

  /**
   * Loads the certificate if the store has one. Nothing is ordered before `begin`.
   * @throws Failure `bad_settings` if a file of the settings cannot be used
   */
  static async open(options: AcmeOptions): Promise<AcmeCertificates> {
    const opened = new AcmeCertificates(options);
    await readAcmeFiles(options.acme);
    if (options.clientCa !== null) opened.#seen.clientCa = usableCa(await readClientCa(options.clientCa));
    await opened.#attempting(() => opened.#load());
    return opened;
  }

  get current(): Certificate | null {
    return this.#current;
  }

  onChange(use: (certificate: Certificate) => void): void {
    this.#users.push(use);
  }

  /** Follows the store, and orders when it is time. Called when the listeners can answer challenges. */
  begin(): void {
    this.#running ??= this.#run();
  }

  /**
   * The key authorization of a challenge that is under way at any gateway of this store.
   * @param subject the domain for TLS-ALPN-01, the token for HTTP-01
   */
  answerTo(subject: string): Promise<string | null> {
    return this.#options.store.read(NAMES.challenge(subject));
  }

  /** Gives up an order that is under way. */
  async close(): Promise<void> {
    this.#ended.abort(new Error('the gateway stops'));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      await this.#attempting(() => this.#look());
      await this.#sleep(LOOK_EVERY_MS, signal).catch(() => {});
    }
  }

  /** Reports what goes wrong with the store or a file, once; the next look tries again. */
  async #attempting(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.#troubles.clear();
    } catch (error) {
      if (this.#ended.signal.aborted) return;
      const why = error instanceof Failure || error instanceof DirectoryError ? error.message : String(error);
      if (!this.#troubles.has(why)) this.#options.events.onTrouble(why);
      this.#troubles.add(why);
    }
  }

  async #look(): Promise<void> {
    await this.#load();
    if (this.#unsaved !== null) await this.#saveLater(this.#unsaved);
    if (this.#unsaved !== null || !this.#isDue || this.#options.mayOrder?.() === false) return;
    if (!(await this.#mayTry())) return;
    await this.#underLease(async (signal) => {
      // Another gateway may have ordered, or failed, before this one got the lease.
      await this.#load();
      if (this.#isDue && (await this.#mayTry())) await this.#tryOrder(signal);
    });
  }

  get #isDue(): boolean {
    return this.#current === null || !this.#isOwn || this.#options.wallMs() >= this.#renewalAtMs;
  }

  async #mayTry(): Promise<boolean> {
    const failed = await this.#lastFailure();
    return failed === null || isTime(failed.nextTryAtMs, this.#options.wallMs());
  }

  async #lastFailure(): Promise<Failed | null> {
    return readFailed(await this.#options.store.read(NAMES.attempt(this.#id)));
  }

  /** Takes the certificate of the store, and the file of `clientCa`, if they have changed. */
  async #load(): Promise<void> {
    const { store, sealing, clientCa } = this.#options;
    const ca = clientCa === null ? null : await readClientCa(clientCa);
    // A file that is being replaced may be unusable for a moment; the earlier one stays in force.
    const isCaChanged = ca !== null && typeof ca !== 'string' && this.#seen.clientCa?.equals(ca) !== true;
    if (isCaChanged) this.#seen.clientCa = ca;
    const own = NAMES.certificate(this.#id);
    let [name, text] = [own, await store.read(own)];
    // Until the first certificate for these domains there may be one for the domains before.
    if (text === null && !this.#isOwn) [name, text] = [NAMES.latest, await store.read(NAMES.latest)];
    if (text !== null && text !== this.#seen.text) {
      this.#seen.text = text;
      const issued = readIssued(sealing.open(name, text));
      if (issued === null) {
        throw new Failure(
          'store_corrupt',
          'The stored certificate cannot be read: it is damaged, or KEY_PEPPER is not the one under which it was encrypted. Another one is ordered when none is in use.',
        );
      }
      if (name === own || issued.domains.some((domain) => this.#options.acme.domains.includes(domain))) {
        this.#use(issued, name === own);
        return;
      }
    }
    if (isCaChanged && this.#issued !== null) this.#use(this.#issued, this.#isOwn);
  }

  /** @throws DirectoryError if the certificate does not fit its key */
  #use(issued: Issued, isOwn: boolean): void {
    const contents = { cert: Buffer.from(issued.cert), key: Buffer.from(issued.key), clientCa: this.#seen.clientCa };
    const names = { cert: 'the issued certificate', key: 'the key of the order', clientCa: this.#options.clientCa };
    const certificate = checkedCertificate(names, contents);
    if ('why' in certificate) throw new DirectoryError(`The certificate cannot be used: ${certificate.why}`);
    // One that has been renewed elsewhere meanwhile does not go back to an older one.
    const isOlder = this.#isOwn && this.#current !== null && certificate.validFromMs < this.#current.validFromMs;
    if (isOlder || (this.#current?.digest === certificate.digest && this.#isOwn === isOwn)) return;
    this.#issued = issued;
    this.#isOwn = isOwn;
    this.#renewalAtMs = renewalAtMs(certificate, certificate.digest);
    if (this.#current?.digest === certificate.digest) return;
    this.#current = certificate;
    for (const use of this.#users) use(certificate);
    this.#options.events.onLoaded(certificate);
  }

  /** Does the work if no other process holds the lease. Its signal ends when the lease is lost, or the work takes too long. */
  async #underLease(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { store } = this.#options;
    if (!(await store.lease(this.#lease, LEASE_MS))) return;
    const lost = new AbortController();
    const done = new AbortController();
    const prolonging = (async () => {
      let failures = 0;
      while (!done.signal.aborted) {
        await this.#sleep(PROLONG_EVERY_MS, done.signal).catch(() => {});
        if (done.signal.aborted) return;
        const isHeld = await store.lease(this.#lease, LEASE_MS).catch(() => null);
        failures = isHeld === null ? failures + 1 : 0;
        if (isHeld === false || failures > 2) lost.abort(new Error('the lease of the order was lost'));
      }
    })();
    const late = setTimeout(() => lost.abort(new Error('the order took too long')), ORDER_WITHIN_MS);
    try {
      await work(AbortSignal.any([lost.signal, this.#ended.signal]));
    } finally {
      clearTimeout(late);
      done.abort();
      await prolonging;
      // A lease that cannot be given back ends by itself.
      await store.release(this.#lease).catch(() => {});
    }
  }

  async #tryOrder(signal: AbortSignal): Promise<void> {
    const { events, order = orderCertificate, acme } = this.#options;
    const before = await this.#lastFailure();
    await this.#write([this.#attempt(this.#failedOf(before, 'refused', UNFINISHED, 0))]);
    events.onOrdering();
    const published: ChallengeAnswer[] = [];
    let issued: Issued;
    try {
      const ordering = order({
        acme,
        ...(await readAcmeFiles(acme)),
        account: await this.#account(),
        keepAccount: (account) => this.#keepAccount(account),
        publish: async (answers) => {
          published.push(...answers);
          await this.#write(answers.map(({ subject, text }) => challenge(subject, text)));
          // A gateway may have found just before that there is no order for the domain.
          await this.#sleep(2 * FORGET_AFTER_MS, signal);
        },
        wallMs: this.#options.wallMs,
        sleep: this.#sleep,
        signal,
      });
      issued = await Promise.race([ordering, givenUp(signal)]);
      // Before anything is stored: a certificate of another key is refused.
      this.#use(issued, true);
    } catch (error) {
      await this.#failed(before, error, published);
      return;
    }
    const again = this.#isDue ? this.#failedOf(before, 'refused', DUE_AT_ONCE, 0) : null;
    events.onIssued(again);
    await this.#save({ issued, again }, published);
  }

  /** Stores a failed attempt. Giving up because the gateway stops does not count, if the authority had no time to refuse. */
  async #failed(before: Failed | null, error: unknown, published: readonly ChallengeAnswer[]): Promise<void> {
    const removed = published.map(({ subject }) => challenge(subject, null));
    if (this.#ended.signal.aborted && published.length === 0) {
      await this.#write([before === null ? this.#attempt(null) : this.#attempt(before)]);
      return;
    }
    const { kind, retryAfterMs, message } =
      error instanceof DirectoryError
        ? error
        : { kind: 'refused' as const, retryAfterMs: 0, message: `The order was given up: ${messageOf(error)}` };
    const failed = this.#failedOf(before, kind, message, retryAfterMs);
    this.#options.events.onFailed(failed);
    await this.#write([this.#attempt(failed), ...removed]);
  }

  #failedOf(before: Failed | null, kind: Failed['kind'], why: string, retryAfterMs: number): Failed {
    const { wallMs, random } = this.#options;
    // Failures of the other kind do not count for this one.
    const failures = before?.kind === kind ? before.failures + 1 : 1;
    const atMs = wallMs();
    const nextTryAtMs = atMs + waitAfterMs({ failures, kind, retryAfterMs }, random());
    // The authority may have sent a text of any length, with control characters.
    return { failures, kind, why: printable(why, MAX_WHY), atMs, nextTryAtMs };
  }

  #attempt(failed: Failed | null): RecordChange {
    const text = failed === null ? null : JSON.stringify(failed);
    return { name: NAMES.attempt(this.#id), text, keptMs: 2 * MAX_WAIT_MS };
  }

  async #account(): Promise<Account | null> {
    const { store, sealing } = this.#options;
    const name = this.#accountName;
    const text = await store.read(name);
    return text === null ? null : readAccount(sealing.open(name, text));
  }

  get #accountName(): string {
    const { directory, eab } = this.#options.acme;
    return NAMES.account(directoryIdOf(directory, eab?.keyId ?? null));
  }

  async #keepAccount(account: Account): Promise<void> {
    const name = this.#accountName;
    await this.#write([{ name, text: this.#options.sealing.seal(name, JSON.stringify(account)), keptMs: null }]);
  }

  /** Stores an issued certificate, for as long as the lease lasts; after that, `#look` continues. */
  async #save(unsaved: Unsaved, published: readonly ChallengeAnswer[]): Promise<void> {
    this.#unsaved = unsaved;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#writeIssued(unsaved, published);
        return;
      } catch (error) {
        if (attempt === SAVE_ATTEMPTS || this.#ended.signal.aborted) throw error;
        await this.#sleep(LOOK_EVERY_MS, this.#ended.signal);
      }
    }
  }

  async #saveLater(unsaved: Unsaved): Promise<void> {
    // Another process has ordered a newer one meanwhile.
    if (this.#issued !== unsaved.issued) this.#unsaved = null;
    else await this.#underLease(() => this.#writeIssued(unsaved, []));
  }

  async #writeIssued({ issued, again }: Unsaved, published: readonly ChallengeAnswer[]): Promise<void> {
    const { sealing, wallMs } = this.#options;
    const keptMs = Math.max(this.#current!.expiresAtMs - wallMs(), 0) + 30 * DAY_MS;
    const own = NAMES.certificate(this.#id);
    const text = JSON.stringify(issued);
    await this.#write([
      { name: own, text: sealing.seal(own, text), keptMs },
      { name: NAMES.latest, text: sealing.seal(NAMES.latest, text), keptMs },
      this.#attempt(again),
      ...published.map(({ subject }) => challenge(subject, null)),
    ]);
    this.#unsaved = null;
  }

  async #write(changes: readonly RecordChange[]): Promise<void> {
    if (await this.#options.store.write(this.#lease, changes)) return;
    throw new Failure('store_unavailable', 'The lease of the order was lost, so nothing was stored.');
  }
}

function challenge(subject: string, text: string | null): RecordChange {
  return { name: NAMES.challenge(subject), text, keptMs: CHALLENGE_KEPT_MS };
}

/** Rejects with the reason of the signal. */
function givenUp(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Reads the files of the settings: the authorities of the directory, and the HMAC key.
 * @throws Failure `bad_settings`, with a message that names the file and quotes nothing from it
 */
export async function readAcmeFiles({
  directoryCa,
  eab,
}: Acme): Promise<Pick<OrderOptions, 'directoryCa' | 'hmacKey'>> {
  const hmacKey = eab === null ? null : (await contentOf(eab.hmacKeyFile)).toString().trim();
  if (hmacKey !== null && !/^[A-Za-z0-9_+/-]{16,512}={0,2}$/.test(hmacKey)) {
    throw new Failure('bad_settings', `listen.tls.acme.eab: ${eab!.hmacKeyFile} holds no HMAC key in base64url.`);
  }
  return { directoryCa: directoryCa === null ? null : usableCa(await readClientCa(directoryCa)), hmacKey };
}

/** @throws Failure `bad_settings` */
function usableCa(content: Buffer | string): Buffer {
  if (typeof content !== 'string') return content;
  throw new Failure('bad_settings', `listen.tls: ${content}`);
}

async function contentOf(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new Failure('bad_settings', `listen.tls.acme.eab: ${file} cannot be read (${code}).`);
  }
}
