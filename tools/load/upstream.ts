import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

// The service behind the gateways: an answer of the size of one animal, at next to no cost, so that the load test shows
// the gateways and not what they stand before.
const BODY = JSON.stringify([{ id: 1, name: 'Biscuit', categoryId: 1, status: 'available' }]);

const server = createServer({ keepAliveTimeout: 60_000 }, (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': BODY.length }).end(BODY);
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port, msg: 'serving' })}\n`);
