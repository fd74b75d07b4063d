import { plainError, policyRefusal } from '../annotate/errors.ts';
import type { ClientAddress } from '../http1/client.ts';
import { fieldsWithoutSecrets } from '../http1/forwarded-fields.ts';
import type { Head } from '../http1/request-head.ts';
import type { PolicyDecision } from '../policies/chain.ts';
import type { PolicyCaller, PolicyCustomer, PolicyRequest } from '../policies/policy.ts';
import type { Permission } from '../policies/result.ts';
import { matchedBy } from '../routing/pattern.ts';
import type { Match } from '../routing/router.ts';
import { claimsSentIn } from './caller.ts';
import type { Caller, Exchange } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { queryToPass } from './received-request.ts';
import type { Refusal } from './refusals.ts';

/*
 * What the policies of a route see of a request (`policies` in gateway.yaml): nothing by which another could call in its place. And
 * what becomes of the request by their decision.
 */

const NO_SCOPES: readonly string[] = Object.freeze([]);
const NO_META: Readonly<Record<string, string>> = Object.freeze({});

export function policyRequestOf(
  deps: GatewayDeps,
  head: Head,
  { route: { path: pattern } }: Match,
  { requestId }: Pick<Exchange, 'requestId'>,
  { address }: ClientAddress,
): PolicyRequest {
  const { method, path, fields, connectionNames } = head;
  const places = { allowedNames: deps.allowedNames, keyPlaces: deps.keySources, asKong: deps.isAsKong ? [] : null };
  return Object.freeze({
    id: requestId,
    method,
    path,
    query: queryToPass(deps, head).slice(1),
    headers: fieldsWithoutSecrets(fields.rawHeaders, connectionNames, places),
    clientAddress: address,
    route: Object.freeze({ path: pattern, ...matchedBy(pattern, path) }),
  });
}

function shown({ id, name, owner }: PolicyCustomer): PolicyCustomer {
  return Object.freeze({ id, name, owner });
}

export function policyCallerOf(deps: GatewayDeps, head: Head, caller: Caller): PolicyCaller {
  const { consumer, allowance, tokenExpiresAtMs } = caller;
  return Object.freeze({
    id: consumer?.id ?? null,
    name: consumer?.name ?? null,
    owner: consumer?.owner ?? null,
    plan: allowance.plan,
    customer: consumer === null || consumer.customer === null ? null : shown(consumer.customer),
    scopes: consumer?.scopes ?? NO_SCOPES,
    metadata: consumer?.meta ?? NO_META,
    claims: tokenExpiresAtMs === null ? null : claimsSentIn(deps, head),
  });
}

/** The caller with the scopes and the metadata that policies have chosen for its request. */
export function callerAllowed(caller: Caller, { scopes, metadata }: Permission): Caller {
  const { consumer } = caller;
  if (consumer === null || (scopes === null && metadata === null)) return caller;
  const meta = metadata === null ? consumer.meta : { ...consumer.meta, ...metadata };
  return { ...caller, consumer: { ...consumer, scopes: scopes ?? consumer.scopes, meta } };
}

/** The refusal of a request that a policy refuses, or whose policy failed. Neither is counted. */
export function refusalByPolicy(decision: Exclude<PolicyDecision, { kind: 'allowed' }>): Refusal {
  const source = 'memory';
  if (decision.kind === 'failed') {
    return { judgement: 'undecided', error: plainError('policy_failed'), cause: decision.reason, source };
  }
  return { judgement: 'denied', error: policyRefusal(decision.status, decision.code, decision.message), source };
}
