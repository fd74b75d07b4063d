import { resolve } from 'node:path';
import { z } from 'zod';
import { isConsoleCookie } from '../http1/console-cookies.ts';
import { faultOfRequestField } from '../http1/field-rules.ts';
import { TOKEN } from '../http1/fields.ts';
import { hasPunctuation } from '../http1/forwarded-fields.ts';
import { ALPHABETS, type AlphabetName, FOREIGN_LENGTHS, type KeyFormat } from '../identify/api-key.ts';
import type { JwksSource } from '../identify/jwt-keys.ts';
import type { KeySource } from '../identify/key-sources.ts';
import { ROLES } from './admin-tokens-file.ts';
import * as values from './setting-values.ts';
import { asArray, field, type Note } from './yaml.ts';

// How gateway.yaml says who callers are: `jwt`, the JSON Web Tokens that are accepted, and `keys`, the formats of
// API keys that were made elsewhere.

/** Algorithms whose keys can be public. `none` has no signature, and HS256 and the like use a secret that both sides share. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;

const text = (message: string) => z.string(message).regex(/^\S(.{0,2046}\S)?$/, message);

const audienceRule = 'must be the name that tokens for this gateway have in `aud`, or a list of such names';
const algorithmRule = `must be one of ${ALGORITHMS.join(', ')}`;
const algorithmsRule = 'must be a list of at least one algorithm, such as [ES256]';
const jwksRule =
  'must be https://… or the path of a file; http://… only on this machine (127.0.0.1, [::1] or localhost)';

const audience = z.union(
  [text(audienceRule), z.array(text(audienceRule), audienceRule).min(1, audienceRule)],
  audienceRule,
);
const listOf = (names: string | string[]) => (typeof names === 'string' ? [names] : names);

const resourceRule =
  'must be the https:// URL of the API, without a query, dot segments and empty segments, such as https://api.example.com/mcp; http:// only on this machine (127.0.0.1, [::1] or localhost)';

/** `jwt` in gateway.yaml. */
export const jwtSchema = z.strictObject({
  issuer: text('must be what the issuer writes into `iss`, such as https://id.example.com/').describe(
    'The `iss` of the tokens, to the letter.',
  ),
  audience: audience
    .describe('What the `aud` of a token must name: this name, or one of these names.')
    .transform(listOf),
  jwks: z
    .string(jwksRule)
    .regex(/^[^\0]{1,4096}$/, { error: jwksRule, abort: true })
    .refine(isSource, jwksRule)
    .describe(
      "The issuer's JSON Web Key Set: an `https://` URL, or a file, which is read again when it changes. The gateway reads a URL at the start, every five minutes, and when a token names an unknown key (at most every 10 s), and keeps the keys for an hour while the issuer is away. `http://` is allowed on this machine only.",
    )
    .transform((jwks): JwksSource => {
      return isUrl(jwks) ? { kind: 'url', url: new URL(jwks).href } : { kind: 'file', path: resolve(jwks) };
    }),
  algorithms: z
    .array(z.enum(ALGORITHMS, algorithmRule), algorithmsRule)
    .min(1, algorithmsRule)
    .describe('Algorithms that tokens may be signed with. The header of a token cannot change this.'),
  resource: values
    .orNull(
      z
        .string(resourceRule)
        .regex(
          /^https?:\/\/(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+)*\/?$/,
          resourceRule,
        )
        .refine((url) => URL.canParse(url) && isSource(url), resourceRule),
    )
    .describe(
      'The public URL of the API, as clients write it, for which tokens are issued: `https://api.example.com/mcp`. With it, the gateway serves the metadata of RFC 9728 under `/.well-known/oauth-protected-resource`, with the issuer as the authorization server and the scopes of the routes, and a 401 names it in `WWW-Authenticate`, so that clients such as those of MCP find where to get a token. It needs an issuer that is a URL.',
    ),
  planClaim: text('must be the name of a claim, such as plan')
    .prefault('plan')
    .describe('Name of the claim that names the plan of a token, one of plans.yaml without `custom` limits.'),
  customerClaim: values
    .orNull(text('must be the name of a claim, such as customer'))
    .describe(
      'Name of the claim that names the customer of a token by its id (`cus_…`). Such a token has the plan and shares the limits of the customer, whatever its `planClaim` says, and a token whose customer does not exist gets 401. A token without the claim has no customer.',
    ),
});

/** The rules for callers' JSON Web Tokens, and where the keys of their issuer are (contract section 5). */
export type JwtSettings = values.Frozen<z.output<typeof jwtSchema>>;

const { issuer, jwks, algorithms } = jwtSchema.shape;
const headerRule =
  'must be the name of the header field in which the proxy sends the token, other than Authorization and Cookie';
const claimRule = 'must be the name of a claim';
const rolesRule = `must map at least one value of \`roleClaim\` to one of ${ROLES.join(', ')}`;

/** How the claims of a token give a person of the console. */
const personClaims = {
  nameClaim: text(claimRule)
    .prefault('email')
    .describe('Name of the claim that names the person, as the record of changes shows it.'),
  roleClaim: text(claimRule)
    .prefault('groups')
    .describe('Name of the claim that `roles` looks up: a text, or a list of texts, of which the highest role counts.'),
  roles: z
    .record(z.string(), z.enum(ROLES, `must be one of ${ROLES.join(', ')}`), rolesRule)
    .refine((roles) => Object.keys(roles).length > 0, rolesRule)
    .describe(
      'The role for each value of `roleClaim`: `viewer`, `operator` or `admin`. A person without one gets 403.',
    ),
};

/** `admin.identity` in gateway.yaml. */
export const proxyIdentitySchema = z.strictObject({
  header: z
    .string(headerRule)
    .regex(TOKEN, headerRule)
    .toLowerCase()
    .refine((name) => !['authorization', 'cookie'].includes(name), headerRule)
    .describe(
      'Name of the header field in which the proxy sends the token of the signed-in person, such as `Cf-Access-Jwt-Assertion`. Two such fields are refused.',
    ),
  issuer,
  audience: audience
    .describe(
      'What the `aud` of a token must name: this name, or one of these names. Give the console a name of its own, so that no token for another service is accepted.',
    )
    .transform(listOf),
  jwks,
  algorithms,
  ...personClaims,
});

/** The rules for the tokens of an authenticating proxy before the admin listener (contract section 7). */
export type ProxyIdentitySettings = values.Frozen<z.output<typeof proxyIdentitySchema>>;

const providerRule =
  'must be the https:// URL of the provider, as it writes it into `iss`; http:// only on this machine (127.0.0.1, [::1] or localhost)';
const clientRule = 'must be the id that the provider has given to this client';
const scopeRule = 'must be a list of scopes, such as [profile, email, groups]';
const buttonRule = 'must be 1 to 40 letters, digits, blanks or any of . _ & - ( )';

/** `admin.oidc` in gateway.yaml. */
export const oidcSchema = z.strictObject({
  issuer: z
    .string(providerRule)
    .max(2_048, providerRule)
    .refine((issuer) => isUrl(issuer) && isSource(issuer), providerRule)
    .describe(
      'The URL of the provider, to the letter the `iss` of its tokens. The gateway reads `/.well-known/openid-configuration` below it at the first sign-in, and again after an hour; a provider that is away does not keep the gateway from starting.',
    ),
  clientId: text(clientRule).describe('The id that the provider has given to this client.'),
  clientSecretFile: values
    .orNull(values.file())
    .describe(
      'File with the secret that the provider has given to this client. Leave it out for a public client, which has none. Each sign-in is bound to its browser (PKCE) in both cases.',
    ),
  scopes: z
    .array(z.string(scopeRule).regex(/^[!#-[\]-~]{1,256}$/, scopeRule), scopeRule)
    .max(20, 'must not have more than 20 scopes')
    .prefault(['profile', 'email'])
    .describe('Scopes that the gateway asks for besides `openid`. Okta, Dex and Authelia ask for `groups` too.'),
  ...personClaims,
  name: z
    .string(buttonRule)
    .regex(/^[\p{L}\p{N}._&()-](?:[\p{L}\p{N} ._&()-]{0,38}[\p{L}\p{N}._&()-])?$/u, buttonRule)
    .prefault('single sign-on')
    .describe('Name of the provider on the sign-in page: “Sign in with …”.'),
});

/** How people sign in to the console at an OpenID provider (contract section 7). */
export type OidcSettings = values.Frozen<z.output<typeof oidcSchema>>;

function isUrl(jwks: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(jwks);
}

/**
 * Attack: a person in the middle replaces the issuer's keys and signs tokens for any subject. So keys from another machine
 * are fetched over https only, and so is everything else that decides who a caller is.
 */
export function isSource(jwks: string): boolean {
  if (!isUrl(jwks)) return true;
  const url = URL.parse(jwks);
  if (url === null || url.username !== '' || url.password !== '' || url.hash !== '') return false;
  const isHere = ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
  return url.protocol === 'https:' || (url.protocol === 'http:' && isHere);
}

/** Clients sign in at the issuer, which the metadata names by its URL. @param jwt as it is written */
export function checkResource(jwt: unknown, fault: Note): void {
  const issuer = field(jwt, 'issuer');
  if (field(jwt, 'resource') === undefined || typeof issuer !== 'string' || isUrl(issuer)) return;
  fault(['resource'], 'needs an `issuer` that is a URL, because clients look for the authorization server there.');
}

/** An attacker can guess keys with fewer characters than this after the prefix. */
const GUESSABLE = 16;
const length = () => values.wholeNumber(FOREIGN_LENGTHS.least, FOREIGN_LENGTHS.most);
const lengthRule = `must be a whole number from ${FOREIGN_LENGTHS.least} to ${FOREIGN_LENGTHS.most}, or a range such as [32, 44]`;
const alphabetRule = `must be one of ${Object.keys(ALPHABETS).join(', ')}`;
const prefixRule = 'must be at most 64 characters, each a letter, a digit or one of -_+/';

const format = z
  .strictObject({
    prefix: z
      .string(prefixRule)
      .regex(/^[A-Za-z0-9_+/-]{0,64}$/, prefixRule)
      .prefault('')
      .describe('Text that each key of this format begins with.'),
    length: z
      .union([length(), z.tuple([length(), length()], lengthRule)], lengthRule)
      .describe(
        'Number of characters in a key, including its prefix: one number, or the minimum and the maximum as a list.',
      ),
    characters: z
      .enum(Object.keys(ALPHABETS) as [AlphabetName, ...AlphabetName[]], alphabetRule)
      .prefault('base62')
      .describe('Alphabet of the characters after the prefix. For UUIDs, use `base64url`.'),
  })
  .transform(({ prefix, length, characters }): KeyFormat => {
    const [least, most] = typeof length === 'number' ? [length, length] : length;
    return { prefix, least, most, alphabet: characters };
  });

const PLACES = '`authorization`, `basic`, { header: X-API-Key }, { query: api_key }, { cookie: key }';
const fromRule = `must be a list of at least one of ${PLACES} and { subprotocol: key }`;
const placeRule = `must be ${PLACES} or { subprotocol: key }`;
const cookieRule = 'must be the name of a cookie, other than those of the console';
const parameterRule = 'must be 1 to 64 letters, digits or any of -._~';

const keySource = z
  .union(
    [
      z.enum(['authorization', 'basic']),
      z.strictObject({ header: values.token().describe('Name of a header field whose value is the key alone.') }),
      z.strictObject({
        query: z
          .string(parameterRule)
          .regex(/^[A-Za-z0-9._~-]{1,64}$/, parameterRule)
          .describe('Name of a parameter of the query whose value is the key.'),
      }),
      z.strictObject({
        cookie: z
          .string(cookieRule)
          .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, cookieRule)
          .refine((name) => !isConsoleCookie(name), cookieRule)
          .describe(
            'Name of a cookie whose value is the key. It is not read in a request that a page of another site may have made a browser send.',
          ),
      }),
      z.strictObject({
        subprotocol: z
          .string(parameterRule)
          .regex(/^[A-Za-z0-9._~-]{1,64}$/, parameterRule)
          .describe(
            'What stands before a dot and the key in one of the protocols that a WebSocket offers: with `key`, a page offers `chat` and `key.tg_live_…`. The service selects one of the others.',
          ),
      }),
    ],
    placeRule,
  )
  .transform((place): KeySource => {
    if (typeof place === 'string') return { kind: place };
    if ('cookie' in place) return { kind: 'cookie', name: place.cookie };
    if ('subprotocol' in place) return { kind: 'subprotocol', name: place.subprotocol };
    return 'header' in place ? { kind: 'header', name: place.header } : { kind: 'query', name: place.query };
  });

/** `keys` in gateway.yaml. */
export const keysSchema = z
  .strictObject({
    from: z
      .array(keySource, fromRule)
      .min(1, fromRule)
      .max(8, 'must not have more than 8 places')
      .optional()
      .transform(keySourcesOf)
      .describe(
        'Where a request may have its key: `authorization`, which is the default, `basic` (the password of `Authorization: Basic`, as in `git clone https://user:KEY@host`), `{ header: X-API-Key }`, `{ query: api_key }`, `{ cookie: key }` or `{ subprotocol: key }` of a WebSocket, in the order in which messages name them. A request with more than one key gets 400, even if they are equal, and so does one with a parameter that a service may take for a listed one, such as `api_key[]` or `API_KEY`. None of these places is forwarded or logged, whether the key was read there or not; `authorization` of a route says when `Authorization` is. A JSON Web Token is accepted in header fields only. Proxies, browsers and logs in front of the gateway keep queries, and shared caches protect responses to `Authorization` only, so prefer `authorization`.',
      ),
    certificates: z
      .boolean('must be true or false')
      .prefault(false)
      .describe(
        '`true` lets a request without a key or token come from the key whose `certificates` have the fingerprint, a URI or a DNS name of the client certificate of its connection. Needs `clientCa` in `listen.tls`. A key or token in the request comes first.',
      ),
    formats: z
      .array(format, 'must be a list of formats')
      .max(20, 'must not have more than 20 formats')
      .prefault([])
      .describe(
        "Formats of the keys that were imported with `tollgate keys import`. A key that fits none of them is refused without a look-up unless it has Tollgate's own checksum, so narrow formats keep a flood of made-up keys cheap.",
      ),
  })
  .prefault({});

/** The places in the order of the list; null for Authorization alone. */
function keySourcesOf(places: readonly z.output<typeof keySource>[] | undefined): readonly KeySource[] | null {
  if (places === undefined || (places.length === 1 && places[0]!.kind === 'authorization')) return null;
  return places;
}

/**
 * Fields that mean something to the gateway or to HTTP, besides those that the gateway writes itself.
 *
 * Attack: if the key were in X-Request-Id, it would be in every log.
 */
const NOT_FOR_KEYS =
  /^(?:accept.*|access-control-.*|alt-.*|cache-control|content-.*|cookie|date|from|idempotency-key|if-.*|origin|pragma|prefer|range|referer|sec-.*|user-agent)$/;

/** Checks what the schema cannot: places that are there twice, and fields that cannot be for a key alone. */
export function checkKeySources(keys: unknown, jwt: unknown, fault: Note): void {
  const from = asArray(field(keys, 'from'));
  const seen = new Set<string>();
  for (const [i, place] of from.entries()) {
    const at = ['from', i];
    const header = field(place, 'header');
    if (typeof header === 'string' && values.token().safeParse(header).success) {
      const lower = header.toLowerCase();
      if (lower === 'authorization') fault([...at, 'header'], 'is `authorization` here, without `header`; write that.');
      else if (hasPunctuation(header) || NOT_FOR_KEYS.test(lower) || faultOfRequestField(header) !== null) {
        fault(
          [...at, 'header'],
          'has another meaning or is not a usual name; choose a field for keys alone, such as X-API-Key.',
        );
      }
    }
    const text = JSON.stringify(typeof header === 'string' ? { header: header.toLowerCase() } : place);
    if (seen.has(text)) fault(at, 'is there already; leave it out.');
    seen.add(text);
  }
  const isOnlyQuery = from.length > 0 && from.every((place) => field(place, 'query') !== undefined);
  if (isOnlyQuery && jwt !== undefined) {
    fault(['from'], 'has no place for tokens, which are accepted in header fields alone; add `authorization`.');
  }
}

/** Checks what the schema cannot: values of one format that contradict each other or make keys guessable. */
export function checkKeyFormats(keys: unknown, fault: Note, warn: Note): void {
  for (const [i, raw] of asArray(field(keys, 'formats')).entries()) {
    const sound = format.safeParse(raw);
    if (!sound.success) continue;
    const { prefix, least, most } = sound.data;
    const at = ['formats', i];
    if (prefix.startsWith('tg_live_')) {
      fault(
        [...at, 'prefix'],
        "is how Tollgate's own keys begin, which need no format because they have a checksum; remove it.",
      );
    }
    if (most < least) fault([...at, 'length'], 'has the maximum before the minimum; write the smaller number first.');
    else if (least <= prefix.length) {
      fault([...at, 'length'], `must be more than the ${prefix.length} characters of the prefix, which it includes.`);
    } else if (least - prefix.length < GUESSABLE) {
      warn(
        [...at, 'length'],
        `allows keys with only ${least - prefix.length} characters after the prefix, which can be guessed.`,
      );
    }
  }
}
