import type { CorsFields } from '../annotate/cors.ts';
import type { Head } from '../listen/head.ts';
import type { Match } from './route.ts';

/** The one value of a field; null where it is missing, or there are several. */
export function onlyValue(rawHeaders: readonly string[], name: string): string | null {
  let value: string | null = null;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.length !== name.length || rawHeaders[i]!.toLowerCase() !== name) continue;
    if (value !== null) return null;
    value = rawHeaders[i + 1]!;
  }
  return value;
}

/** Whether a browser asks whether a page of another origin may send a request (Fetch standard, CORS-preflight request). */
export function isPreflight({ method, rawHeaders, body }: Head): boolean {
  if (method !== 'OPTIONS' || body !== 'none') return false;
  return onlyValue(rawHeaders, 'origin') !== null && onlyValue(rawHeaders, 'access-control-request-method') !== null;
}

/** What a preflight is answered: it asks before a key is sent, so it needs none and costs nothing. */
export function preflightFields(cors: CorsFields, { rawHeaders }: Head, match: Match | null): string[] {
  return cors.ofPreflight(onlyValue(rawHeaders, 'origin'), match?.allow ?? null);
}
