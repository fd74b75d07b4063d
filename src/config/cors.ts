import { z } from 'zod';
import type { CorsRules } from '../annotate/cors.ts';
import * as values from './values.ts';

const originRule = 'must be an origin such as https://app.example.com, without a path, or `*` alone';

/** `cors` in gateway.yaml. */
export const corsSchema = z.strictObject({
  origins: z
    .array(
      z.string(originRule).regex(/^(\*|[a-z][a-z0-9+.-]*:\/\/[a-z0-9.:[\]-]+)$/, originRule),
      'must be a list of origins',
    )
    .min(1, 'must be a list of at least one origin')
    .max(1_000, 'must not have more than 1000 origins')
    .describe('Whose pages may read answers: origins as browsers send them, in lower case; `*` for all.'),
  headers: z
    .array(values.token())
    .prefault(['Authorization', 'Content-Type', 'X-Request-Id'])
    .describe('Fields that a page may set in its requests.'),
  expose: z
    .array(values.token())
    .prefault([])
    .describe("Fields of answers that a page may read, beside the gateway's own."),
  credentials: z.boolean().prefault(false).describe('Whether a page may send cookies; not with `*`.'),
  maxAge: values.duration('0s', '24h').prefault('10m').describe('How long a browser may remember a preflight.'),
});

export function corsOf(cors: z.output<typeof corsSchema> | undefined): CorsRules | null {
  if (cors === undefined) return null;
  const { maxAge, ...rest } = cors;
  return { ...rest, maxAgeSeconds: Math.floor(maxAge / 1000) };
}
