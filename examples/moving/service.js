// The service behind the gateways of these examples. It counts nothing. Start it with `node examples/moving/service.js`.
import { createServer } from 'node:http';

const { HOST = '127.0.0.1', PORT = '9000' } = process.env;
const ANSWERS = {
  '/v1/status': { status: 'ok' },
  '/v1/items': [{ id: 1, name: 'Kettle' }],
};

const server = createServer((request, response) => {
  const answer = ANSWERS[request.url.split('?')[0]];
  response.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify(answer ?? { error: 'not found' }));
});
server.listen(Number(PORT), HOST, () => console.log(`service on http://${HOST}:${server.address().port}`));
