import type { Policy } from '../../../src/policies/policy.ts';

/** The policy of the bench: a comparison, and a field for the service. */
const policy: Policy = (request, caller) =>
  request.route.names.petId === 'none'
    ? { refuse: { status: 403, code: 'no_such_pet', message: 'There is no such pet.' } }
    : { headers: { 'X-Plan': caller.plan } };

export default policy;
