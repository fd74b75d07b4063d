import { VALUE } from './answer-head.ts';

/**
 * Fields as lines, each with its end. Attack: a line break in a field would begin a field, or a whole message, of
 * somebody else's choosing (splitting). What comes here was checked when it was read; this is where nothing gets past.
 * @param fields name and value in turn
 * @throws TypeError where a character could not be sent, or would be read as another
 */
export function linesOf(fields: readonly string[]): string {
  for (let i = 0; i < fields.length; i += 2) assertSendable(fields[i]!, fields[i]!);
  return answerLinesOf(fields);
}

/** The same for fields whose names are the gateway's own, or were read as names: a third of the work is looking at them. */
export function answerLinesOf(fields: readonly string[]): string {
  let lines = '';
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i]!, fields[i + 1]!];
    assertSendable(value, name);
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

function assertSendable(text: string, name: string): void {
  if (!VALUE.test(text)) throw new TypeError(`a control byte or a wide character in ${name}`);
}
