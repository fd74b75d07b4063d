/** How long a report of a gateway is shown. */
export const SHOWN_FOR_MS = 10_000;
/** A report is removed from the store after this time. */
export const REPORT_KEPT_MS = 60_000;
/** A question is forgotten unless its gateway asks it again within this time. */
export const QUESTION_KEPT_MS = 5_000;
/** How long a session end is known: as long as a session can last. */
export const ENDS_KEPT_MS = 8 * 3_600_000;
/** Parts of a record of requests that are not read in this time are removed. */
export const PART_KEPT_MS = 30_000;
export const MAX_QUESTIONS = 200;
/** Most answers that wait for one gateway. The oldest are dropped. */
export const MAX_ANSWERS = 100;
/** Most names whose sessions have ended. Further ones are not carried to other gateways. */
export const MAX_ENDS = 1_000;

/** What a gateway sends the others in one exchange. */
export interface FleetMessage {
  /** The gateway that exchanges. */
  readonly id: string;
  /** Its report; null to leave the earlier one. */
  readonly report: string | null;
  /** Whether it wants to read the reports of all gateways. */
  readonly readsReports: boolean;
  /** Its open questions, by their ids, which are unique among all gateways. */
  readonly questions: ReadonlyMap<string, string>;
  readonly answers: readonly { readonly to: string; readonly text: string }[];
  /** By name, how many milliseconds ago its sessions have ended. Not a time, because clocks of gateways differ. */
  readonly ends: ReadonlyMap<string, number>;
}

/** What a gateway learns in one exchange. */
export interface FleetNews {
  /** The store's clock, Unix milliseconds. */
  readonly nowMs: number;
  /** The reports that are not older than `SHOWN_FOR_MS`, its own included; empty unless it asked for them. */
  readonly reports: readonly { readonly id: string; readonly atMs: number; readonly text: string }[];
  /** The open questions of all gateways, its own included. */
  readonly questions: ReadonlyMap<string, string>;
  /** The answers to its questions, the oldest first. Each is given out once. */
  readonly answers: readonly string[];
  /** By name, when its sessions have ended, Unix milliseconds on the store's clock. */
  readonly ends: ReadonlyMap<string, number>;
}

/** Where gateways on one store leave messages for each other. The texts are the gateways' own business. */
export interface FleetStore {
  /** Leaves messages and fetches others, in one step. @throws Failure `store_unavailable`, `store_corrupt` */
  exchange(message: FleetMessage): Promise<FleetNews>;
  /** Leaves one part of an answer that is too large for a message. */
  leavePart(name: string, bytes: Uint8Array): Promise<void>;
  /** Fetches a part and removes it. @returns null if it is not there */
  takePart(name: string): Promise<Uint8Array | null>;
  /** Removes the report of a gateway that ends. */
  leave(gatewayId: string): Promise<void>;
}
