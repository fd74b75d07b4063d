import { expect, test } from 'vitest';
import { newAuthority } from '../support/encrypted.ts';
import { openGateway } from '../support/gateway.ts';

test('a start with an expired certificate says so once, with its place and what to do', async () => {
  const { cert, key } = await (await newAuthority()).issue('localhost', -1);
  const routes = '\n  - { path: /a, methods: [GET], respond: { status: 200 } }';
  const gateway = await openGateway({ upstream: null, routes, listen: { tls: `{ cert: ${cert}, key: ${key} }` } });
  const said = gateway.process.stdout.split('\n').filter((line) => /ended on|expired/.test(line));
  expect(said).toEqual([expect.stringMatching(/listen\.tls\.cert: ended on \d{4}-\d\d-\d\d\. Replace it/)]);
});
