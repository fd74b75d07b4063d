import { pino } from 'pino';

/** The longest JSON of an error in a line, in characters. A longer one keeps the beginnings of its message and its stack. */
const MAX_JSON = 32 * 1024;
const MAX_MESSAGE = 1_000;
const MAX_STACK = 8_000;

/**
 * The member `err` of a line, of whatever was thrown.
 *
 * Attack: code of the operator throws a value of any kind, and the line about it is written later, where nothing catches: a getter
 * that throws, a frozen error, one that contains itself, a message of megabytes. So what is returned is plain, short, and
 * read here, once.
 */
export function loggedError(error: unknown): unknown {
  try {
    const json = JSON.stringify(pino.stdSerializers.err(error as Error));
    if (json !== undefined && json.length <= MAX_JSON) return JSON.parse(json);
  } catch {
    // Its parts are read one by one below.
  }
  const type = beginning(() => (error as Error).name, MAX_MESSAGE) ?? typeof error;
  const message = beginning(() => (error as Error).message, MAX_MESSAGE) ?? beginning(() => String(error), MAX_MESSAGE);
  const stack = beginning(() => (error as Error).stack, MAX_STACK);
  return { type, message: message ?? 'a value without a text', ...(stack === undefined ? {} : { stack }) };
}

/** @returns undefined if it is no text, or cannot be read */
function beginning(read: () => unknown, most: number): string | undefined {
  try {
    const text = read();
    return typeof text === 'string' ? text.slice(0, most) : undefined;
  } catch {
    return undefined;
  }
}
