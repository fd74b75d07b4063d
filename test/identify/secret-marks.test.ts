import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { digestOf } from '../../src/identify/api-key.ts';
import { hashedUnder, PepperMarks } from '../../src/identify/secret-marks.ts';
import type { StoredSecret } from '../../src/model/record.ts';
import { someKey } from './some-key.ts';

const [NEW, OLD, GONE] = ['the new pepper', 'the old pepper', 'a removed pepper'];
const marks = new PepperMarks([NEW, OLD]);
/** A secret of the version before, and one of this version. */
const unmarked = (pepper: string): StoredSecret => someKey({}, pepper).key.secrets[0]!;
const marked = (pepper: string): StoredSecret => ({ ...unmarked(pepper), ...hashedUnder(randomBytes(32), pepper) });

describe('the mark of a pepper', () => {
  test.each([
    ['the newest', marked(NEW), 'current'],
    ['another one in use', marked(OLD), 'old'],
    ['one that is not in use', marked(GONE), 'removed'],
    ['none, as the version before writes it', unmarked(NEW), 'unknown'],
    ['that of another digest', { ...marked(NEW), digest: digestOf('s', OLD) }, 'unknown'],
    ['an empty text', { ...marked(NEW), pepper: '' }, 'unknown'],
    ['any text', { ...marked(NEW), pepper: 'x'.repeat(500) }, 'unknown'],
  ])('of %s is %s', (_, secret, expected) => {
    expect(marks.pepperOf(secret)).toBe(expected);
  });

  test('reveals no more of the pepper than a part of its check value', () => {
    const { digest, pepper } = hashedUnder(randomBytes(32), NEW);
    expect(pepper).toHaveLength(14);
    expect(pepper.slice(8)).toBe(digest.slice(0, 6));
  });
});

test('the quick test of a record never takes a secret for a current one that is not (reliability 590)', () => {
  const kinds = [() => marked(NEW), () => marked(OLD), () => marked(GONE), () => unmarked(NEW)];
  const secret = fc
    .tuple(fc.constantFrom(...kinds), fc.string({ maxLength: 4 }), fc.boolean())
    .map(([kind, last4, last]) => {
      const { pepper, ...rest } = { ...kind(), last4 };
      // A secret that is hashed again has the mark behind its other members.
      const mark = pepper === undefined ? {} : { pepper };
      return last ? { ...rest, ...mark } : { ...mark, ...rest };
    });
  fc.assert(
    fc.property(fc.array(secret, { maxLength: 3 }), fc.string(), (secrets, name) => {
      const record = JSON.stringify({ ...someKey().key, name, secrets });
      const areCurrent = secrets.every((one) => marks.pepperOf(one) === 'current');
      if (marks.areAllCurrent(record)) expect(areCurrent).toBe(true);
    }),
  );
  const usual = [marked(NEW), marked(NEW)].map((one) => ({ ...one, last4: 'aB3_' }));
  expect(marks.areAllCurrent(JSON.stringify({ ...someKey().key, secrets: usual }))).toBe(true);
});
