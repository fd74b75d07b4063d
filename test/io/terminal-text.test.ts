import { expect, test } from 'vitest';
import { escapedText } from '../../src/io/terminal-text.ts';

test.each([
  ['\x1b[31mred', '\\u{1b}[31mred'],
  ['\x1b]8;;http://x\x1b\\link', '\\u{1b}]8;;http://x\\u{1b}\\link'],
  ['\x9b2J', '\\u{9b}2J'],
  ['a\r\nb', 'a\\u{d}\\u{a}b'],
  ['abc\u202edef', 'abc\\u{202e}def'],
  ['漢字 😀', '漢字 😀'],
])('%j is printed as %j', (text, shown) => {
  expect(escapedText(text)).toBe(shown);
});
