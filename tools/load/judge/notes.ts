/** What the judge looks into, with what it demands of the gateway. */
export const CHECKS = {
  limit: 'No window admits more than its limit',
  whole: 'Every window admits its whole limit',
  remaining: 'No answer says that more remains than does; below a limit of 64 it says exactly what does',
  fields: 'Rate-limit fields are there and agree with each other, the plan and the clock',
  retryAfter: 'Retry-After is when the last of what refuses ends, not earlier and not later',
  waited: 'Who has waited for Retry-After is admitted',
  bans: 'Bans come at the right strike, last as long as their rung says, and never hit who waits',
  statuses: 'Every request is answered, as was to be expected',
  unharmed: 'Good clients do not suffer from abusers',
} as const;

export type Check = keyof typeof CHECKS;

/** A fault that was seen, and how often; the sentence is the first of them. */
export interface Finding {
  readonly check: Check;
  readonly subject: string;
  readonly sentence: string;
  readonly times: number;
}

/** What the judge wrote down: how much it looked at, and what it found. */
export class Notes {
  readonly #looked = new Map<Check, number>();
  readonly #findings = new Map<string, Finding>();

  /** Something was looked at and could have been wrong. */
  looked(check: Check, times = 1): void {
    this.#looked.set(check, this.lookedAt(check) + times);
  }

  /** @param kind faults of one subject with the same kind are told once */
  fault(check: Check, subject: string, kind: string, sentence: string): void {
    const key = `${check} ${kind} ${subject}`;
    const before = this.#findings.get(key);
    this.#findings.set(key, {
      check,
      subject,
      sentence: before?.sentence ?? sentence,
      times: (before?.times ?? 0) + 1,
    });
  }

  lookedAt(check: Check): number {
    return this.#looked.get(check) ?? 0;
  }

  get findings(): readonly Finding[] {
    return [...this.#findings.values()];
  }
}
