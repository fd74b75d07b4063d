import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { FRAGMENTS } from './http1-fragments.ts';
import { LONG } from './http1-long-rows.ts';
import type { Row } from './http1-row.ts';

/** How requests begin, by the word in braces that stands for it in http1-cases.yaml. */
const HEADS: Readonly<Record<string, string>> = {
  GET: 'GET / HTTP/1.1⏎Host: a.test⏎',
  POST: 'POST / HTTP/1.1⏎Host: a.test⏎',
  OPTIONS: 'OPTIONS / HTTP/1.1⏎Host: a.test⏎',
  CHUNKED: 'POST / HTTP/1.1⏎Host: a.test⏎Transfer-Encoding: chunked⏎⏎',
  ECHO: 'GET /echo HTTP/1.1⏎Host: a.test⏎',
  COOKIE: 'GET /cookie HTTP/1.1⏎Host: a.test⏎',
  NAMED: 'POST /echo HTTP/1.1⏎Host: a.test⏎Content-Length: 11⏎',
  WEBSOCKET: 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==⏎Sec-WebSocket-Version: 13⏎',
};

/** A row as it is in the file, where patterns are texts. */
interface Written extends Omit<Row, 'has' | 'forwards' | 'withholds'> {
  readonly has?: Readonly<Record<string, string>>;
  readonly forwards?: string;
  readonly withholds?: string;
}

const written: Readonly<Record<string, readonly Written[]>> = parse(
  readFileSync(join(import.meta.dirname, 'http1-cases.yaml'), 'utf8'),
);
const { h1spec, ...probes } = written;

/** All rows of a suite, in no order. */
export const SUITES: Readonly<Record<string, readonly Row[]>> = {
  h1spec: [...FRAGMENTS, ...h1spec!.map(rowOf)],
  Http11Probe: [...Object.values(probes).flatMap((rows) => rows.map(rowOf)), ...LONG],
};

function rowOf({ sent, has, forwards, withholds, ...rest }: Written): Row {
  return {
    ...rest,
    sent: typeof sent === 'string' ? withHeads(sent) : sent.map(withHeads),
    ...(has === undefined
      ? {}
      : { has: Object.fromEntries(Object.entries(has).map(([name, text]) => [name, patternOf(text)])) }),
    ...(forwards === undefined ? {} : { forwards: patternOf(forwards) }),
    ...(withholds === undefined ? {} : { withholds: patternOf(withholds) }),
  };
}

function withHeads(sent: string): string {
  return sent.replaceAll(/\{([A-Z]+)\}/g, (all, name: string) => HEADS[name] ?? all);
}

/** The pattern of a text such as `/^a$/m`. */
function patternOf(text: string): RegExp {
  const end = text.lastIndexOf('/');
  return new RegExp(text.slice(1, end), text.slice(end + 1));
}
