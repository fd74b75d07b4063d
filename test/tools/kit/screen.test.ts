import { expect, test } from 'vitest';
import { LiveLines } from '../../../tools/kit/screen.ts';

function screenOf(isTerminal: boolean) {
  const written: string[] = [];
  const write = (text: string) => void written.push(text);
  return { written, live: new LiveLines({ isTerminal, colours: false, columns: () => 10, write }) };
}

test('lines replace those before, cut to the width of the terminal, which escape sequences do not take from', () => {
  const { written, live } = screenOf(true);
  live.draw(['0123456789', 'b']);
  live.draw(['\x1b[36m01\x1b[39m23456789']);
  expect(written).toEqual(['012345678\nb\n', '\x1b[2A\x1b[0J', '\x1b[36m01\x1b[39m2345678\n']);
});

test('what stays is printed in their place', () => {
  const { written, live } = screenOf(true);
  live.draw(['at work']);
  live.print('done\n');
  live.erase();
  expect(written).toEqual(['at work\n', '\x1b[1A\x1b[0J', 'done\n']);
});

test('where there is no terminal, only what stays is printed', () => {
  const { written, live } = screenOf(false);
  live.draw(['at work']);
  live.print('done\n');
  expect(written).toEqual(['done\n']);
});
