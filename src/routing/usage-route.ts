import type { Match, Route } from './router.ts';

/** `GET /usage` (contract section 4): the gateway answers this route itself, without an upstream. */
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

/** Whether a request is for `GET /usage`. */
export function asksForUsage(match: Match | null): boolean {
  return match !== null && match.route === USAGE;
}
