import type { Match, Route } from './route.ts';

/** `GET /usage` (contract section 4): a route of the gateway's own, with no upstream behind it. */
export const USAGE: Route = Object.freeze({
  path: '/usage',
  methods: Object.freeze(['GET', 'HEAD']),
  upstream: '',
  cost: 1,
  allowsBody: false,
  allowsUpgrade: false,
  perAddress: null,
  deprecated: null,
});

/** Whether a request asks the gateway itself where its caller stands. */
export function asksForUsage(match: Match | null): boolean {
  return match !== null && match.route === USAGE;
}
