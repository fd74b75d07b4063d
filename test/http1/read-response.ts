import { BadResponseError } from '../../src/http1/response-head.ts';
import { ResponseReader } from '../../src/http1/response-reader.ts';

/** What a reader made of some bytes. */
export type ReadAnswer =
  | {
      readonly kind: 'whole';
      readonly status: number;
      readonly fields: readonly string[];
      readonly body: string;
      readonly interim: readonly number[];
      readonly keepsAlive: boolean;
      /** Bytes came that belong to no answer. */
      readonly excess: boolean;
    }
  /** It broke off, or is waited for still. */
  | { readonly kind: 'unfinished'; readonly status: number | null }
  | { readonly kind: 'refused'; readonly reason: string };

/** Reads the pieces as the answer to one request; `ends`: the connection ends behind them. */
export function readAnswer(pieces: readonly Buffer[], method: string, ends: boolean): ReadAnswer {
  const chunks: Buffer[] = [];
  const interim: number[] = [];
  let whole = false;
  let status: number | null = null;
  let head: { fields: readonly string[]; keepsAlive: boolean } = { fields: [], keepsAlive: false };
  const reader = new ResponseReader({
    onInformation: (code) => interim.push(code),
    onHead: (it) => {
      status = it.status;
      head = { fields: it.fields, keepsAlive: it.keepsAlive };
    },
    onData: (chunk) => chunks.push(Buffer.from(chunk)),
    onEnd: () => {
      whole = true;
    },
  });
  reader.begin(method);
  try {
    for (const piece of pieces) reader.read(piece);
    if (ends) reader.end();
  } catch (error) {
    if (!(error instanceof BadResponseError)) throw error;
    return { kind: 'refused', reason: (error as Error).message };
  }
  if (!whole || status === null) return { kind: 'unfinished', status };
  const body = Buffer.concat(chunks).toString('latin1');
  return { kind: 'whole', status, ...head, body, interim, excess: reader.excess };
}
