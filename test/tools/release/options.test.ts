import { expect, test } from 'vitest';
import { readOptions } from '../../../tools/release/options.ts';

test.each([
  [['out'], { folder: 'out', image: true }],
  [['out', '--no-image'], { folder: 'out', image: false }],
  [['--help'], null],
])('build:release takes %j', (args, options) => {
  expect(readOptions(args)).toEqual(options);
});

test.each([
  [[], 'It takes one folder. See `npm run build:release -- --help`.'],
  [['a', 'b'], 'It takes one folder. See'],
  [['a', '--images'], "Unknown option '--images'. See"],
])('build:release refuses %j', (args, message) => {
  expect(() => readOptions(args)).toThrow(message);
});
