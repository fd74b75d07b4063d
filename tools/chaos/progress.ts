import type { Row } from './row.ts';

/** Follows a run for whoever sits before it. */
export interface Progress {
  begin(number: number, of: number, name: string): void;
  /** What the scenario is at. */
  readonly tell: (what: string) => void;
  end(row: Row): void;
}

export interface Screen {
  /** False: one line for each scenario, when it is over. */
  readonly isTerminal: boolean;
  readonly columns: () => number;
  write(text: string): void;
}

const REDRAW_MS = 500;

export function follow(screen: Screen): Progress {
  let head = '';
  let what = '';
  let startedAtMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const draw = () => {
    const seconds = Math.round((performance.now() - startedAtMs) / 1000);
    const line = `${head}  ${seconds} s${what === '' ? '' : `  ${what}`}`;
    screen.write(`\r\x1b[K${line.slice(0, screen.columns() - 1)}`);
  };
  return {
    begin: (number, of, name) => {
      head = `${number}/${of} ${name}`;
      what = '';
      startedAtMs = performance.now();
      if (!screen.isTerminal) return;
      draw();
      timer = setInterval(draw, REDRAW_MS);
    },
    tell: (text) => {
      what = text;
    },
    end: (row) => {
      clearInterval(timer);
      const verdict = row.broken.length === 0 ? 'held' : 'BROKEN';
      const lines = [
        `${head}: ${verdict} in ${(row.tookMs / 1000).toFixed(1)} s`,
        ...row.broken.map((it) => `    ${it}`),
      ];
      screen.write(`${screen.isTerminal ? '\r\x1b[K' : ''}${lines.join('\n')}\n`);
    },
  };
}
