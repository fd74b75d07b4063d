import { stripVTControlCharacters } from 'node:util';

/** Where people follow a run. */
export interface Screen {
  /** False: lines that stay, and nothing that is drawn again. */
  readonly isTerminal: boolean;
  /** False where NO_COLOR is set. */
  readonly colours: boolean;
  readonly columns: () => number;
  write(text: string): void;
}

export function screenOf(stream: NodeJS.WriteStream): Screen {
  return {
    isTerminal: stream.isTTY === true,
    colours: process.env.NO_COLOR === undefined,
    columns: () => stream.columns ?? 80,
    write: (text) => stream.write(text),
  };
}

/** The last lines of a terminal, drawn again and again. */
export class LiveLines {
  readonly #screen: Screen;
  #drawn = 0;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** Draws these lines in place of those before, each as far as it fits. Escape sequences stand at the beginning of a line. */
  draw(lines: readonly string[]): void {
    if (!this.#screen.isTerminal) return;
    this.erase();
    const columns = this.#screen.columns() - 1;
    const fitting = lines.map((line) => line.slice(0, columns + line.length - stripVTControlCharacters(line).length));
    this.#screen.write(fitting.map((line) => `${line}\n`).join(''));
    this.#drawn = lines.length;
  }

  /** Prints text that stays, above what is drawn next. */
  print(text: string): void {
    this.erase();
    this.#screen.write(text);
  }

  erase(): void {
    // Up, and clear to the end of the screen.
    if (this.#drawn > 0) this.#screen.write(`\x1b[${this.#drawn}A\x1b[0J`);
    this.#drawn = 0;
  }
}
