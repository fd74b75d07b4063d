import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

// node:http and nothing else: the same answer to every request. argv: port, file of the answer (status, type, body, and whether it closes the connection).
const [port, file] = process.argv.slice(2);
const { status, type, closes, body } = JSON.parse(readFileSync(file!, 'utf8')) as {
  status: number;
  type: string;
  closes: boolean;
  body: string;
};
const headers = {
  'content-type': type,
  'content-length': Buffer.byteLength(body),
  ...(closes ? { connection: 'close' } : {}),
};

createServer({ keepAliveTimeout: 60_000 }, (_request, response) => {
  response.writeHead(status, headers).end(body);
}).listen(Number(port), '127.0.0.1', 4096);
