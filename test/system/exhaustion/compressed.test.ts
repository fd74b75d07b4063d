import { gunzipSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { startGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

const MIB = 1024 * 1024;
/** 200 MB of zeros in 200 kB. */
const BOMB = gzipSync(Buffer.alloc(200 * MIB), { level: 1 });

// Attack: a small body that becomes a huge one when it is unpacked. Whoever unpacks it, to look inside or to send it on in
// another coding, runs out of memory; and one who unpacks it and keeps Content-Encoding sends what nobody can read.
test.each(['sized', 'chunked'])(
  'a compressed body (%s) passes byte for byte in both directions, with its Content-Encoding, and is never unpacked (reliability 72)',
  async (framing) => {
    const upstream = await startUpstream(async (_request, response, recorded) => {
      await recorded.whole;
      response.setHeader('Content-Encoding', 'gzip');
      if (framing === 'sized') response.setHeader('Content-Length', recorded.body.length);
      response.end(recorded.body);
    });
    const gateway = await startGateway({ upstream: upstream.origin });
    const { key } = await gateway.createKey('endless');
    const before = await metricOf(gateway.adminPort, 'process_resident_memory_bytes');
    const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\nContent-Encoding: gzip\r\nAccept-Encoding: gzip`;
    const body =
      framing === 'sized'
        ? [`Content-Length: ${BOMB.length}\r\n\r\n`, BOMB]
        : [`Transfer-Encoding: chunked\r\n\r\n${BOMB.length.toString(16)}\r\n`, BOMB, '\r\n0\r\n\r\n'];
    const { responses } = await rawExchange(gateway.port, [`POST /v1/pets HTTP/1.1\r\n${fields}\r\n`, ...body], {
      withinMs: 8_000,
    });
    expect(upstream.requests[0]?.values('content-encoding')).toEqual(['gzip']);
    expect(upstream.requests[0]?.values('accept-encoding')).toEqual(['gzip']);
    expect(upstream.requests[0]?.body.equals(BOMB)).toBe(true);
    expect(responses[0]?.status).toBe(200);
    expect(responses[0]?.header('content-encoding')).toBe('gzip');
    expect(responses[0]?.body.equals(BOMB)).toBe(true);
    expect((await metricOf(gateway.adminPort, 'process_resident_memory_bytes')) - before).toBeLessThan(64 * MIB);
    expect(gunzipSync(responses[0]?.body ?? Buffer.alloc(0)).length).toBe(200 * MIB);
  },
);
