// Makes the certificate of the Redis servers of docker-compose.yml, and its key: `make-certificate.ts KEY CERT NAME...`.
// The certificate is its own authority, and of nothing else: whoever trusts it trusts the holder of this one key. Node.js
// reads certificates and writes none, and the image has no openssl; so this writes the few fields there are (RFC 5280) in DER.
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';

const VALID_YEARS = 10;
const DER = { integer: 2, bits: 3, octets: 4, oid: 6, utf8: 12, utcTime: 23, sequence: 48, set: 49 };
const VERSION = 0xa0;
const EXTENSIONS = 0xa3;
const DNS_NAME = 0x82;
const OID = {
  ecdsaWithSha256: [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
  commonName: [0x55, 0x04, 0x03],
  subjectAltName: [0x55, 0x1d, 0x11],
} as const;

const [keyFile, certFile, ...names] = process.argv.slice(2);
if (keyFile === undefined || certFile === undefined || names.length === 0) {
  console.error('usage: make-certificate.ts KEY CERT NAME...');
  process.exit(2);
}

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const algorithm = der(DER.sequence, oid(OID.ecdsaWithSha256));
const who = der(
  DER.sequence,
  der(DER.set, der(DER.sequence, oid(OID.commonName), der(DER.utf8, Buffer.from('Redis of Tollgate')))),
);
const now = new Date();
const end = new Date(now);
end.setUTCFullYear(now.getUTCFullYear() + VALID_YEARS);
const altNames = der(DER.sequence, ...names.map((name) => der(DNS_NAME, Buffer.from(name))));
const signed = der(
  DER.sequence,
  der(VERSION, der(DER.integer, Buffer.of(2))),
  der(DER.integer, Buffer.concat([Buffer.of(1), randomBytes(15)])),
  algorithm,
  who,
  der(DER.sequence, utcTime(now), utcTime(end)),
  who,
  publicKey.export({ type: 'spki', format: 'der' }),
  der(EXTENSIONS, der(DER.sequence, der(DER.sequence, oid(OID.subjectAltName), der(DER.octets, altNames)))),
);
const signature = der(DER.bits, Buffer.of(0), sign('sha256', signed, privateKey));
const lines =
  der(DER.sequence, signed, algorithm, signature)
    .toString('base64')
    .match(/.{1,64}/g) ?? [];

writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o400 });
writeFileSync(certFile, ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n'));

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const length = content.length;
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  if (length < 0x100) return Buffer.concat([Buffer.of(tag, 0x81, length), content]);
  return Buffer.concat([Buffer.of(tag, 0x82, length >> 8, length & 0xff), content]);
}

function oid(bytes: readonly number[]): Buffer {
  return der(DER.oid, Buffer.from(bytes));
}

/** Up to 2049; later years have another form. */
function utcTime(date: Date): Buffer {
  return der(
    DER.utcTime,
    Buffer.from(
      `${date
        .toISOString()
        .replace(/[-:T]|\.\d+/g, '')
        .slice(2)}`,
    ),
  );
}
