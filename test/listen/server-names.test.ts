import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ServerNames } from '../../src/listen/server-names.ts';
import { newAuthority } from '../support/encrypted.ts';
import { processorMs } from '../support/stopwatch.ts';

test('a client that asks for ever other hosts on a connection costs a few look-ups for each (reliability 566)', async () => {
  const authority = await newAuthority();
  const dns = Array.from({ length: 100 }, (_, i) => `h${i}.example.com`);
  const { cert } = await authority.issue('many', 30, { dns });
  const sources = Array.from({ length: 100 }, () => ({ current: { cert: readFileSync(cert) } }));
  const serves = new ServerNames(sources).servedTo('h1.example.com')!;
  expect([serves('h2.example.com'), serves(null), serves('')]).toEqual([true, true, true]);
  const ms = processorMs(() => {
    for (let i = 0; i < 2_000; i++) serves(`x${i}.${'a'.repeat(4_000)}`);
  });
  expect(ms).toBeLessThan(500);
});

test('without a certificate, before the first is ordered, no host is refused', () => {
  const names = new ServerNames([{ current: null }]);
  expect([names.placeOf('a.example.com'), names.servedTo('a.example.com'), names.servedTo(null)]).toEqual([
    null,
    null,
    null,
  ]);
});
