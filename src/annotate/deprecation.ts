/** When a route was deprecated, when it will be removed, and what replaces it. Times in Unix milliseconds. */
interface DeprecationFields {
  readonly sinceMs: number;
  readonly sunsetMs: number | null;
  /** URI reference of the replacement. */
  readonly successor: string | null;
  /** URI reference of a page about the deprecation. */
  readonly link: string | null;
}

/**
 * The fields that announce a deprecated route: Deprecation (RFC 9745 section 2), Sunset (RFC 8594 section 3) and Link
 * (RFC 8288; relations of RFC 5829, RFC 9745 section 3 and RFC 8594 section 6). They are appended to the upstream's own Link.
 * @returns names and values in turn
 */
export function deprecationFields({ sinceMs, sunsetMs, successor, link }: DeprecationFields): string[] {
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

/** Whether the sunset has passed at `nowMs` (Unix milliseconds). The gateway then answers requests with 410. */
export function isPastSunset({ sunsetMs }: DeprecationFields, nowMs: number): boolean {
  return sunsetMs !== null && nowMs >= sunsetMs;
}
