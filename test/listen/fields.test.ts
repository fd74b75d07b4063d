import { attackedGateway, type Refused } from './attacks.ts';

// Attacks on field lines (RFC 9112 sections 2.2 and 5): a line that is one field to one parser, two or none to another.

const world = attackedGateway();
const get = (fields: string) => `GET /v1/pets HTTP/1.1\r\n${world.own()}${fields}\r\n\r\n`;
const post = (fields: string) => `POST /v1/pets HTTP/1.1\r\n${world.own()}Content-Length: 2\r\n${fields}\r\n\r\n{}`;
const field = (text: string): Refused => [JSON.stringify(text), () => get(text)];
const head = (what: string, change: (good: string) => string): Refused => [what, () => change(get('X-A: b'))];

world.refuses('A bare CR or LF that hides a field from the proxy before us (reliability 16)', [
  ...['X-A: b\nX-Consumer-Id: root', 'X-A: b\rX-Consumer-Id: root', 'X-A: b\r\r\nX-B: c', 'X-A: b\n\rX-B: c'].map(
    field,
  ),
  ...['X-A: b\r', 'X-A:\rb', 'X-A\r: b', 'X-A\n: b', 'X-A: b\r\n\nGET /v1/pets?smuggled HTTP/1.1'].map(field),
  head('only line feeds', (good) => good.replaceAll('\r\n', '\n')),
  head('only carriage returns before the fields', (good) => good.replace('\r\n', '\r')),
  head('a bare LF behind the request line', (good) => good.replace('\r\n', '\n')),
  head('two carriage returns behind the request line', (good) => good.replace('\r\n', '\r\r\n')),
  head('a bare LF as the end of the head', (good) => good.replace('\r\n\r\n', '\r\n\n')),
  head('a bare CR in the end of the head', (good) => good.replace('\r\n\r\n', '\r\n\r\r\n')),
]);

world.refuses('A folded field: its second line is a field of its own to some (reliability 17)', [
  ...['X-A: b\r\n c', 'X-A: b\r\n\tc', 'X-A:\r\n b', 'X-A: b\r\n ', 'X-A: b\r\n \r\n c'].map(field),
  ...['X-A: b\r\n Content-Length: 5', 'X-A: b\r\n\tTransfer-Encoding: chunked'].map(field),
  head('a folded Host', (good) => good.replace('Host: a', 'Host:\r\n a')),
  head('a folded key', (good) => good.replace('Bearer ', 'Bearer\r\n ')),
]);

world.refuses('A field without a name: to some parsers the head ends there (reliability 18)', [
  ...[': b', ':', ' : b', ': ', ':: b', 'X-A: b\r\n: c\r\nX-B: d'].map(field),
]);

world.refuses('A line that is no field, which a lenient parser skips or joins to the next (reliability 19)', [
  ...['X-A', 'X-A b', 'X A: b', 'X-A : b', 'X-A\t: b', ' X-A: b', '\tX-A: b', 'X(A): b', 'X/A: b', 'X@A: b'].map(field),
  ...['X=A: b', 'X[A: b', 'X{A: b', 'X,A: b', 'X;A: b', '"X-A": b', '\xffX: b', 'X\xc3\xa9: b', 'X-A\x00: b'].map(
    field,
  ),
  ...['X-A: b\x00c', 'X-A: \x00', 'X-A: b\x01', 'X-A: b\x0b', 'X-A: b\x1b[31m', 'X-A: b\x7f', 'X-A: b\x08'].map(field),
  ...['Host : b', 'Host\t: b', 'Content\rLength: 5', 'Content-Length\x0b: 5'].map(field),
  head('a space before the first field', (good) => good.replace('\r\nHost', '\r\n Host')),
  head('a tab before the first field', (good) => good.replace('\r\nHost', '\r\n\tHost')),
  head('an empty first line with a space', (good) => good.replace('\r\nHost', '\r\n \r\nHost')),
]);

world.refuses(
  'Two Hosts, or two keys: one hop routes or checks by the first, the next by the second (reliability 33, 54)',
  [
    ...['Host: a', 'Host: b', 'host: b', 'HOST:', 'Authorization: Bearer x', 'authorization:', 'AUTHORIZATION: x'].map(
      field,
    ),
  ],
);

world.serves('Fields that are strange and harmless, one of them once deadly to Node (reliability 35)', [
  ['__proto__ and its like', () => post('__proto__: x\r\nconstructor: y\r\ntoString: z\r\nhasOwnProperty: 1'), '{}'],
  ['names of every kind of token', () => post("X!#$%&'*+-.^_`|~: b"), '{}'],
  ['an empty value, and none', () => post('X-A:\r\nX-B: '), '{}'],
  ['bytes beyond ASCII, and a tab', () => post('X-A: \x80\xff\tb\x85'), '{}'],
  ['five hundred of them', () => post('a: b\r\n'.repeat(500).slice(0, -2)), '{}'],
]);

world.serves('What Connection lists is not ours to lose (reliability 9, 30)', [
  ['Content-Length', () => post('Connection: Content-Length'), '{}'],
  ['Host and Authorization', () => post('Connection: Host, Authorization'), '{}'],
  ['our own fields', () => post('Connection: X-Consumer-Id, X-Request-Id, Via, X-Forwarded-For'), '{}'],
  ['names of every object’s own', () => post('Connection: __proto__, constructor, ,,'), '{}'],
  [
    'Transfer-Encoding',
    () =>
      post('Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked')
        .replace('Content-Length: 2\r\n', '')
        .replace(/\{\}$/, '2\r\n{}\r\n0\r\n\r\n'),
    '{}',
  ],
]);
