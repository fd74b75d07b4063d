import fc from 'fast-check';
import { expect, test } from 'vitest';
import { yamlParts } from '../../src/admin/console/page/kit/yaml-parts.ts';

test.each([
  ['# a comment', 'comment:# a comment'],
  ['plans:', 'key:plans sign::'],
  [
    '  free: { limits: { minute: 60 } }',
    'key:free sign:: sign:{ key:limits sign:: sign:{ key:minute sign:: number:60 sign:} sign:}',
  ],
  ['- /v1/pets/{petId} # one', 'sign:- text:/v1/pets/ sign:{ text:petId sign:} comment:# one'],
  ['within: 1m', 'key:within sign:: text:1m'],
  [`zone: 'Europe/Berlin'`, `key:zone sign:: text:'Europe/Berlin'`],
  ['"a b": true', 'key:"a b" sign:: number:true'],
  ['url: http://host:80/a#b', 'key:url sign:: text:http://host:80/a#b'],
  ['open: "never closed', 'key:open sign:: text:"never closed'],
])('%s has the parts %s', (line, parts) => {
  const shown = yamlParts(line).filter(({ kind }) => kind !== 'plain');
  expect(shown.map(({ kind, text }) => `${kind}:${text}`).join(' ')).toBe(parts);
});

test('the parts of a line are the line', () => {
  const line = fc.string({ unit: fc.constantFrom(...`ab1 :#-{}[],"'\t\n\u00a0🐈`) });
  fc.assert(
    fc.property(
      line,
      (one) =>
        yamlParts(one)
          .map(({ text }) => text)
          .join('') === one,
    ),
  );
});

test('a line of 2,001 characters has no colours', () => {
  expect(yamlParts('a: '.repeat(667)).map(({ kind }) => kind)).toEqual(['plain']);
});
