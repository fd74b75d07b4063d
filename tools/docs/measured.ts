// What the last report of the bench says about one request, as a table for docs/internals/performance.md: the report itself is in a clone only.

/** The scenario of the report that the table shows. */
const TITLE = 'Admitted GET, 284 bytes of JSON';
const [BEGIN, END] = ['<!-- measured: begin -->', '<!-- measured: end -->'];
const BARE = 'bare node:http answer';
/** Contestants of the report, and what the table calls them. */
const CONTESTANTS = [
  ['Tollgate', 'Tollgate'],
  ['nginx + Lua + Redis', 'nginx with Lua and Redis'],
] as const;
const LATENCIES = ['p50 ms', 'p99 ms', 'p99 ms fixed'] as const;

/** The figures of a contestant, by the heads of their columns. */
type Figures = ReadonlyMap<string, string>;

/**
 * docs/internals/performance.md with the figures of the report.
 * @throws Error if the report lacks one of them
 */
export function performancePage(page: string, report: string): string {
  const [before, rest] = page.split(`${BEGIN}\n`);
  const [, after] = rest?.split(END) ?? [];
  if (after === undefined) throw new Error(`docs/internals/performance.md lacks ${BEGIN} or ${END}.`);
  return `${before}${BEGIN}\n\n${measured(report)}\n\n${END}${after}`;
}

function measured(report: string): string {
  const [, date, machine, rounds] = found(
    /^(\d{4}-\d\d-\d\d), (.*)\. Written by .*: (\d+ rounds of \d+ s), in/m,
    report,
  );
  const [, section] = found(new RegExp(`^## ${TITLE}\n([\\s\\S]*?)(?=^## )`, 'm'), report);
  const [, connections, rate] = found(/(\d+ connections), fixed rate ([\d,]+)\/s/, section!);
  const figures = figuresOf(section!);
  const bare = figuresFor(BARE, figures);
  const rows = CONTESTANTS.flatMap(([name, shown]) => {
    const own = figuresFor(name, figures);
    const added = LATENCIES.map((column) => `${(numberOf(own, column) - numberOf(bare, column)).toFixed(2)} ms`);
    const [cpu, memory] = [`${own.get('CPU µs')} µs, and ${own.get('Redis µs')} µs in Redis`, memoryOf(own)];
    return [row(shown, own, cpu, memory), `| … adds | | ${added.join(' | ')} | | |`];
  });
  return [
    `One process with one key, on ${date}, on ${machine}: ${rounds},`,
    `with ${connections} that send as fast as they get responses or, in one column, ${rate} requests a second in all.`,
    '',
    `| | requests a second | p50 | p99 | p99 at ${rate} a second | CPU of a request | memory |`,
    '|---|---:|---:|---:|---:|---:|---:|',
    row('node:http alone, which gives such a response itself', bare, `${bare.get('CPU µs')} µs`, memoryOf(bare)),
    ...rows,
  ].join('\n');
}

function row(name: string, figures: Figures, cpu: string, memory: string): string {
  const latencies = LATENCIES.map((column) => `${figures.get(column)} ms`);
  return `| ${[name, figures.get('requests/s'), ...latencies, cpu, memory].join(' | ')} |`;
}

/** Under load. Later reports have a second column, for the memory before it. */
function memoryOf(figures: Figures): string {
  return `${figures.get('MB loaded') ?? figures.get('MB')} MB`;
}

function numberOf(figures: Figures, column: string): number {
  const value = Number(figures.get(column));
  if (Number.isNaN(value)) throw new Error(`The report has no figure '${column}'.`);
  return value;
}

function figuresFor(name: string, figures: ReadonlyMap<string, Figures>): Figures {
  const own = figures.get(name);
  if (own === undefined) throw new Error(`The report has no row '${name}' under '${TITLE}'.`);
  return own;
}

function figuresOf(section: string): ReadonlyMap<string, Figures> {
  const lines = section.split('\n').filter((line) => line.startsWith('|'));
  const [head = [], , ...rows] = lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  return new Map(rows.map(([name, ...cells]) => [name!, new Map(cells.map((cell, i) => [head[i + 1]!, cell]))]));
}

function found(pattern: RegExp, text: string): RegExpExecArray {
  const match = pattern.exec(text);
  if (match === null) throw new Error(`The report has nothing like ${pattern}.`);
  return match;
}
