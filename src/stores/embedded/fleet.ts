import {
  ENDS_KEPT_MS,
  type FleetMessage,
  type FleetNews,
  type FleetStore,
  MAX_ANSWERS,
  MAX_ENDS,
  MAX_QUESTIONS,
  PART_KEPT_MS,
  QUESTION_KEPT_MS,
  SHOWN_FOR_MS,
} from '../../operations/fleet/fleet-store.ts';

/** The messages of a gateway to itself: one gateway owns the embedded store, so this class writes nothing to the disk. */
export class EmbeddedFleet implements FleetStore {
  readonly #wallMs: () => number;
  readonly #reports = new Map<string, { readonly atMs: number; readonly text: string }>();
  readonly #questions = new Map<string, { readonly atMs: number; readonly text: string }>();
  readonly #answers = new Map<string, string[]>();
  readonly #ends = new Map<string, number>();
  readonly #parts = new Map<string, { readonly atMs: number; readonly bytes: Uint8Array }>();

  /** @param wallMs the store's clock: Unix milliseconds */
  constructor({ wallMs }: { readonly wallMs: () => number }) {
    this.#wallMs = wallMs;
  }

  async exchange({ id, report, readsReports, questions, answers, ends }: FleetMessage): Promise<FleetNews> {
    const nowMs = this.#wallMs();
    if (report !== null) this.#reports.set(id, { atMs: nowMs, text: report });
    for (const [question, text] of questions) {
      const hasRoom = this.#questions.has(question) || this.#questions.size < MAX_QUESTIONS;
      if (hasRoom) this.#questions.set(question, { atMs: nowMs, text });
    }
    for (const { to, text } of answers)
      this.#answers.set(to, [...(this.#answers.get(to) ?? []), text].slice(-MAX_ANSWERS));
    for (const [name, agoMs] of ends) {
      const known = this.#ends.get(name);
      const endedMs = nowMs - Math.max(agoMs, 0);
      if (known !== undefined || this.#ends.size < MAX_ENDS) this.#ends.set(name, Math.max(known ?? 0, endedMs));
    }
    for (const [gateway, { atMs }] of this.#reports) if (nowMs - atMs > SHOWN_FOR_MS) this.#reports.delete(gateway);
    for (const [question, { atMs }] of this.#questions) {
      if (nowMs - atMs > QUESTION_KEPT_MS) this.#questions.delete(question);
    }
    for (const [name, endedMs] of this.#ends) if (nowMs - endedMs > ENDS_KEPT_MS) this.#ends.delete(name);
    const mine = this.#answers.get(id) ?? [];
    this.#answers.delete(id);
    return {
      nowMs,
      reports: readsReports ? [...this.#reports].map(([gateway, rest]) => ({ id: gateway, ...rest })) : [],
      questions: new Map([...this.#questions].map(([question, { text }]) => [question, text])),
      answers: mine,
      ends: new Map(this.#ends),
    };
  }

  async leavePart(name: string, bytes: Uint8Array): Promise<void> {
    const nowMs = this.#wallMs();
    for (const [other, { atMs }] of this.#parts) if (nowMs - atMs > PART_KEPT_MS) this.#parts.delete(other);
    this.#parts.set(name, { atMs: nowMs, bytes });
  }

  async takePart(name: string): Promise<Uint8Array | null> {
    const part = this.#parts.get(name);
    this.#parts.delete(name);
    return part?.bytes ?? null;
  }

  async leave(gatewayId: string): Promise<void> {
    this.#reports.delete(gatewayId);
  }
}
