import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type KeyFormat, nameOfFormat, OWN_FORM } from '../identify/api-key.ts';
import type { KeyStore } from '../identify/record-store.ts';
import { PepperMarks, type SecretPepper } from '../identify/secret-marks.ts';
import { isReadable, type UnreadableRecord } from '../model/record.ts';
import { count } from '../model/values.ts';
import { usableSecrets } from './key-report.ts';
import { UNKNOWN_FORM } from './key-search.ts';
import { ASK_AGAIN_MS } from './plans-in-use.ts';
import { unreadable, unreadableReport } from './unreadable.ts';

// How many secrets still need an older pepper, or a format of keys that were made elsewhere.

const OLD_PEPPERS = ['none', 'needed', 'may_be_needed', 'not_needed'] as const;

/** What the operation returns. */
export const secretCounts = z.strictObject({
  peppers: z
    .strictObject({ current: count, old: count, removed: count, unknown: count })
    .describe(
      'How many secrets that work are under such a pepper, in the words of the parameter `pepper` of `GET /keys`.',
    ),
  oldPepper: z
    .enum(OLD_PEPPERS)
    .describe(
      'Whether the peppers of KEY_PEPPER behind the first can be left out: `not_needed`, because no secret is under them; `may_be_needed`, because of some secrets it is not known; `needed`. `none`: there is none.',
    ),
  forms: z
    .array(z.strictObject({ form: z.string(), secrets: count }))
    .describe(
      'How many secrets that work have such a form, in the words of the parameter `form` of `GET /keys`: `own`, each format of `keys.formats`, those that it had before, and `unknown`.',
    ),
  unreadable,
});
type SecretCountsReport = z.output<typeof secretCounts>;

/** How many usable secrets a store has. */
export interface SecretCounts {
  readonly peppers: Readonly<Record<SecretPepper, number>>;
  readonly forms: ReadonlyMap<string, number>;
  readonly unreadable: readonly UnreadableRecord[];
}

interface Counted {
  /** Those in use, newest first; at least one. */
  readonly peppers: readonly string[];
  /** Unix milliseconds. */
  readonly nowMs: number;
  /** Called after each page of keys. It lets other work of the process go first. */
  readonly onPage: () => Promise<unknown>;
}

/** Keys that are read in one turn of the event loop. */
const PAGE = 100;

/** Counts the secrets with which requests can be made. It reads every key. @throws Failure `store_unavailable` */
export async function countSecretsOf(
  keys: Pick<KeyStore, 'list'>,
  { peppers, nowMs, onPage }: Counted,
): Promise<SecretCounts> {
  const marks = new PepperMarks(peppers);
  const counts = { current: 0, old: 0, removed: 0, unknown: 0 };
  const forms = new Map<string, number>();
  const lost: UnreadableRecord[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof keys.list>> = await keys.list({ limit: PAGE, cursor });
    for (const key of page.records) {
      if (!isReadable(key)) {
        lost.push(key);
        continue;
      }
      for (const secret of usableSecrets(key, nowMs)) {
        counts[marks.pepperOf(secret)]++;
        const { form = UNKNOWN_FORM } = secret;
        forms.set(form, (forms.get(form) ?? 0) + 1);
      }
    }
    cursor = page.cursor;
    await onPage();
  } while (cursor !== null);
  return { peppers: counts, forms, unreadable: lost };
}

/** @param formats those of gateway.yaml */
export function secretCountsReport(
  { peppers, forms, unreadable: lost }: SecretCounts,
  { inUse, formats }: { readonly inUse: number; readonly formats: readonly KeyFormat[] },
): SecretCountsReport {
  const names = new Set([OWN_FORM, ...formats.map(nameOfFormat), ...forms.keys()]);
  names.delete(UNKNOWN_FORM);
  return {
    peppers: { ...peppers },
    oldPepper: oldPepper(peppers, inUse, lost.length),
    forms: [...names, UNKNOWN_FORM].map((form) => ({ form, secrets: forms.get(form) ?? 0 })),
    unreadable: unreadableReport(lost),
  };
}

function oldPepper({ old, unknown }: SecretCounts['peppers'], inUse: number, unreadable: number) {
  if (inUse === 1) return 'none';
  if (old > 0) return 'needed';
  return unknown + unreadable > 0 ? 'may_be_needed' : 'not_needed';
}

/** How often a gateway counts the secrets of a store whose pepper was changed, and how long it rests after each page of them. */
const COUNT_EVERY_MS = 3_600_000;
const PAUSE_MS = 100;

interface CountingStore {
  readonly keys: Pick<KeyStore, 'list'>;
  readonly peppers: readonly string[];
  /** Every pepper that the store has had. @throws Failure */
  readonly pepperHistory: () => Promise<{ readonly peppers: readonly string[] }>;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/**
 * Counts the secrets once an hour, for the metric, if the store has ever had another pepper. It reads slowly, so that requests are
 * served meanwhile.
 * @param onCount called with what was counted
 * @returns a function that stops it
 */
export function watchPeppers(
  { keys, peppers, pepperHistory, nowMs }: CountingStore,
  onCount: (counts: SecretCounts['peppers']) => void,
): () => void {
  const closing = new AbortController();
  const pause = (ms: number) => delay(ms, undefined, { ref: false, signal: closing.signal });
  const run = async () => {
    for (;;) {
      try {
        if ((await pepperHistory()).peppers.length === 1) return;
        onCount((await countSecretsOf(keys, { peppers, nowMs: nowMs(), onPage: () => pause(PAUSE_MS) })).peppers);
        await pause(COUNT_EVERY_MS);
      } catch {
        await pause(ASK_AGAIN_MS);
      }
    }
  };
  // `pause` rejects when `closing` aborts.
  run().catch(() => {});
  return () => closing.abort();
}
