import { Agent, request } from 'node:http';
import { atEnd } from '../../support/endings.ts';
import type { TestGateway } from '../../support/gateway.ts';

/** What one request came to. Status 0: its connection broke. */
export interface Heard {
  readonly status: number;
  readonly remaining: number;
  readonly closes: boolean;
}

/** A client that keeps one connection, and opens another only when that one is gone. It sends nothing twice. */
export interface Caller {
  ask(path?: string): Promise<Heard>;
}

export function caller({ port }: Pick<TestGateway, 'port'>, key: string): Caller {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  atEnd(() => agent.destroy());
  const ask = (path = '/v1/pets') =>
    new Promise<Heard>((resolve) => {
      const lost = () => resolve({ status: 0, remaining: Number.NaN, closes: true });
      const sent = request({ host: '127.0.0.1', port, path, agent, headers: { Authorization: `Bearer ${key}` } });
      sent.once('error', lost);
      sent.once('response', (answer) => {
        const { statusCode: status = 0, headers } = answer;
        const remaining = Number(headers['x-ratelimit-remaining']);
        answer.once('aborted', lost).once('error', lost).resume();
        answer.once('end', () => resolve({ status, remaining, closes: headers.connection === 'close' }));
      });
      sent.end();
    });
  return { ask };
}

/** So many callers, each of which has its connection. They came one after the other, so each worker has its part of them. */
export async function callers(gateway: Pick<TestGateway, 'port'>, key: string, count: number): Promise<Caller[]> {
  const all = Array.from({ length: count }, () => caller(gateway, key));
  for (const one of all) await one.ask();
  return all;
}

/** All of them ask, each one request after the other, until they are told to stop. */
export function keepAsking(all: readonly Caller[], path?: string) {
  const heard: Heard[][] = all.map(() => []);
  let isOver = false;
  let answered = 0;
  const run = async (one: Caller, mine: Heard[]) => {
    while (!isOver) {
      const it = await one.ask(path);
      mine.push(it);
      if (it.status === 200) answered++;
    }
  };
  const done = Promise.all(all.map((one, i) => run(one, heard[i]!)));
  return {
    /** What each of them has heard. */
    heard,
    get answered() {
      return answered;
    },
    async stop(): Promise<Heard[][]> {
      isOver = true;
      await done;
      return heard;
    },
  };
}
