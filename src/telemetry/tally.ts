import { Counter, type Registry } from 'prom-client';

interface Child {
  readonly values: readonly string[];
  count: number;
}

interface Branch {
  readonly branches: Map<string, Branch>;
  child: Child | null;
}

/**
 * A counter that is counted up for every request: prom-client's makes an object and a text of the labels each time. It is
 * told the counts when somebody asks for them. The labels' values must be bounded.
 */
export class Tally {
  readonly #root: Branch = { branches: new Map(), child: null };
  readonly #children: Child[] = [];

  constructor(registry: Registry, name: string, help: string, labelNames: readonly string[]) {
    const children = this.#children;
    new Counter({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        for (const { values, count } of children) {
          this.inc(Object.fromEntries(labelNames.map((label, i) => [label, values[i]!])), count);
        }
      },
    });
  }

  /** Counts one. @param values of the labels, in their order */
  count(...values: readonly string[]): void {
    let branch = this.#root;
    for (let i = 0; i < values.length; i++) {
      let next = branch.branches.get(values[i]!);
      if (next === undefined) {
        next = { branches: new Map(), child: null };
        branch.branches.set(values[i]!, next);
      }
      branch = next;
    }
    branch.child ??= this.#newChild(values);
    branch.child.count++;
  }

  #newChild(values: readonly string[]): Child {
    const child = { values: [...values], count: 0 };
    this.#children.push(child);
    return child;
  }
}
