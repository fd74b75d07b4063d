import { z } from 'zod';
import type { RowChoice, Table, TableColumn } from '../meter/cost.ts';
import { type Factor, factorOf, largestOf, MAX_DECIMALS, MAX_FACTOR } from '../meter/factor.ts';
import { pointer, responseValue } from './cost-sources.ts';
import * as values from './setting-values.ts';
import { asArray, field, isMapping, type Note } from './yaml.ts';

/*
 * `tables` of gateway.yaml: the numbers by which parts of a cost are multiplied, such as the prices of models. A value of the request or
 * of its response names the row.
 */

const FACTOR_RULE = `must be a number from 0 to ${MAX_FACTOR} with at most ${MAX_DECIMALS} decimals`;
export const factor = () =>
  z
    .number(FACTOR_RULE)
    .refine((number) => factorOf(number) !== null, FACTOR_RULE)
    .meta({ minimum: 0, maximum: MAX_FACTOR })
    .transform((number): Factor => factorOf(number)!);

const MAX_ROWS = 1_000;
const MAX_COLUMNS = 16;
const row = z
  .record(values.name(), factor())
  .refine(
    (columns) => Object.keys(columns).length > 0,
    'is empty; give it at least one number, such as { prompt: 2.5 }',
  )
  .refine((columns) => Object.keys(columns).length <= MAX_COLUMNS, `must not have more than ${MAX_COLUMNS} columns`)
  .meta({ minProperties: 1, maxProperties: MAX_COLUMNS });

const BY_RULE =
  'must be a mapping with one of `json` and `header`, of the request, or `response`: { json: /model }, { response: { json: /model } }';
const by = z
  .union(
    [
      z.strictObject({
        json: pointer().describe(
          'Where the name stands in the JSON body of the request, as a JSON pointer. Such a body is read before the request is counted, up to 1 MiB.',
        ),
      }),
      z.strictObject({
        header: values
          .token()
          .describe('The field of the request that has it, one that reaches the service as the client sends it.'),
      }),
      z.strictObject({
        response: z
          .union([responseValue, z.array(responseValue).min(1, BY_RULE).max(8, BY_RULE)], BY_RULE)
          .describe('Where the response has it: one or several sources as those of a cost.'),
      }),
    ],
    BY_RULE,
  )
  .transform((raw): RowChoice => {
    if ('json' in raw) return { of: 'request', source: { kind: 'json', pointer: raw.json } };
    if ('header' in raw) return { of: 'request', source: { kind: 'header', name: raw.header.toLowerCase() } };
    return { of: 'answer', sources: Array.isArray(raw.response) ? raw.response : [raw.response] };
  });

const ROW_RULE = 'must be a name of 1 to 128 characters';
const table = z
  .strictObject({
    by: by.describe('Which value names the row.'),
    rows: z
      .record(z.string().min(1, ROW_RULE).max(128, ROW_RULE), row)
      .refine((rows) => Object.keys(rows).length > 0, 'is empty; name at least one row')
      .refine((rows) => Object.keys(rows).length <= MAX_ROWS, `must not have more than ${MAX_ROWS} rows`)
      .describe('The rows, by the names that requests or responses have. Each has the same columns.')
      .meta({ minProperties: 1, maxProperties: MAX_ROWS }),
    default: row
      .optional()
      .describe(
        'The row of any other name. Without it, a request that names another one, or none, gets 400 `request_invalid`; for a response that does, the largest number of the column counts.',
      ),
  })
  .superRefine(({ rows, default: others }, context) => {
    const columns = Object.keys(Object.values(rows)[0] ?? {});
    const check = (given: object, path: string[]) => {
      const missing = columns.find((column) => !Object.hasOwn(given, column));
      const more = Object.keys(given).find((column) => !columns.includes(column));
      const message =
        missing === undefined
          ? `has the column ${more}, which the first row has not`
          : `lacks the column ${missing} of the first row`;
      if (missing !== undefined || more !== undefined) context.addIssue({ code: 'custom', path, message });
    };
    for (const [name, one] of Object.entries(rows)) check(one, ['rows', name]);
    if (others !== undefined) check(others, ['default']);
  });

const MAX_TABLES = 100;
export const costTables = z
  .record(values.name(), table)
  .refine((tables) => Object.keys(tables).length <= MAX_TABLES, `must not have more than ${MAX_TABLES} tables`)
  .default({})
  .meta({
    maxProperties: MAX_TABLES,
    description:
      'Tables of numbers by which parts of a cost are multiplied, by name, such as the prices of models. `times: prices.prompt` of a part is the column `prompt` of the table `prices`, in the row that the request or its response names.',
  });

/** What a part is multiplied by as it is written: a number, or a table and a column of it. */
export type WrittenTimes = Factor | `${string}.${string}`;

const TIMES_RULE = `${FACTOR_RULE}, or a table and one of its columns, such as prices.prompt`;
const TIMES = /^[A-Za-z][A-Za-z0-9_-]{0,63}\.[A-Za-z][A-Za-z0-9_-]{0,63}$/;
export const times = () =>
  z
    .union([factor(), z.string().regex(TIMES, TIMES_RULE)], TIMES_RULE)
    .prefault(1)
    .transform((written) => written as WrittenTimes)
    .describe('What it is multiplied by: a number, or `TABLE.COLUMN`, a column of one of `tables`.');

type CostTables = z.output<typeof costTables>;

/** What `times` mean with the tables of a file. One that names no column of them, which is a fault of the file, is 1. */
export function timesIn(tables: CostTables): (written: WrittenTimes) => Factor | TableColumn {
  const columns = new Map(Object.entries(tables).flatMap(([name, one]) => columnsOf(name, one)));
  return (written) => (typeof written === 'string' ? (columns.get(written) ?? factorOf(1)!) : written);
}

function columnsOf(name: string, { by, rows, default: others }: CostTables[string]): [string, TableColumn][] {
  const names = Object.keys(rows);
  const indices = new Map(names.map((one, i) => [one, i]));
  const shared: Table = { by, rows: indices, hasDefault: others !== undefined };
  return Object.keys(rows[names[0]!]!).map((column) => {
    const factors = names.map((one) => rows[one]![column]!);
    return [`${name}.${column}`, { table: shared, factors: [...factors, others?.[column] ?? largestOf(factors)] }];
  });
}

/** Each `times` of what a route charges in a unit that names a table, in a document that may not be valid. */
export function timesNamed(cost: unknown, unit: string) {
  const charge = field(cost, unit);
  const from = field(charge, 'from');
  const sums = [
    { isReserve: true, sum: field(field(charge, 'reserve'), 'sum'), at: ['reserve'] },
    ...(Array.isArray(from) ? from : [from]).map((source, i) => {
      return { isReserve: false, sum: field(source, 'sum'), at: Array.isArray(from) ? ['from', i] : ['from'] };
    }),
  ];
  return sums.flatMap(({ isReserve, sum, at }) =>
    asArray(sum).flatMap((part, i) => {
      const named = field(part, 'times');
      const path = ['cost', unit, ...at, 'sum', i, 'times'];
      return typeof named === 'string' && TIMES.test(named) ? [{ named, path, isReserve }] : [];
    }),
  );
}

/** Notes each `times` of a cost that names no column of the tables, or of which a reserve cannot know the row. */
export function checkTimes(cost: unknown, tables: unknown, fault: Note): void {
  for (const unit of isMapping(cost) ? Object.keys(cost) : []) {
    for (const { named, path, isReserve } of timesNamed(cost, unit)) {
      const message = faultOfColumn(named, tables);
      const by = field(field(tables, named.split('.')[0]!), 'by');
      if (message !== null) fault(path, message);
      else if (isReserve && field(by, 'response') !== undefined) fault(path, OF_RESPONSE);
    }
  }
}

const OF_RESPONSE =
  'is chosen by the response, which is not known in advance; give a number, or a table by a value of the request.';

function faultOfColumn(named: string, tables: unknown): string | null {
  const [name = '', column = ''] = named.split('.');
  const table = field(tables, name);
  if (table === undefined) return `names the table ${name}, which \`tables\` lacks${hint(tables)}.`;
  const rows = field(table, 'rows');
  const [first] = isMapping(rows) ? Object.values(rows) : [];
  if (!isMapping(first) || Object.hasOwn(first, column)) return null;
  return `names the column ${column}, which the table ${name} lacks${hint(first)}.`;
}

/** The names that could be meant. */
function hint(among: unknown): string {
  const names = isMapping(among) ? Object.keys(among) : [];
  return names.length === 0 ? '' : `; it has ${names.slice(0, MAX_COLUMNS).join(', ')}`;
}
