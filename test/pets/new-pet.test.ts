import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN, membersOf, PET_STATUSES, parseNewPet, toJson } from '../../src/pets/pet.ts';

const SEED = { seed: 8, numRuns: 500 };
const parseText = (text: string) => parseNewPet(Buffer.from(text));
const faultOf = (text: string | Uint8Array) => {
  const parsed = parseNewPet(Buffer.from(text as string));
  return parsed.ok ? null : parsed.fault;
};

describe('members of a JSON object', () => {
  test('are the ones JSON.parse finds, however the text is spaced and nested', () => {
    const objects = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ stringUnit: 'binary' }));
    fc.assert(
      fc.property(objects, fc.constantFrom(undefined, 1, '\t', ' \n'), (object, space) => {
        const text = JSON.stringify(object, null, space);
        const members = membersOf(`\r\n ${text}\t`);
        if (!members.ok) throw new Error(members.fault);
        expect(members.value.map(({ name }) => name)).toEqual(Object.keys(JSON.parse(text)));
        for (const { name, source } of members.value) {
          expect(JSON.stringify(JSON.parse(source))).toBe(JSON.stringify(object[name]));
        }
      }),
      SEED,
    );
  });

  test('keep both of two equal names, also when one is written with escapes', () => {
    expect(membersOf('{"a":1,"\\u0061" : [ {"b":"}"} , "\\"" ] ,"__proto__":2}')).toEqual({
      ok: true,
      value: [
        { name: 'a', source: '1' },
        { name: 'a', source: '[ {"b":"}"} , "\\"" ]' },
        { name: '__proto__', source: '2' },
      ],
    });
  });

  test.each(['', '{', '{"a":1,}', "{'a':1}", '{"a":01}', '{"a":NaN}', '{} {}', '{"a":"\n"}', '\u00a0{}'])(
    '%j is not JSON',
    (text) => expect(membersOf(text)).toEqual({ ok: false, fault: 'The body is not valid JSON.' }),
  );

  test.each(['[]', 'null', '1', '"{}"', 'true', '[{"name":"A","categoryId":1}]'])('%s is not an object', (text) => {
    expect(membersOf(text).ok).toBe(false);
  });
});

describe('the body that adds an animal', () => {
  test('gives back every allowed animal unchanged', () => {
    const name = fc
      .string({ unit: 'binary', minLength: 1, maxLength: 255 })
      .filter((text) => text.isWellFormed() && !text.includes('\0') && [...text].length <= 255);
    const pet = fc.record({
      name,
      categoryId: fc.bigInt({ min: INT64_MIN, max: INT64_MAX }),
      status: fc.constantFrom(...PET_STATUSES),
    });
    fc.assert(
      fc.property(pet, (value) => {
        expect(parseText(toJson(value))).toEqual({ ok: true, value });
      }),
      SEED,
    );
  });

  test('never throws, whatever the bytes', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 64 }),
      fc.json().map((text) => Buffer.from(text)),
    );
    fc.assert(
      fc.property(bytes, (body) => void parseNewPet(body)),
      SEED,
    );
  });

  test('has status available when it names none', () => {
    expect(parseText('{"categoryId":1,"name":"Rex"}')).toEqual({
      ok: true,
      value: { name: 'Rex', categoryId: 1n, status: 'available' },
    });
  });

  test.each([
    ['{"categoryId":1}', 'name'],
    ['{"name":null,"categoryId":1}', 'name'],
    ['{"name":7,"categoryId":1}', 'name'],
    ['{"name":["x"],"categoryId":1}', 'name'],
    ['{"name":"","categoryId":1}', 'name'],
    [`{"name":"${'x'.repeat(256)}","categoryId":1}`, 'name'],
    [`{"name":"${'🐈'.repeat(256)}","categoryId":1}`, 'name'],
    ['{"name":"a\\u0000b","categoryId":1}', 'name'],
    ['{"name":"\\ud83d","categoryId":1}', 'name'],
    ['{"name":"A"}', 'categoryId'],
    ['{"name":"A","categoryId":null}', 'categoryId'],
    ['{"name":"A","categoryId":"1"}', 'categoryId'],
    ['{"name":"A","categoryId":1.0}', 'categoryId'],
    ['{"name":"A","categoryId":1e3}', 'categoryId'],
    ['{"name":"A","categoryId":-0}', 'categoryId'],
    ['{"name":"A","categoryId":true}', 'categoryId'],
    ['{"name":"A","categoryId":9223372036854775808}', 'categoryId'],
    ['{"name":"A","categoryId":-9223372036854775809}', 'categoryId'],
    ['{"name":"A","categoryId":1,"status":"lost"}', 'status'],
    ['{"name":"A","categoryId":1,"status":null}', 'status'],
    ['{"name":"A","categoryId":1,"status":"Sold"}', 'status'],
    ['{"name":"A","categoryId":1,"status":["sold"]}', 'status'],
    ['{"name":"A","categoryId":1,"id":7}', 'id'],
    ['{"name":"A","categoryId":1,"__proto__":{"status":"sold"}}', '__proto__'],
    ['{"name":"A","categoryId":1,"constructor":1}', 'constructor'],
    ['{"name":"A","categoryId":1,"categoryId":2}', 'categoryId'],
    ['{"name":"A","categoryId":1,"n\\u0061me":"B"}', 'name'],
  ])('%s is refused with a sentence that names %s', (body, field) => {
    expect(faultOf(body)).toMatch(new RegExp(`^"?${field}"? (is|must) .*\\.$`));
  });

  test('a name of 255 characters is taken, counted in code points', () => {
    expect(faultOf(`{"name":"${'🐈'.repeat(255)}","categoryId":1}`)).toBeNull();
  });

  test('an unknown name is quoted in part only, so that no answer grows with its request', () => {
    expect(faultOf(`{"${'x'.repeat(500_000)}":1}`)?.length).toBeLessThan(200);
  });

  test('bytes that are not UTF-8 are refused, a byte order mark is not', () => {
    expect(faultOf(Buffer.from('{"name":"\xff","categoryId":1}', 'latin1'))).toBe('The body is not valid UTF-8.');
    expect(faultOf('\ufeff{"name":"A","categoryId":1}')).toBeNull();
  });

  test('half a megabyte of nesting is refused like any other wrong value', () => {
    const deep = `${'['.repeat(250_000)}${']'.repeat(250_000)}`;
    expect(faultOf(`{"name":${deep},"categoryId":1}`)).toBe('name must be a string.');
  });
});
