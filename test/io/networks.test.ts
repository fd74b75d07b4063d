import { describe, expect, test } from 'vitest';
import { faultOfNetwork, Networks, oneFormOfNetwork } from '../../src/io/networks.ts';

describe('a list of addresses is read in one way only; what others may read otherwise is a fault (reliability 271)', () => {
  test.each([
    ['an octal part', '010.0.0.1'],
    ['an octal part in a network', '10.00.0.0/8'],
    ['a hexadecimal part', '0x0a.0.0.1'],
    ['one number', '167772161'],
    ['three parts', '10.0.1'],
    ['five parts', '10.0.0.0.1'],
    ['a part above 255', '10.0.0.256'],
    ['a prefix with a leading zero', '10.0.0.0/08'],
    ['a prefix above 32', '10.0.0.0/33'],
    ['a prefix above 128', '2001:db8::/129'],
    ['a negative prefix', '10.0.0.0/-1'],
    ['an empty prefix', '10.0.0.0/'],
    ['two prefixes', '10.0.0.0/8/8'],
    ['a netmask', '10.0.0.0/255.0.0.0'],
    ['a range', '10.0.0.1-10.0.0.9'],
    ['a wildcard', '10.0.0.*'],
    ['a port', '10.0.0.1:80'],
    ['brackets', '[2001:db8::1]'],
    ['blanks', ' 10.0.0.1'],
    ['a name', 'localhost'],
    ['two gaps', '2001::db8::1'],
    ['nothing', ''],
  ])('%s', (_name, text) => {
    expect(faultOfNetwork(text)).toBe(
      'must be an IP address or network, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32',
    );
  });

  test.each([
    ['host bits', '10.1.2.3/8', '10.0.0.0/8'],
    ['host bits within a byte', '192.0.2.129/26', '192.0.2.128/26'],
    ['host bits of all', '192.0.2.1/0', '0.0.0.0/0'],
    ['host bits of IPv6', '2001:db8::1/32', '2001:db8::/32'],
    ['host bits within a group', '2001:db8:ffff::/35', '2001:db8:e000::/35'],
    ['an IPv4-mapped address', '::ffff:192.0.2.7', '192.0.2.7'],
    ['an IPv4-mapped address in hexadecimal', '::ffff:c000:207', '192.0.2.7'],
    ['an IPv4-mapped network', '::ffff:10.0.0.0/104', '10.0.0.0/8'],
    ['an IPv4-mapped network with host bits', '::ffff:10.1.2.3/104', '10.0.0.0/8'],
    ['all IPv4-mapped addresses', '::ffff:0:0/96', '0.0.0.0/0'],
    ['a zone id', 'fe80::1%eth0', 'fe80::1'],
  ])('%s: the right spelling is named', (_name, text, right) => {
    expect(faultOfNetwork(text)).toMatch(/^must be /);
    expect(faultOfNetwork(text)!.endsWith(`: ${right}`)).toBe(true);
    expect(faultOfNetwork(right)).toBeNull();
  });

  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['192.0.2.7/32', '192.0.2.7/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['::/0', '::/0'],
    ['2001:0DB8:0:0::/32', '2001:db8::/32'],
    ['::192.0.2.7', '::c000:207'],
  ])('%s is written %s', (text, form) => {
    expect(faultOfNetwork(text)).toBeNull();
    expect(oneFormOfNetwork(text)).toBe(form);
    expect(faultOfNetwork(form)).toBeNull();
  });
});

test('an address without a prefix is one address, and the ends of a network belong to it', () => {
  const one = new Networks(['192.0.2.7', '2001:db8::7']);
  expect(['192.0.2.6', '192.0.2.7', '192.0.2.8', '2001:db8::7', '2001:db8::8'].filter((text) => one.has(text))).toEqual(
    ['192.0.2.7', '2001:db8::7'],
  );
  const network = new Networks(['192.0.2.128/26']);
  const ends = ['192.0.2.127', '192.0.2.128', '192.0.2.191', '192.0.2.192'];
  expect(ends.filter((text) => network.has(text))).toEqual(['192.0.2.128', '192.0.2.191']);
});
