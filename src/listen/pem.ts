const BEGIN = '-----BEGIN CERTIFICATE-----';
const END = '-----END CERTIFICATE-----';

/** The certificates of a text in PEM form (RFC 7468), each with its first and last line, in a time that grows with the text alone. */
export function certificateBlocks(pem: string): string[] {
  return pem.split(BEGIN).flatMap((text, i) => {
    const end = i === 0 ? -1 : text.indexOf(END);
    return end === -1 ? [] : [BEGIN + text.slice(0, end) + END];
  });
}
