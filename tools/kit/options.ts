import { type ParseArgsConfig, parseArgs } from 'node:util';
import { Failure } from '../../src/failure.ts';

/** The words after `npm run NAME --`. What is wrong with them is a sentence that names the help. */
export class Usage {
  readonly #program: string;

  /** @param program its script in package.json */
  constructor(program: string) {
    this.#program = program;
  }

  /** @throws Failure `bad_usage` */
  parse<T extends NonNullable<ParseArgsConfig['options']>>(args: readonly string[], options: T) {
    try {
      return parseArgs({ args: [...args], options, strict: true }).values;
    } catch (cause) {
      throw this.wrong((cause instanceof Error ? cause.message : String(cause)).split('. ')[0]!, cause);
    }
  }

  /** @throws Failure `bad_usage` */
  wholeNumber(option: string, text: string | undefined, usual: number, min: number, max: number): number {
    if (text === undefined) return usual;
    const number = Number(text);
    if (/^\d{1,10}$/.test(text) && number >= min && number <= max) return number;
    throw this.wrong(`--${option} is '${text}'; it must be a whole number from ${min} to ${max}.`);
  }

  /** What is thrown for wrong words. */
  wrong(sentence: string, cause?: unknown): Failure {
    return new Failure(
      'bad_usage',
      `${sentence.replace(/\.?$/, '.')} See \`npm run ${this.#program} -- --help\`.`,
      cause,
    );
  }
}
