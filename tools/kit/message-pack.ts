/** A list of whole numbers from 0 in MessagePack, as a script replies it. */
export function packed(numbers: readonly number[]): Buffer {
  const parts = [Buffer.from([0xdc, numbers.length >> 8, numbers.length & 0xff])];
  for (const number of numbers) {
    const bytes = Buffer.alloc(9, 0xcf);
    bytes.writeBigUInt64BE(BigInt(number), 1);
    parts.push(bytes);
  }
  return Buffer.concat(parts);
}

/** Whole numbers in a text, separated by spaces, as a script replies them; another text as it is. */
export function replyOf(text: string): Buffer {
  return /^[\d ]+$/.test(text) ? packed(text.split(' ').map(Number)) : Buffer.from(text);
}
