import { ERRORS } from '../errors/catalogue.ts';
import { FieldBlock } from './field-block.ts';
import { PROTOCOL, WEBSOCKET } from './fields.ts';
import { fault, type HeadFault, type HeadLimits } from './request-framing.ts';
import { readRequestTarget } from './request-line.ts';

export type { HeadFault } from './request-framing.ts';

/** A request head as its parser delivers it. */
interface ReceivedHead {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly fields: FieldBlock;
}

/** A request head that can be served, read once from what was received, not from what Node merged. */
export interface Head {
  readonly kind: 'head';
  readonly method: string;
  readonly httpVersion: string;
  /** As received, except that the Max-Forwards of an OPTIONS is decremented. */
  readonly fields: FieldBlock;
  /** Path and query in origin form, exactly as received; `*` is possible for OPTIONS. */
  readonly target: string;
  readonly path: string;
  /** Why the path is refused unless its route passes such paths; null for most paths. */
  readonly oddity: string | null;
  /** Null if a client with HTTP/1.0 sent no Host. */
  readonly host: string | null;
  readonly body: 'none' | 'chunked' | 'length';
  /** The declared length in bytes; 0 without a declared length. */
  readonly contentLength: number;
  /** Lower-case names that Connection lists. */
  readonly connectionNames: ReadonlySet<string>;
  readonly expectsContinue: boolean;
  /** True for an OPTIONS that must not be forwarded, because it has `Max-Forwards: 0` (RFC 9110 section 7.6.2). */
  readonly endsHere: boolean;
  /** Whether it asks for another protocol. */
  readonly upgrade: UpgradeForm;
}

/**
 * Checks the framing and form of a request (RFC 9112 sections 3 and 6).
 *
 * Attack: a request that two parsers read differently (two lengths, a length and chunks, two Hosts) smuggles a second
 * one past the gateway. So an ambiguous request is refused, never repaired.
 */
export function readHead({ method, url, httpVersion, fields }: ReceivedHead, limits: HeadLimits): Head | HeadFault {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return fault('http_version_not_supported', ERRORS.http_version_not_supported.sentence);
  }
  if (method === 'CONNECT' || method === 'TRACE') return fault('not_implemented', `${method} is not offered.`);
  if (url.length > limits.maxUrlBytes) {
    return fault('uri_too_long', ERRORS.uri_too_long.sentence(limits.maxUrlBytes));
  }
  const validated = fields.validated(httpVersion, limits);
  if (validated.kind === 'fault') return validated;
  const { host, expect, connectionNames } = validated.fields;
  const { body, contentLength } = validated.framing;
  const target = readRequestTarget(url, method, host);
  if (target.kind === 'fault') return fault('invalid_request', target.message);
  // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored.
  const expectation = httpVersion === '1.1' ? expect : null;
  if (expectation !== null && expectation.toLowerCase() !== '100-continue') {
    return fault('expectation_failed', ERRORS.expectation_failed.sentence);
  }
  const maxForwards = method === 'OPTIONS' ? readMaxForwards(fields.rawHeaders) : null;
  return {
    kind: 'head',
    method,
    httpVersion,
    fields: maxForwards?.fields ?? fields,
    target: target.target,
    path: target.path,
    oddity: target.oddity,
    host,
    body,
    contentLength,
    connectionNames,
    expectsContinue: expectation !== null && body !== 'none',
    endsHere: maxForwards?.endsHere === true,
    upgrade: readUpgrade(method, httpVersion, body, connectionNames, fields),
  };
}

/** The highest Max-Forwards that is forwarded (RFC 9110 section 7.6.2 allows a recipient to set a maximum). */
const HIGHEST_MAX_FORWARDS = 1_000;

/** Decrements Max-Forwards, and finds out whether it was 0. A value that is not a number is left unchanged. */
function readMaxForwards(rawHeaders: readonly string[]) {
  let endsHere = false;
  const decremented = rawHeaders.map((value, i) => {
    if (i % 2 === 0 || rawHeaders[i - 1]!.toLowerCase() !== 'max-forwards' || !/^[0-9]+$/.test(value)) return value;
    const left = Math.min(Number(value) - 1, HIGHEST_MAX_FORWARDS);
    endsHere ||= left < 0;
    return String(left);
  });
  return { fields: new FieldBlock(decremented), endsHere };
}

/** Whether a request asks for another protocol. */
type UpgradeForm =
  /** Asks for none, or in a way that the gateway ignores and serves as plain HTTP (allowed by RFC 9110 section 7.8). */
  | { readonly kind: 'none' }
  /** @param protocol as received; whether it is allowed depends on the route. @param key null if it is not WebSocket */
  | { readonly kind: 'upgrade'; readonly protocol: string; readonly key: string | null }
  /** @param fields of the response that refuses it, names and values alternating */
  | { readonly kind: 'fault'; readonly message: string; readonly fields: readonly string[] };

const NONE: UpgradeForm = { kind: 'none' };
/** 16 bytes in base64. Of the last of the 22 digits, four bits are unused and must be 0. */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/;

/**
 * Finds out whether a request asks for an upgrade, and whether it is valid: RFC 6455 section 4.2.1 for a WebSocket. A
 * malformed WebSocket handshake is refused rather than served in part.
 */
function readUpgrade(
  method: string,
  httpVersion: string,
  body: 'none' | 'chunked' | 'length',
  connectionNames: ReadonlySet<string>,
  fields: FieldBlock,
): UpgradeForm {
  if (httpVersion !== '1.1' || !connectionNames.has('upgrade')) return NONE;
  const isPlainGet = method === 'GET' && body === 'none';
  const asked = readFields(fields.rawHeaders);
  const protocols = asked.upgrade.flatMap((value) => value.split(',')).map((name) => name.trim());
  const isWebSocket = protocols.some((name) => /^websocket(?:\/|$)/i.test(name));
  if (isWebSocket) return webSocketForm(isPlainGet, connectionNames, asked);
  const [protocol = ''] = protocols;
  return isPlainGet && protocols.length === 1 && PROTOCOL.test(protocol)
    ? { kind: 'upgrade', protocol, key: null }
    : NONE;
}

interface UpgradeFields {
  readonly upgrade: readonly string[];
  readonly keys: readonly string[];
  readonly versions: readonly string[];
}

function readFields(rawHeaders: readonly string[]): UpgradeFields {
  const valuesOf = (name: string) =>
    rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name);
  return {
    upgrade: valuesOf('upgrade'),
    keys: valuesOf('sec-websocket-key'),
    versions: valuesOf('sec-websocket-version'),
  };
}

function webSocketForm(
  isPlainGet: boolean,
  connectionNames: ReadonlySet<string>,
  { upgrade, keys, versions }: UpgradeFields,
): UpgradeForm {
  const [protocol = ''] = upgrade;
  const [key = ''] = keys;
  if (upgrade.length !== 1 || protocol.toLowerCase() !== WEBSOCKET)
    return upgradeFault('Upgrade must be websocket alone.');
  if (!isPlainGet) return upgradeFault('A WebSocket is asked for with GET, without a body.');
  if ([...connectionNames].some((name) => name.startsWith('sec-websocket-'))) {
    return upgradeFault('Connection must not list a field of the WebSocket handshake.');
  }
  if (versions.length !== 1 || versions[0] !== '13') {
    // The response names the supported version (RFC 6455 section 4.4).
    return upgradeFault('Sec-WebSocket-Version must come once and be 13.', ['Sec-WebSocket-Version', '13']);
  }
  if (keys.length !== 1 || !KEY.test(key)) return upgradeFault('Sec-WebSocket-Key must come once: 16 bytes in base64.');
  return { kind: 'upgrade', protocol, key };
}

function upgradeFault(message: string, fields: readonly string[] = []): UpgradeForm {
  return { kind: 'fault', message, fields };
}
