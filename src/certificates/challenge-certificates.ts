import type { ChallengeCertificate } from '../listen/tls-challenge.ts';

const MAX_KEPT = 200;
/** How long the store is not asked again about a domain: an order waits as long before it asks for validation. */
export const FORGET_AFTER_MS = 500;

interface CachedAnswer {
  readonly text: string | null;
  readonly untilMs: number;
  readonly certificate: Promise<ChallengeCertificate | null>;
}

/**
 * Makes the certificates of TLS-ALPN-01 (RFC 8737 section 3) from the answers in the store. Each process makes its own, so that no
 * key has to be shared.
 *
 * Attack: connections that claim to be the authority's make the gateway ask the store, or sign, each time. Only domains of the
 * settings are looked up, at most twice a second each, and a certificate is made once for each answer.
 */
export class ChallengeCertificates {
  readonly #domains: ReadonlySet<string>;
  readonly #answerTo: (domain: string) => Promise<string | null>;
  readonly #monotonicMs: () => number;
  readonly #kept = new Map<string, CachedAnswer>();

  /** @param monotonicMs milliseconds of a monotonic clock */
  constructor(
    domains: readonly string[],
    answerTo: (domain: string) => Promise<string | null>,
    monotonicMs: () => number,
  ) {
    this.#domains = new Set(domains);
    this.#answerTo = answerTo;
    this.#monotonicMs = monotonicMs;
  }

  /** @returns null if no order for this domain is under way */
  async certificateFor(domain: string): Promise<ChallengeCertificate | null> {
    if (!this.#domains.has(domain)) return null;
    const before = this.#kept.get(domain);
    if (before !== undefined && this.#monotonicMs() < before.untilMs) return before.certificate;
    const untilMs = this.#monotonicMs() + FORGET_AFTER_MS;
    const asked = this.#ask(domain, before);
    const certificate = asked.then((kept) => kept.certificate);
    this.#kept.set(domain, { text: before?.text ?? null, untilMs, certificate });
    if (this.#kept.size > MAX_KEPT) this.#kept.clear();
    try {
      const kept = await asked;
      this.#kept.set(domain, { ...kept, untilMs });
      return await kept.certificate;
    } catch (error) {
      this.#kept.delete(domain);
      throw error;
    }
  }

  async #ask(domain: string, before: CachedAnswer | undefined): Promise<Omit<CachedAnswer, 'untilMs'>> {
    const text = await this.#answerTo(domain);
    if (text === null) return { text, certificate: Promise.resolve(null) };
    if (before?.text === text) return { text, certificate: before.certificate };
    return { text, certificate: make(domain, text) };
  }
}

async function make(domain: string, keyAuthorization: string): Promise<ChallengeCertificate> {
  const { crypto } = (await import('acme-client')).default;
  const key = await crypto.createPrivateEcdsaKey('P-256');
  const subject = { identifier: { type: 'dns', value: domain } } as Parameters<typeof crypto.createAlpnCertificate>[0];
  const [, cert] = await crypto.createAlpnCertificate(subject, keyAuthorization, key);
  return { cert: cert.toString(), key: key.toString() };
}
