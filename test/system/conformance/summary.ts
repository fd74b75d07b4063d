import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** What a test says of a case, or of many like it, of a public suite. */
export interface Conformance {
  readonly suite: string;
  /** The suite's name for the case. */
  readonly id: string;
  /** How many cases the test stands for. */
  readonly cases: number;
  /** How what the gateway does is judged by the suite. */
  readonly verdict: 'conforms' | 'debatable' | 'differs';
  /** Why the gateway does not do what the suite would like best. */
  readonly reason?: string | undefined;
}

declare module 'vitest' {
  interface TaskMeta {
    conformance?: Conformance;
  }
}

/** Ends a run of the tests of this folder with a table: for each suite how many cases conform, and why others do not. */
export class ConformanceSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    process.stdout.write(`\n${summaryOf(tests.flatMap(saidBy)).join('\n')}\n`);
  }
}

type Said = Conformance & { readonly failed: boolean };

function saidBy(test: TestCase): Said[] {
  const { conformance } = test.meta();
  return conformance === undefined ? [] : [{ ...conformance, failed: test.result().state !== 'passed' }];
}

/** The lines of the table, and of the reasons below it. */
export function summaryOf(said: readonly Said[]): string[] {
  const rows = [...Map.groupBy(said, ({ suite }) => suite)].map(([suite, all]) => {
    const count = (isOne: (it: Said) => boolean) => all.reduce((sum, it) => sum + (isOne(it) ? it.cases : 0), 0);
    const judged = (verdict: Conformance['verdict']) => count((it) => !it.failed && it.verdict === verdict);
    const numbers = [judged('conforms'), judged('debatable'), judged('differs'), count(({ failed }) => failed)];
    return [suite, ...[count(() => true), ...numbers].map((number) => number.toLocaleString('en'))];
  });
  const table = [['suite', 'cases', 'conform', 'debatable', 'differ', 'failed'], ...rows];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  const lines = table.map((row) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '),
  );
  const reasons = said.flatMap(({ suite, id, verdict, reason }) =>
    reason === undefined ? [] : [`${suite} ${id}, ${verdict}: ${reason}`],
  );
  return reasons.length === 0 ? lines : [...lines, '', 'By intent:', ...reasons];
}
