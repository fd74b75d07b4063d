import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { parsePlans } from '../../src/config/plans.ts';
import { processorMs } from '../support/stopwatch.ts';

const SOUND = 'plans: { free: { limits: { minute: 60 } } }\n';

function placesOf(text: string): readonly string[] {
  const parsed = parsePlans(text, 'plans.yaml');
  return 'faults' in parsed ? parsed.faults.map(({ line, column, path }) => `${line}:${column} ${path}`) : [];
}

describe('reading YAML', () => {
  test('no text makes the check throw, and every fault has a position within the text', () => {
    const words = fc.constantFrom(
      ...[
        'plans:',
        ' ',
        '\n',
        '  ',
        '- ',
        '{',
        '}',
        '[',
        ']',
        ': ',
        'free',
        'limits',
        'minute',
        '60',
        'bans: off',
        '&a',
        '*a',
      ],
      ...[
        '!!str',
        '"',
        "'",
        '|',
        '>',
        '#',
        '%YAML 1.1\n',
        '---\n',
        '...\n',
        '? ',
        '<<',
        '__proto__',
        '\t',
        'routes',
        'path',
        '/a',
      ],
    );
    const text = fc.oneof(
      fc.array(words, { maxLength: 40 }).map((parts) => parts.join('')),
      fc.string({ unit: 'binary' }),
    );
    fc.assert(
      fc.property(text, (source) => {
        const lines = source.split('\n').length;
        for (const parse of [parsePlans, parseGatewayFile]) {
          const parsed = parse(source, 'f.yaml');
          if (!('faults' in parsed)) continue;
          expect(parsed.faults.length).toBeGreaterThan(0);
          for (const { line, column } of parsed.faults) {
            expect(line).toBeGreaterThanOrEqual(1);
            expect(line).toBeLessThanOrEqual(lines + 1);
            expect(column).toBeGreaterThanOrEqual(1);
          }
        }
      }),
      { seed: 20_261_121, numRuns: 400 },
    );
  });

  test('a byte order mark and Windows line ends move no position', () => {
    expect(placesOf(`\uFEFF${SOUND}`)).toEqual([]);
    expect(placesOf('\uFEFFplan: {}\r\nplans:\r\n  free: { limits: { minute: no } }\r\n')).toEqual([
      '1:1 plan',
      '3:29 plans.free.limits.minute',
    ]);
  });

  test('a fault in the YAML does not hide the others', () => {
    expect(placesOf(`${SOUND}bans: { after: 0 }\nbans: off\n`)).toEqual(['2:16 bans.after', '3:1 bans']);
  });

  test('nesting beyond what the stack can take is a fault, not a crash', () => {
    for (const text of ['['.repeat(50_000), '{a: '.repeat(50_000), '- '.repeat(50_000)]) {
      const parsed = parsePlans(text, 'plans.yaml');
      expect('faults' in parsed && parsed.faults[0]?.message).toBe('is nested too deeply to be read.');
    }
  });

  test('twenty thousand faults are told in linear time', () => {
    const text = Array.from({ length: 20_000 }, (_, i) => `key${i}: 1`).join('\n');
    const tookMs = processorMs(() => expect(placesOf(text)).toHaveLength(20_001));
    expect(tookMs).toBeLessThan(4_000);
  });

  test('names that objects have anyway are ordinary names, but for __proto__, which is refused', () => {
    expect(placesOf('plans: { constructor: { limits: { minute: 1 } }, toString: { limits: { day: 1 } } }')).toEqual([]);
    expect(placesOf('plans: { free: { limits: { minute: 1 } }, __proto__: { limits: { minute: 9 } } }')).toEqual([
      '1:43 plans.__proto__',
    ]);
    expect(placesOf('plans: { free: { limits: { constructor: 1 } } }')).toEqual(['1:28 plans.free.limits.constructor']);
  });
});
