/** When a route went out of favour, when it goes away, and what comes instead. Times in Unix milliseconds. */
export interface Deprecation {
  readonly sinceMs: number;
  readonly sunsetMs: number | null;
  /** URI reference of what to use instead. */
  readonly successor: string | null;
  /** URI reference of a page that explains. */
  readonly link: string | null;
}

/**
 * The fields that announce a deprecated route: Deprecation (RFC 9745 section 2), Sunset (RFC 8594 section 3) and Link
 * (RFC 8288; relations of RFC 5829, RFC 9745 section 3 and RFC 8594 section 6). They are added to the upstream's own Link.
 */
export function deprecationFields({ sinceMs, sunsetMs, successor, link }: Deprecation): string[] {
  const fields = ['Deprecation', `@${Math.floor(sinceMs / 1000)}`];
  if (sunsetMs !== null) fields.push('Sunset', new Date(sunsetMs).toUTCString());
  const links = [
    ...(successor === null ? [] : [`<${successor}>; rel="successor-version"`]),
    ...(link === null ? [] : [`<${link}>; rel="deprecation"`]),
    ...(link === null || sunsetMs === null ? [] : [`<${link}>; rel="sunset"`]),
  ];
  if (links.length > 0) fields.push('Link', links.join(', '));
  return fields;
}

/** Whether the route is gone by `nowMs` (Unix milliseconds): its requests are answered with 410. */
export function isPastSunset({ sunsetMs }: Deprecation, nowMs: number): boolean {
  return sunsetMs !== null && nowMs >= sunsetMs;
}
