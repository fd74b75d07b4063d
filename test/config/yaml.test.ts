import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { printFault } from '../../src/config/fault.ts';
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { parsePlans } from '../../src/config/plans-schema.ts';
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

  // Attack (reliability 160): a text that takes a thousand times its size to be read ends a gateway of 512 MB, or stops it.
  const LARGEST = 512 * 1024;
  const filled = (part: string) => part.repeat(LARGEST / part.length);
  const firstOf = (text: string) => {
    const parsed = parsePlans(text, 'plans.yaml');
    return 'faults' in parsed ? [parsed.faults.length, parsed.faults[0]!.line, parsed.faults[0]!.message] : [];
  };

  test.each(['[', '{a: ', '- ', '? ', 'a: ', '[{'])(
    'levels without end, each %j, are refused where they go too deep',
    (level) => {
      const text = `# A line before it.\n${filled(level)}`;
      const tookMs = processorMs(() => expect(firstOf(text)).toEqual([1, 2, 'is nested deeper than 32 levels.']));
      expect(tookMs).toBeLessThan(1_000);
    },
  );

  test.each([
    ['empty lists', `a: [${filled('[],')}]`],
    ['empty items', filled('-\n')],
    ['keys', filled('? a\n: b\n')],
  ])('%s without end are refused where they are too many', (_, text) => {
    const [faults, , message] = firstOf(text);
    expect([faults, message]).toEqual([1, 'has more than 200000 names, values and marks, the most that are read.']);
  });

  test('what stands behind the second document or the first error is not even read', () => {
    for (const text of [filled('---\na: 1\n'), filled(']'), filled('...\n')]) {
      expect(processorMs(() => expect(placesOf(text).length).toBeGreaterThan(0))).toBeLessThan(1_000);
    }
  });

  test('the largest file of plans is sound (reliability 160)', () => {
    let text = 'plans:\n';
    for (let i = 0; text.length < LARGEST - 60; i++) text += `  plan${i}: { limits: { minute: 60, day: 1000 } }\n`;
    expect(placesOf(text)).toEqual([]);
  });

  test('twenty thousand faults are told in linear time', () => {
    const text = Array.from({ length: 20_000 }, (_, i) => `key${i}: 1`).join('\n');
    const tookMs = processorMs(() => expect(placesOf(SOUND + text)).toHaveLength(20_000));
    expect(tookMs).toBeLessThan(4_000);
  });

  test('so are ten thousand routes to none of ten thousand upstreams, whose names are not all told with each', () => {
    const many = (what: (i: number) => string) => Array.from({ length: 10_000 }, (_, i) => what(i)).join(', ');
    const text = `upstreams: { ${many((i) => `u${i}: 1`)} }\nroutes: [${many(() => '{ upstream: x }')}]`;
    const tookMs = processorMs(() => {
      const parsed = parseGatewayFile(text, 'gateway.yaml');
      const told = 'faults' in parsed ? parsed.faults.map(({ message }) => message) : [];
      expect(told).toContainEqual(expect.stringMatching(/it must be u0 or u1 .* or u9 or one of 9990 others\.$/));
    });
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

test.each([
  ['a text where a mapping belongs', 'headers: { request: { set: "Authorization:Bearer SECRET" } }'],
  ['a key with a colon in it', 'headers: { request: { set: { "Authorization: Bearer SECRET": x } } }'],
  ['a text where a list belongs', 'methods: SECRET'],
])('a fault does not quote %s: it may be a secret', (_, member) => {
  const route = `{ path: /v1/pets, upstream: store, ${member} }`;
  const text = `upstreams: { store: { targets: ["http://127.0.0.1:9"] } }\nroutes: [${route}]\n`;
  const read = parseGatewayFile(text, 'gateway.yaml');
  const lines = ('faults' in read ? read.faults : []).map(printFault);
  expect(lines).not.toEqual([]);
  expect(lines.join('\n')).not.toContain('SECRET');
});
