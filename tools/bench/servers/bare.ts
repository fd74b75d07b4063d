import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

// node:http and nothing else: the same answer to every request. argv: port, file of the answer (status, type, body).
const [port, file] = process.argv.slice(2);
const { status, type, body } = JSON.parse(readFileSync(file!, 'utf8')) as {
  status: number;
  type: string;
  body: string;
};
const headers = { 'content-type': type, 'content-length': Buffer.byteLength(body) };

createServer({ keepAliveTimeout: 60_000 }, (_request, response) => {
  response.writeHead(status, headers).end(body);
}).listen(Number(port), '127.0.0.1', 4096);
