import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Asked {
  readonly key?: string;
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** A connection of its own unless given. */
  readonly agent?: Agent;
}

/**
 * One request to 127.0.0.1, sent once: this client repeats nothing.
 * @throws Error when the connection ends before the answer, or after 10 s
 */
export function ask(
  port: number,
  path: string,
  { key, method = 'GET', headers, body, agent }: Asked = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        agent: agent ?? false,
        timeout: 60_000,
        headers: {
          ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
          ...(body === undefined
            ? {}
            : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
          ...headers,
        },
      },
      (response) => {
        const parts: string[] = [];
        response.setEncoding('utf8').on('data', (part: string) => parts.push(part));
        response.once('error', reject);
        response.once('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: parts.join('') }),
        );
      },
    );
    sent.once('timeout', () => sent.destroy(new Error('no answer within 60 s')));
    sent.once('error', reject);
    sent.end(body);
  });
}

export interface Load {
  /** Requests sent until now. */
  sent(): number;
  /** Stops sending and waits for the answers that are still out. */
  stop(): Promise<{ readonly sent: number; readonly lost: readonly string[] }>;
}

const NEW_PET = JSON.stringify({ name: 'Visitor', categoryId: 1 });

/**
 * Requests at a fixed rate, whatever becomes of them: every fourth on a connection of its own, every tenth a POST.
 * What is not answered with 2xx is lost.
 */
export function startLoad(port: number, key: string, perSecond: number): Load {
  const agent = new Agent({ keepAlive: true, maxSockets: 20 });
  const lost: string[] = [];
  const out = new Set<Promise<void>>();
  let sent = 0;
  const send = () => {
    const number = sent++;
    const asked: Asked = {
      key,
      ...(number % 4 === 0 ? {} : { agent }),
      ...(number % 10 === 0 ? { method: 'POST', body: NEW_PET } : {}),
    };
    const one = ask(port, '/v1/pets?limit=1', asked).then(
      ({ status, body }) => {
        if (status < 200 || status > 299) lost.push(`request ${number}: ${status} ${body}`);
      },
      (error: Error) => {
        lost.push(`request ${number}: ${error.message}`);
      },
    );
    out.add(one);
    one.finally(() => out.delete(one));
  };
  const timer = setInterval(send, 1000 / perSecond);
  return {
    sent: () => sent,
    stop: async () => {
      clearInterval(timer);
      while (out.size > 0) await Promise.race([Promise.all(out), delay(100)]);
      agent.destroy();
      return { sent, lost };
    },
  };
}
