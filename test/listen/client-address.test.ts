import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { ClientAddresses } from '../../src/listen/client-address.ts';

const from = (peer: string, trusted: string[], ...forwardedFor: string[]) =>
  new ClientAddresses(trusted).of({
    socket: { remoteAddress: peer },
    rawHeaders: forwardedFor.flatMap((value) => ['X-Forwarded-For', value]),
  } as unknown as IncomingMessage).address;

test.each([
  ['the peer, whatever it says, where nobody is trusted', '192.0.2.1', [], ['10.0.0.1'], '192.0.2.1'],
  ['the peer, when another is trusted', '192.0.2.1', ['192.0.2.2'], ['10.0.0.1'], '192.0.2.1'],
  ['what a trusted peer says', '10.0.0.1', ['10.0.0.0/8'], ['192.0.2.1'], '192.0.2.1'],
  [
    'the first from the right that is not trusted',
    '10.0.0.1',
    ['10.0.0.0/8'],
    ['6.6.6.6, 192.0.2.1, 10.0.0.2'],
    '192.0.2.1',
  ],
  ['over several lines', '10.0.0.1', ['10.0.0.0/8'], ['6.6.6.6', '192.0.2.1', '10.0.0.2'], '192.0.2.1'],
  ['the last that can be read', '10.0.0.1', ['10.0.0.0/8'], ['192.0.2.1, unknown, 10.0.0.2'], '10.0.0.2'],
  ['the first hop where all are trusted', '10.0.0.1', ['10.0.0.0/8'], ['10.0.0.3, 10.0.0.2'], '10.0.0.3'],
  ['the peer where it says nothing', '10.0.0.1', ['10.0.0.0/8'], [], '10.0.0.1'],
  ['an IPv4-mapped peer as IPv4', '::ffff:192.0.2.1', [], [], '192.0.2.1'],
  ['an IPv4-mapped peer, trusted by its IPv4 form', '::ffff:10.0.0.1', ['10.0.0.1'], ['192.0.2.1'], '192.0.2.1'],
  ['an IPv4-compatible peer as the IPv6 address that it is', '::192.0.2.1', [], [], '::c000:201'],
  ['IPv6 in one form', '2001:DB8:0:0::1', [], [], '2001:db8::1'],
  ['without its zone', 'fe80::1%eth0', [], [], 'fe80::1'],
  ['without a port', '10.0.0.1', ['10.0.0.1'], ['192.0.2.1:555'], '192.0.2.1'],
  ['IPv6 without a port', '10.0.0.1', ['10.0.0.1'], ['[2001:db8::1]:443'], '2001:db8::1'],
  ['nothing that others read in another base', '10.0.0.1', ['10.0.0.1'], ['010.1.1.1'], '10.0.0.1'],
  ['nothing that is half an address', '10.0.0.1', ['10.0.0.1'], ['10'], '10.0.0.1'],
  ['nothing behind a bracket', '10.0.0.1', ['10.0.0.1'], ['[2001:db8::1]evil'], '10.0.0.1'],
  ['without brackets', '::1', ['::1'], ['[2001:db8::1]'], '2001:db8::1'],
  ['the peer where the chain is broken', '10.0.0.1', ['10.0.0.0/8'], [';,,', ', ,'], '10.0.0.1'],
  ['the peer where the chain is empty', '10.0.0.1', ['10.0.0.0/8'], [''], '10.0.0.1'],
  ['found behind 200 hops', '10.0.0.1', ['10.0.0.0/8'], [`192.0.2.1${', 10.0.0.2'.repeat(200)}`], '192.0.2.1'],
  ['the last hop before a lie', '10.0.0.1', ['10.0.0.0/8'], ['192.0.2.1, 10.0.0.300, 10.0.0.2'], '10.0.0.2'],
  ['nobody’s prototype', '10.0.0.1', ['10.0.0.0/8'], ['[::1], __proto__, ['], '10.0.0.1'],
])('the client is %s (reliability 31, 32)', (_what, peer, trusted, forwardedFor, address) => {
  expect(from(peer, trusted, ...forwardedFor)).toBe(address);
});
