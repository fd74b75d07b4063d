import { get, type IncomingMessage } from 'node:http';
import type { TestGateway } from '../support/gateway.ts';
import { TOKEN } from './operator.ts';

export interface ReadEvent {
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: an event is looked at as a stranger would, member by member
  readonly data: any;
}

/** Follows a stream of events of the admin API, as a page would. */
export async function followEvents({ adminPort }: Pick<TestGateway, 'adminPort'>, path: string, token = TOKEN) {
  const headers = { Authorization: `Bearer ${token}` };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ host: '127.0.0.1', port: adminPort, path, headers, agent: false }, resolve).on('error', reject);
  });
  const events: ReadEvent[] = [];
  let text = '';
  let [hasEnded, beats] = [false, 0];
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    text += chunk;
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(text.slice(0, end)) ?? [];
      if (event === 'beat') beats++;
      else if (event !== undefined) events.push({ event, data: JSON.parse(data!) });
      text = text.slice(end + 2);
    }
  });
  response.on('error', () => {});
  response.on('close', () => {
    hasEnded = true;
  });
  return {
    status: response.statusCode,
    headers: response.headers,
    /** Without the beats. */
    events,
    beats: () => beats,
    hasEnded: () => hasEnded,
    close: () => response.destroy(),
  };
}
