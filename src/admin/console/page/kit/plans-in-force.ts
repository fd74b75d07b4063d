import { type Reply, type Resource, request, useResource } from '../requests.ts';
import type { InForce } from '../types.ts';

const PATH = '/admin/plans';
const running: { read: Promise<Reply<InForce>> | null } = { read: null };

/** The plans in force. What several parts of a screen ask for at the same time is one request. */
export function usePlansInForce(): Resource<InForce> {
  return useResource<InForce>(PATH, null, () => {
    running.read ??= request<InForce>('GET', PATH).finally(() => {
      running.read = null;
    });
    return running.read;
  });
}
