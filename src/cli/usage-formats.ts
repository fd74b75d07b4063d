import { STEP_MS } from '../admit/history-report.ts';
import type { UsageRecord } from '../operations/usage-history.ts';
import { csvLine } from './keys/export.ts';
import type { Terminal } from './terminal/command.ts';

export const CSV_HEADER = [
  'id',
  'consumer',
  'name',
  'owner',
  'plan',
  'step',
  'at',
  'admitted',
  'refused',
  'banned',
  'customer',
  'unit',
] as const;

/** How `tollgate usage export` prints records. */
interface UsageFormat {
  /** What comes before the first record. */
  header(terminal: Terminal): string;
  /** One record, with its line end. */
  line(record: UsageRecord, terminal: Terminal): string;
  /** Whether only hours and days that have ended may be printed, because the receiver takes a record once. */
  readonly isFinal: boolean;
}

export const USAGE_FORMATS: Readonly<Record<string, UsageFormat>> = {
  ndjson: { header: () => '', line: (record) => `${JSON.stringify(record)}\n`, isFinal: false },
  csv: {
    header: (terminal) => csvLine(CSV_HEADER, terminal),
    line: (record, terminal) => csvLine(cellsOf(record), terminal),
    isFinal: false,
  },
  cloudevents: { header: () => '', line: (record) => `${JSON.stringify(cloudEventOf(record))}\n`, isFinal: true },
};

function cellsOf(record: UsageRecord): readonly (string | null)[] {
  return CSV_HEADER.map((column) => {
    const value = record[column] ?? null;
    return typeof value === 'number' ? String(value) : value;
  });
}

/**
 * A record as a CloudEvent 1.0 (its JSON format, section 3), as OpenMeter takes it: `subject` is who pays, and `source` with `id` is the same each
 * time, so that an event that is sent twice counts once. A meter adds `$.admitted`; it may group by `$.unit`, which is `requests` for requests.
 */
function cloudEventOf(record: UsageRecord) {
  const { id, consumer, customer, step, at, unit = 'requests' } = record;
  return {
    specversion: '1.0',
    id,
    source: 'tollgate',
    type: 'tollgate.usage',
    subject: customer ?? consumer,
    // The last moment that it counts: a billing period that begins when it ends has nothing of it.
    time: new Date(Date.parse(at) + STEP_MS[step] - 1).toISOString(),
    datacontenttype: 'application/json',
    data: { ...record, unit },
  };
}
