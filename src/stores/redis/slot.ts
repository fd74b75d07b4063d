const SLOTS = 16_384;

/**
 * The slot of a name in a Redis Cluster, 0 to 16,383: CRC-16 (XMODEM) of what stands in its first braces, or of all of
 * it where there are none or nothing is in them (Redis Cluster specification, "Key distribution model", "Hash tags").
 */
export function slotOf(name: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tagOf(name))) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % SLOTS;
}

function tagOf(name: string): string {
  const open = name.indexOf('{');
  const close = open === -1 ? -1 : name.indexOf('}', open + 1);
  return close > open + 1 ? name.slice(open + 1, close) : name;
}
