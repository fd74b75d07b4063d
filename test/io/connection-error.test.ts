import { expect, test } from 'vitest';
import { messageOf } from '../../src/io/connection-error.ts';

test('the message of several attempts has that of each, because their own is empty', () => {
  const attempts = ['connect ECONNREFUSED ::1:80', 'connect ECONNREFUSED 127.0.0.1:80'];
  expect(messageOf(new AggregateError(attempts.map((message) => new Error(message))))).toBe(attempts.join(', '));
  expect(messageOf(new Error('one'))).toBe('one');
});
