import { createServer, type Socket } from 'node:net';

// The service behind the contestants, as cheap as it can be: it looks for the end of each request and answers at once.
// argv: port. Paths outside /v1 are 404; GET /v1/bytes/N has N bytes; /v1/needs/NAME is 400 without the header field NAME; /v1/silent has no answer.
const SMALL_BYTES = 284;
const LARGE_BYTES = 100 * 1024;
const LIST_BYTES = 10 * 1024;
const CHAT_BYTES = 2 * 1024;
const EVENTS = 200;
const EVENT_BYTES = 250;

const HEAD_END = '\r\n\r\n';
const small = answer('application/json', `[{"id":1,"name":"${'Biscuit'.padEnd(SMALL_BYTES - 20, '.')}"}]`);
const fresh = small.replace('\r\n', '\r\nCache-Control: max-age=86400\r\n');
const list = answer('application/json', listOfPets());
const chat = answer('application/json', chatAnswer());
const stream = Buffer.from(streamOfEvents(), 'latin1');
const notFound = answer('text/plain', 'not found', '404 Not Found');
const bad = answer('text/plain', 'a header field is missing', '400 Bad Request');
const large = Buffer.from(answer('application/octet-stream', 'x'.repeat(LARGE_BYTES)), 'latin1');

createServer({ noDelay: true }, (socket) => {
  let pending = '';
  /** Of a large body, whose bytes are dropped as they come. */
  let missing = 0;
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    if (missing > 0) {
      missing -= chunk.length;
      if (missing > 0) return;
      // Nothing is sent before the answer.
      missing = 0;
      reply(socket, pending);
      pending = '';
      return;
    }
    pending += chunk.toString('latin1');
    for (;;) {
      missing = missingOfBody(pending);
      if (missing > 0) pending = pending.slice(0, pending.indexOf(HEAD_END));
      const end = missing > 0 ? null : endOfRequest(pending);
      if (end === null) return;
      reply(socket, pending);
      pending = pending.slice(end);
    }
  });
}).listen(Number(process.argv[2]), '127.0.0.1');

function reply(socket: Socket, request: string): void {
  const path = request.slice(request.indexOf(' ') + 1);
  if (path.startsWith('/v1/pets')) socket.write(small, 'latin1');
  else if (path.startsWith('/v1/large')) socket.write(large);
  else if (path.startsWith('/v1/bytes/')) socket.write(request.startsWith('GET') ? bytesOf(path) : small, 'latin1');
  else if (path.startsWith('/v1/fresh')) socket.write(fresh, 'latin1');
  else if (path.startsWith('/v1/list')) socket.write(list, 'latin1');
  else if (path.startsWith('/v1/chat')) socket.write(chat, 'latin1');
  else if (path.startsWith('/v1/stream')) socket.write(stream);
  else if (path.startsWith('/v1/needs/')) socket.write(hasNeeded(request) ? small : bad, 'latin1');
  else if (path.startsWith('/v1/silent')) return;
  else socket.write(path.startsWith('/v1/') ? small : notFound, 'latin1');
}

function hasNeeded(request: string): boolean {
  const name = /\/v1\/needs\/([\w-]+)/.exec(request)![1]!;
  return request.slice(0, request.indexOf(HEAD_END)).toLowerCase().includes(`\r\n${name}: `);
}

/** Exactly LIST_BYTES of JSON whose entries differ, as those of a service do. */
function listOfPets(): string {
  const pets: string[] = [];
  let random = 20260101;
  for (let bytes = 2, id = 1; ; id++) {
    // A linear congruential generator: the same list in every run.
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
    const pet = `{"id":${id},"name":"${random.toString(36)}","categoryId":${random % 7},"status":"available"}`;
    if (bytes + pet.length + 1 > LIST_BYTES) return `[${pets.join(',')}]`.padEnd(LIST_BYTES);
    pets.push(pet);
    bytes += pet.length + 1;
  }
}

/** Exactly CHAT_BYTES, as a language model answers: what it used stands at the end. */
function chatAnswer(): string {
  const of = (content: string) =>
    `{"id":"chat-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"${content}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":42,"completion_tokens":700,"total_tokens":742}}`;
  return of('A word and another. '.repeat(200).slice(0, CHAT_BYTES - of('').length));
}

/** EVENTS events of EVENT_BYTES each, in a chunk of its own each; the last but one has what was used. */
function streamOfEvents(): string {
  const events = Array.from({ length: EVENTS - 2 }, (_, i) => {
    const of = (content: string) =>
      `data: {"id":"chat-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"${content}"}}],"usage":null,"n":${i}}\n\n`;
    return of('A word. '.repeat(40).slice(0, EVENT_BYTES - of('').length));
  });
  const last = ['data: {"id":"chat-1","choices":[],"usage":{"total_tokens":742}}\n\n', 'data: [DONE]\n\n'];
  const chunks = [...events, ...last].map((event) => `${event.length.toString(16)}\r\n${event}\r\n`);
  return `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked${HEAD_END}${chunks.join('')}0\r\n\r\n`;
}

const made = new Map<number, Buffer>();

function bytesOf(path: string): Buffer {
  const count = Number.parseInt(path.slice('/v1/bytes/'.length), 10);
  const known = made.get(count) ?? Buffer.from(answer('application/octet-stream', 'x'.repeat(count)), 'latin1');
  made.set(count, known);
  return known;
}

/** How much of a body of known length is still to come; 0 where that cannot be told. */
function missingOfBody(text: string): number {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd === -1 || text.startsWith('GET')) return 0;
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1] ?? 0);
  return Math.max(0, headEnd + HEAD_END.length + length - text.length);
}

/** Null while it has not come whole. */
function endOfRequest(text: string): number | null {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd === -1) return null;
  const bodyFrom = headEnd + HEAD_END.length;
  if (text.startsWith('GET')) return bodyFrom;
  const head = text.slice(0, headEnd);
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const last = text.indexOf('0\r\n\r\n', bodyFrom);
    return last === -1 ? null : last + 5;
  }
  const bodyEnd = bodyFrom + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  return text.length < bodyEnd ? null : bodyEnd;
}

function answer(type: string, body: string, status = '200 OK'): string {
  return `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}${HEAD_END}${body}`;
}
