import type { IncomingMessage } from 'node:http';
import { type Readable, Transform } from 'node:stream';
import { ClientBodyError } from './faults.ts';

/** Chunks of a body, of at most 64 KiB each, that wait for the upstream before the client is made to wait. */
const CHUNKS_HELD = 4;

/**
 * The body of a request as it goes to the upstream, never longer than `maxBytes`. A declared length was checked before
 * and is kept by the parser; chunks are counted as they pass, so that nothing is read whole.
 */
export function boundedBody(
  request: IncomingMessage,
  body: 'none' | 'chunked' | 'length',
  maxBytes: number,
): Readable | null {
  if (body === 'none') return null;
  if (body === 'length') return request;
  let bytes = 0;
  const counted = new Transform({
    // undici would give a body that is in its buffer as a whole a Content-Length; what came in chunks goes on in chunks.
    readableObjectMode: true,
    readableHighWaterMark: CHUNKS_HELD,
    transform(chunk: Buffer, _encoding, next) {
      bytes += chunk.length;
      next(bytes > maxBytes ? new ClientBodyError('payload_too_large') : null, chunk);
    },
  });
  request.pipe(counted);
  request.once('error', (error) => counted.destroy(error));
  request.once('close', () => {
    if (!request.complete) counted.destroy(new Error('the client broke its body off'));
  });
  return counted;
}
