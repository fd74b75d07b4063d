/** Frame types (RFC 9113 section 6). */
export const TYPE = {
  DATA: 0,
  HEADERS: 1,
  PRIORITY: 2,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH_PROMISE: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
} as const;

export const FLAG = { ACK: 1, END_STREAM: 1, END_HEADERS: 4, PADDED: 8, PRIORITY: 0x20 } as const;

/** Error codes (RFC 9113 section 7). */
export const CODE = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  INTERNAL_ERROR: 2,
  FLOW_CONTROL_ERROR: 3,
  STREAM_CLOSED: 5,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  ENHANCE_YOUR_CALM: 11,
} as const;

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

/** One frame, whatever stands in it. */
export function frame(type: number, flags: number, stream: number, payload: Buffer | string = ''): Buffer {
  const bytes = typeof payload === 'string' ? Buffer.from(payload, 'latin1') : payload;
  const head = Buffer.alloc(9);
  head.writeUIntBE(bytes.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, bytes]);
}

/** A field block of literals that are not indexed, byte for byte as told (RFC 7541 section 6.2.2). */
export function fieldBlock(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), textOf(name), textOf(value)]));
}

function textOf(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  return Buffer.concat([lengthOf(bytes.length), bytes]);
}

/** An integer with a prefix of seven bits (RFC 7541 section 5.1). */
function lengthOf(length: number): Buffer {
  if (length < 127) return Buffer.of(length);
  const bytes = [127];
  let left = length - 127;
  for (; left >= 128; left >>= 7) bytes.push((left & 127) | 128);
  return Buffer.from([...bytes, left]);
}

/** What a request begins with. */
export const pseudo = (path: string, method = 'GET'): [string, string][] => [
  [':method', method],
  [':scheme', 'https'],
  [':authority', 'gateway.test'],
  [':path', path],
];

export const rstStream = (stream: number, code: number): Buffer => frame(TYPE.RST_STREAM, 0, stream, uint32(code));
export const windowUpdate = (stream: number, by: number): Buffer => frame(TYPE.WINDOW_UPDATE, 0, stream, uint32(by));

/** @param settings identifier and value in turn */
export function settings(...values: number[]): Buffer {
  const payload = Buffer.alloc(values.length * 3);
  for (let i = 0; i < values.length; i += 2) {
    payload.writeUInt16BE(values[i]!, i * 3);
    payload.writeUInt32BE(values[i + 1]!, i * 3 + 2);
  }
  return frame(TYPE.SETTINGS, 0, 0, payload);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
