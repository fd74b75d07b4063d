import type { Match, Router } from './route.ts';

/** `GET /usage` (contract section 4): a route of the gateway's own, with no upstream behind it. */
const USAGE: Match = Object.freeze({
  route: Object.freeze({
    path: '/usage',
    methods: Object.freeze(['GET', 'HEAD']),
    upstream: '',
    cost: 1,
    allowsBody: false,
    allowsUpgrade: false,
    perAddress: null,
    deprecated: null,
  }),
  allow: 'GET, HEAD',
});

/** Lays the gateway's own route over those of the settings, so that no pattern of theirs can take its path. */
export function withUsage(router: Router): Router {
  return { match: (path) => (path === USAGE.route.path ? USAGE : router.match(path)) };
}

/** Whether a request asks the gateway itself where its caller stands. */
export function asksForUsage(match: Match | null): boolean {
  return match === USAGE;
}
