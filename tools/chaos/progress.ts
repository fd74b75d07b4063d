import { LiveLines, type Screen } from '../kit/screen.ts';
import type { Row } from './row.ts';

/** Follows a run for whoever sits before it. */
export interface Progress {
  begin(number: number, of: number, name: string): void;
  /** What the scenario is at. */
  readonly tell: (what: string) => void;
  end(row: Row): void;
}

const REDRAW_MS = 500;

/** A line for each scenario when it is over, and on a terminal one for what it is at. */
export function follow(screen: Screen): Progress {
  const live = new LiveLines(screen);
  let head = '';
  let what = '';
  let startedAtMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const draw = () => {
    const seconds = Math.round((performance.now() - startedAtMs) / 1000);
    live.draw([`${head}  ${seconds} s${what === '' ? '' : `  ${what}`}`]);
  };
  return {
    begin: (number, of, name) => {
      head = `${number}/${of} ${name}`;
      what = '';
      startedAtMs = performance.now();
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
      live.print(`${lines.join('\n')}\n`);
    },
  };
}
