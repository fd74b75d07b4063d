import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Description, DescriptionFault, readDescription } from '../../src/config/description.ts';
import { overlaps, programOf } from '../../src/config/description-program.ts';
import { faultOfBody } from '../../src/validate/body.ts';
import { Checks, exportsOf } from '../../src/validate/checks.ts';
import { RequestValidator } from '../../src/validate/validator.ts';
import { ExcessError, OF_BODY, TOO_MUCH, Work } from '../../src/validate/work.ts';
import { temporaryFolder } from '../support/processes.ts';
import { processorMs } from '../support/stopwatch.ts';

async function read(text: string) {
  const file = join(await temporaryFolder(), 'openapi.yaml');
  await writeFile(file, text);
  return readDescription(file, '');
}

/** A description of POST /a with this schema of its body. */
const described = (schema: object, schemas: object = {}, openapi = '3.1.0') =>
  read(
    JSON.stringify({
      openapi,
      paths: { '/a': { post: { requestBody: { required: true, content: { 'application/json': { schema } } } } } },
      components: { schemas },
    }),
  );

async function checkOf(...description: Parameters<typeof described>) {
  const made = await described(...description);
  const { program } = programOf(made as Description, [{ pattern: '/a', methods: ['POST'] }]);
  const validator = new RequestValidator(structuredClone(program));
  const rawHeaders = ['Content-Type', 'application/json'];
  return (body: string) => {
    const head = validator.checkHead('/a', '', { method: 'POST', rawHeaders, hasBody: true });
    if ('rule' in head) throw new Error(head.rule);
    // As in the thread for large bodies.
    const { program: own, name } = head.bodyCheck!;
    const work = new Work();
    const exported = exportsOf(own.code, new Checks(work, own.automata));
    work.begin(OF_BODY);
    try {
      return faultOfBody(exported[name]!, Buffer.from(body), work)?.rule ?? 'fits';
    } catch (error) {
      if (error instanceof ExcessError) return TOO_MUCH;
      throw error;
    }
  };
}

describe('a description that is a bomb is a fault with a sentence (reliability 177)', () => {
  test.each([
    ['aliases', 'openapi: 3.1.0\na: &a [x, x]\nb: [*a, *a]\n', 'anchors are not supported'],
    ['ten megabytes', `openapi: 3.1.0\nx: ${'y'.repeat(10_000_000)}`, 'is larger than 4096 KiB'],
    ['nested YAML', `openapi: 3.1.0\nx: ${'['.repeat(100_000)}`, 'nested deeper than 64'],
    ['nested JSON', `{"openapi":"3.1.0","x":${'['.repeat(100_000)}`, 'nested deeper than 64'],
    ['many parts', `openapi: 3.1.0\nx: [${'1,'.repeat(300_000)}1]`, 'has more than 250000'],
    ['a name twice', '{"openapi":"3.1.0","openapi":"3.0.0"}', 'is there twice'],
    ['Swagger 2.0', 'swagger: "2.0"\npaths: {}', 'convert it to OpenAPI 3'],
    ['something else', 'hello: world', 'must be a version 3.0 or 3.1'],
  ])('%s', async (_what, text, message) => {
    expect(await read(text)).toMatchObject({ fault: { message: expect.stringContaining(message) } });
  });

  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
  const chain = Object.fromEntries(
    Array.from({ length: 60 }, (_, i): [string, object] => [`S${i}`, { allOf: [ref(`S${(i + 1) % 61}`)] }]),
  );
  test.each<[string, object, object, string]>([
    ['a schema that is itself', ref('A'), { A: ref('A') }, 'in a circle'],
    [
      'one that is itself by way of others',
      ref('A'),
      { A: { allOf: [ref('B')] }, B: { anyOf: [ref('A')] } },
      'refers to itself',
    ],
    ['a long chain', ref('S0'), { ...chain, S60: {} }, 'more than 32 references'],
    ['another file', { $ref: '/etc/passwd' }, {}, 'only references within the file'],
    ['the network', { $ref: 'http://169.254.169.254/latest' }, {}, 'only references within the file'],
    ['a reference to nothing', ref('Nothing'), {}, 'which is not there'],
    ['look-around', { pattern: '(?=a)' }, {}, 'no look-around'],
    [
      'a pattern of a large program',
      { pattern: '^.+@.{1,1000}.{1,1000}.{1,1000}.{1,1000}.{1,1000}.{1,1000}$' },
      {},
      'and may take 10000',
    ],
    ['an unknown format', { format: 'phone' }, {}, 'is not a format'],
    ['an unknown keyword', { minLenght: 1 }, {}, 'is no keyword'],
    ['a wrong value', { minLength: 'x' }, {}, 'is not what this keyword takes'],
  ])('%s', async (_what, schema, schemas, message) => {
    await expect(checkOf(schema, schemas)).rejects.toThrow(DescriptionFault);
    await expect(checkOf(schema, schemas)).rejects.toThrow(message);
  });

  test('values of the file are no code', async () => {
    const hostile = '"+process.exit(7)+"\u2028`$' + '{process.exit(7)}`*/process.exit(7)//';
    const check = await checkOf({ properties: { [hostile]: { enum: [hostile] } }, required: [hostile] });
    expect(check(JSON.stringify({ [hostile]: hostile }))).toBe('fits');
    expect(check(JSON.stringify({ [hostile]: 1 }))).toContain('must be one of');
  });
});

describe('a body that would take long to check does not (reliability 176)', () => {
  const quickly = async (schema: object, schemas: object, body: string) => {
    const check = await checkOf(schema, schemas);
    let rule: string | undefined;
    expect(processorMs(() => (rule = check(body)))).toBeLessThan(3_000);
    return rule;
  };

  test('patterns that backtrack', async () => {
    expect(await quickly({ pattern: '^(a+)+$' }, {}, JSON.stringify(`${'a'.repeat(16_000)}!`))).toContain('must match');
    expect(await quickly({ pattern: '^(a+)+$' }, {}, JSON.stringify('a'.repeat(17_000)))).toContain('too much work');
    expect(await quickly({ patternProperties: { '^(a+)+$': false } }, {}, `{"${'a'.repeat(17_000)}":1}`)).toContain(
      'too much work',
    );
  });

  test('alternatives within alternatives', async () => {
    const next = (op: string) => ({ properties: { next: { $ref: '#/components/schemas/E' }, op: { const: op } } });
    const body = `${'{"op":"z","next":'.repeat(60)}1${'}'.repeat(60)}`;
    const schema = { oneOf: [next('a'), next('b'), next('c'), { type: 'integer' }] };
    expect(await quickly(schema, { E: schema }, body)).toContain('too much work');
  });

  test('items that must differ, and long lists of allowed values', async () => {
    const objects = `[${Array.from({ length: 60_000 }, (_, i) => `{"a":${i}}`).join()}]`;
    expect(await quickly({ uniqueItems: true }, {}, objects)).toBe('fits');
    const many = Array.from({ length: 5_000 }, (_, i) => `value ${i}`);
    expect(await quickly({ items: { enum: many } }, {}, `[${'"value 4999",'.repeat(50_000)}"x"]`)).toContain(
      'must be one of',
    );
  });

  test('formats', async () => {
    for (const format of ['email', 'uri', 'hostname', 'duration', 'date-time', 'byte']) {
      await quickly({ format }, {}, JSON.stringify(`a@${'a-'.repeat(400_000)}!`));
    }
  });
});

describe('a pattern without a small automaton costs its program for each character (reliability 207)', () => {
  const EMAIL = '^.+@.{1,255}$';
  const made = async (schema: object) => {
    const description = (await described(schema)) as Description;
    return programOf(description, [{ pattern: '/a', methods: ['POST'] }]);
  };

  test('it draws a warning with its place and what to do', async () => {
    const { program, warnings } = await made({ properties: { to: { pattern: EMAIL }, sort: { pattern: '^[a-z]+$' } } });
    expect(warnings).toEqual([
      {
        at: '/paths/~1a/post/requestBody/content/application~1json/schema/properties/to/pattern',
        message: expect.stringMatching(
          /takes 516 steps .* texts of more than 1937 characters are refused\. Drop the counted repeat/,
        ),
      },
    ]);
    expect(program.automata).toEqual(['^[a-z]+$']);
  });

  test('a text that is too long for it is refused, and one that is not is checked', async () => {
    const check = await checkOf({ items: { pattern: EMAIL } });
    const text = (length: number) => JSON.stringify(`${'a'.repeat(length - 4)}@b.c`);
    expect(check(`[${text(20)},${text(1_937)}]`)).toBe('fits');
    expect(check(`[${text(1_938)}]`)).toBe(TOO_MUCH);
    expect(check('["a.b"]')).toBe(`must match the pattern ${EMAIL}.`);
    // 16,000,000 steps are as many as 16 such texts take.
    expect(check(`[${Array.from({ length: 17 }, () => text(1_937)).join()}]`)).toBe(TOO_MUCH);
  });

  test('in parameters, too, of which all of a request have one bound', async () => {
    const parameters = ['a', 'b'].map((name) => ({ name, in: 'query', schema: { pattern: EMAIL } }));
    const description = await read(JSON.stringify({ openapi: '3.1.0', paths: { '/a': { get: { parameters } } } }));
    const { program } = programOf(description as Description, [{ pattern: '/a', methods: ['GET'] }]);
    const validator = new RequestValidator(program);
    const check = (query: string) => {
      const checked = validator.checkHead('/a', query, { method: 'GET', rawHeaders: [], hasBody: false });
      return 'rule' in checked ? checked.rule : 'fits';
    };
    const text = `${'x'.repeat(500)}@b.c`;
    expect(check(`a=${text}`)).toBe('fits');
    expect(check(`a=${text}&b=${text}`)).toBe(TOO_MUCH);
  });
});

describe('what differs between the versions', () => {
  test.each<[string, object, string, string]>([
    ['3.0.3', { type: 'string', nullable: true }, 'null', 'fits'],
    ['3.1.0', { type: ['string', 'null'] }, 'null', 'fits'],
    ['3.0.3', { type: 'integer', minimum: 1, exclusiveMinimum: true }, '1', 'must be above 1.'],
    ['3.1.0', { type: 'integer', exclusiveMinimum: 1 }, '1', 'must be above 1.'],
    ['3.0.3', { $ref: '#/components/schemas/Any', minLength: 5 }, '"x"', 'fits'],
    ['3.1.0', { $ref: '#/components/schemas/Any', minLength: 5 }, '"x"', 'must have at least 5 characters.'],
    ['3.1.0', { required: ['id'], properties: { id: { readOnly: true } } }, '{}', 'fits'],
  ])('%s %j', async (version, schema, body, rule) => {
    expect((await checkOf(schema, { Any: {} }, version))(body)).toBe(rule);
  });
});

test('each text is checked by its own pattern, of two in one description', async () => {
  const check = await checkOf({ properties: { a: { pattern: '^a+$' }, b: { pattern: '^b+$' } } });
  expect(check('{"a":"aa","b":"bb"}')).toBe('fits');
  expect(check('{"a":"aa","b":"aa"}')).toBe('must match the pattern ^b+$.');
  expect(check('{"a":"bb","b":"bb"}')).toBe('must match the pattern ^a+$.');
});

test('an int64 is within its range to the last digit', async () => {
  const check = await checkOf({ type: 'integer', format: 'int64' });
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n }), (whole) => {
      expect(check(String(whole)) === 'fits').toBe(BigInt.asIntN(64, whole) === whole);
    }),
  );
  for (const [text, fits] of [
    [`${2n ** 63n - 1n}`, true],
    [`${2n ** 63n}`, false],
    [`${-(2n ** 63n)}`, true],
    ['1.5', false],
    ['1.0', true],
  ] as const) {
    expect(check(text) === 'fits').toBe(fits);
  }
});

test.each([
  ['/v1/**', ['v1'], false],
  ['/v1/**', ['v2', 'a'], false],
  ['/v1/**', ['v1', 'a'], true],
  ['/v1/{id}', ['v1', 'a'], true],
  ['/v1/caf%C3%A9', ['v1', 'café'], true],
  ['/v1/a', ['v1', null], true],
  ['/v1/a', ['v1', 'a', null], false],
])('the pattern %s and the path %j overlap: %s', (pattern, segments, expected) => {
  expect(overlaps(pattern, { segments })).toBe(expected);
});
