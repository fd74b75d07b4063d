import { z } from 'zod';
import * as values from './values.ts';

const { timeout, wholeNumber } = values;

const aShare = 'must be a number above 0 and at most 1';
const atLeastOne = 'must be a list of at least one address';

const tls = z.strictObject({
  ca: values.file().optional().describe('PEM file: who signs the certificates of the targets; else who Node trusts.'),
  cert: values.file().optional().describe('PEM file: the certificate that the gateway shows of itself. With `key`.'),
  key: values.file().optional().describe('PEM file: its private key, without a passphrase.'),
  serverName: values.serverName().optional().describe("The name in a target's certificate; else the target's host."),
  verify: z
    .boolean()
    .prefault(true)
    .describe('False takes any certificate: whoever stands between can then read and change everything.'),
});

const health = z.strictObject({
  path: values.healthPath().describe('Asked for with GET; any answer from 200 to 399 is healthy.'),
  interval: timeout().prefault('5s').describe('Pause between two checks of a target.'),
  timeout: timeout().prefault('2s').describe('How long a target may take to answer a check.'),
  unhealthyAfter: wholeNumber(1, 100).prefault(2).describe('Failed checks in a row until a target is left out.'),
  healthyAfter: wholeNumber(1, 100).prefault(2).describe('Good checks in a row until it is let back in.'),
});

/** One entry of `upstreams` in gateway.yaml. */
export const upstreamSchema = z.strictObject({
  targets: z
    .array(values.target(), atLeastOne)
    .min(1, atLeastOne)
    .max(1_000, 'must not have more than 1000 addresses')
    .describe(
      'Where the service is: scheme, host and port, no path; or unix:/path. Requests are spread over several. UPSTREAM_URL replaces them.',
    ),
  connectTimeout: timeout().prefault('2s').describe('How long a connection may take to come about.'),
  responseTimeout: timeout().prefault('30s').describe('How long the service may take until the head of its answer.'),
  bodyTimeout: timeout().prefault('30s').describe('How long the service may be silent in the body of its answer.'),
  maxConnections: wholeNumber(1, 65_535).prefault(256).describe('Connections to the service at a time.'),
  maxQueue: wholeNumber(0, 1_000_000)
    .prefault(1024)
    .describe('Requests that may wait for a connection; those beyond get 503 overloaded.'),
  fairShare: z
    .number(aShare)
    .gt(0, aShare)
    .max(1, aShare)
    .prefault(0.25)
    .describe(
      'The part of maxConnections, and of maxQueue, that one consumer may have at a time: a key, a subject or, without keys, an address. Requests beyond get 429 too_many_in_flight. 1 sets no bound for a single consumer.',
    ),
  health: health.optional().describe('Asks each target regularly how it is; without it, requests alone show it.'),
  tls: tls.optional().describe('For targets that begin with https://.'),
});
