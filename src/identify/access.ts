import { z } from 'zod';
import { Failure } from '../failure.ts';
import { META_NAME } from '../http1/field-rules.ts';
import { SCOPE_TOKEN } from '../http1/fields.ts';
import { faultOfNetwork, oneFormOfNetwork } from '../io/networks.ts';
import { faultOfCertificateName, oneFormOfCertificateName, thumbprintFrom } from './certificates.ts';
import { faultOfOrigin } from './origins.ts';

/*
 * What a record says of who may call what: the same members for every record that stands for callers. The operations, the
 * commands, keys.yaml and gateway.yaml read them with the schemas of this file.
 */

/** As a store has it. A member is absent where there is nothing to say, as in the records of earlier versions. */
export interface StoredAccess {
  /** What the caller may do: scope tokens of RFC 6749 section 3.3. */
  readonly scopes?: readonly string[];
  /** The addresses and networks that its requests must come from: `192.0.2.7`, `10.0.0.0/8`. */
  readonly addresses?: readonly string[];
  /** The origins of web pages that its requests must come from: `https://app.example.com`. */
  readonly origins?: readonly string[];
  /** Names of client certificates that stand for it (certificates.ts): `uri:spiffe://example.com/shop`. No two keys have one of them. */
  readonly certificates?: readonly string[];
  /** The thumbprint (`x5t#S256`, RFC 8705) of the client certificate without which it cannot be used. */
  readonly boundTo?: string;
  /** Pairs that operators keep with it, for rules of header fields and for their own use. */
  readonly meta?: Meta;
}

/** Metadata: a value for each name. */
export type Meta = Readonly<Record<string, string>>;

/**
 * The members to change. Absent members stay; null removes, and so does an empty list. Of `meta`, pairs that are absent stay,
 * and null removes one.
 */
export type AccessEdits = {
  readonly [Member in Exclude<keyof StoredAccess, 'meta'>]?: StoredAccess[Member] | null | undefined;
} & { readonly meta?: Readonly<Record<string, string | null>> | null | undefined };

const MAX_SCOPES = 32;
const scopeRule = 'must be 1 to 128 visible characters without blanks, " and \\, such as orders:write';
const scopesRule = `must be a list of at most ${MAX_SCOPES} scopes`;
/** Scopes (RFC 6749 section 3.3), for a caller or a route. */
export const scopes = z
  .array(z.string(scopeRule).regex(SCOPE_TOKEN, scopeRule), scopesRule)
  .max(MAX_SCOPES, scopesRule);

const MAX_ADDRESSES = 64;
const addressRule = 'must be an IP address or network, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32';
const addressesRule = `must be a list of at most ${MAX_ADDRESSES} addresses and networks`;
/** Addresses and networks in their one form, for a caller or a route. */
export const addresses = z
  .array(
    z
      .string(addressRule)
      .superRefine((text, context) => {
        const message = faultOfNetwork(text);
        if (message !== null) context.addIssue({ code: 'custom', message });
      })
      .overwrite((text) => (faultOfNetwork(text) === null ? oneFormOfNetwork(text) : text))
      .meta({ title: 'IP address or network' }),
    addressesRule,
  )
  .max(MAX_ADDRESSES, addressesRule);

const MAX_ORIGINS = 32;
const originRule = 'must be an origin such as https://app.example.com or https://*.example.com';
const originsRule = `must be a list of at most ${MAX_ORIGINS} origins`;
const origins = z
  .array(
    z
      .string(originRule)
      .superRefine((text, context) => {
        const message = faultOfOrigin(text);
        if (message !== null) context.addIssue({ code: 'custom', message });
      })
      .meta({ title: 'origin of web pages' }),
    originsRule,
  )
  .max(MAX_ORIGINS, originsRule);

const MAX_CERTIFICATES = 16;
const certificateRule =
  'must be a name of client certificates, such as sha256:…, uri:spiffe://example.com/shop or dns:shop.internal';
const certificatesRule = `must be a list of at most ${MAX_CERTIFICATES} names of client certificates`;
const certificates = z
  .array(
    z
      .string(certificateRule)
      .superRefine((text, context) => {
        const message = faultOfCertificateName(text);
        if (message !== null) context.addIssue({ code: 'custom', message });
      })
      .overwrite(oneFormOfCertificateName)
      .meta({ title: 'name of client certificates' }),
    certificatesRule,
  )
  .max(MAX_CERTIFICATES, certificatesRule);

const boundToRule =
  'must be the SHA-256 of a client certificate: 43 characters of base64url (x5t#S256), or 64 hexadecimal digits';
const boundTo = z
  .string(boundToRule)
  .refine((text) => thumbprintFrom(text) !== null, boundToRule)
  .overwrite((text) => thumbprintFrom(text) ?? text);

const MAX_META = 16;
const metaNameRule = 'must be 1 to 32 lower-case letters, digits, _ and -, and begin with a letter';
const metaValueRule = 'must be a text of 1 to 256 characters in one line, without control characters';
const metaRule = `must be at most ${MAX_META} pairs of a name and a text, such as team: blue`;
export const metaName = z.string(metaNameRule).regex(new RegExp(`^${META_NAME}$`), metaNameRule);
const metaValue = z
  .string(metaValueRule)
  .refine(
    (text) =>
      text !== '' && [...text].length <= 256 && text.isWellFormed() && !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text),
    metaValueRule,
  );
const metaError = ({ code }: { readonly code?: string }) => (code === 'invalid_key' ? metaNameRule : metaRule);
const meta = z
  .record(metaName, metaValue, { error: metaError })
  .refine((pairs) => Object.keys(pairs).length <= MAX_META, metaRule);

/** Metadata after a change: the pairs that it names. Those that are absent stay; null removes one. */
export const editedMeta = z.record(metaName, metaValue.nullable(), { error: metaError });

/** The members as operators give them. */
export const ACCESS = {
  scopes: scopes.describe(
    'What callers may do: scopes such as orders:write, at most 32. Routes name those that they require (`scopes` in gateway.yaml).',
  ),
  addresses: addresses.describe(
    'The addresses and networks that requests must come from, such as 192.0.2.7 or 2001:db8::/32, at most 64. Without any, from everywhere.',
  ),
  origins: origins.describe(
    'For a key in a web page: the origins of the pages that may use it, such as https://app.example.com, or https://*.example.com for all subdomains, at most 32. Without any, every page and program may.',
  ),
  certificates: certificates.describe(
    'Names of client certificates that stand for the key, with `keys.certificates` in gateway.yaml: `sha256:` and the fingerprint of one certificate, or `uri:` or `dns:` and a name of its subjectAltName; at most 16. No two keys have the same name.',
  ),
  boundTo: boundTo.describe(
    'The SHA-256 of the client certificate without which the key cannot be used (`x5t#S256`, RFC 8705), in base64url or in hexadecimal.',
  ),
  meta: meta.describe(
    'Metadata: up to 16 pairs of a name (`[a-z][a-z0-9_-]{0,31}`) and a text of up to 256 characters. Rules of header fields can have them, as `{consumer.meta.NAME}`.',
  ),
};

/** Each of them may be left out. */
export const givenAccess = z.object(ACCESS).partial();

/** The same of a customer. Certificates stand for keys alone. */
export const CUSTOMER_ACCESS = {
  scopes: scopes.describe(
    'What callers with keys and tokens of the customer may do, beside the scopes of the key or token itself, at most 32.',
  ),
  addresses: addresses.describe(
    "The addresses and networks that requests of all its callers must come from, at most 64. A key's own list must allow the address as well.",
  ),
  origins: origins.describe(
    "The origins of the web pages that requests of all its callers must come from, at most 32. A key's own list must allow the page as well.",
  ),
  meta: meta.describe(
    'Metadata: up to 16 pairs of a name (`[a-z][a-z0-9_-]{0,31}`) and a text of up to 256 characters. Rules of header fields have them for all its ' +
      'callers as `{consumer.meta.NAME}`; a pair of a key stands in place of one of the same name.',
  ),
};

/** Each of them may be left out. */
export const givenCustomerAccess = z.object(CUSTOMER_ACCESS).partial();

type Member = keyof typeof ACCESS;
export const ACCESS_MEMBERS = Object.keys(ACCESS) as readonly Member[];
export const CUSTOMER_ACCESS_MEMBERS = Object.keys(CUSTOMER_ACCESS) as readonly (keyof typeof CUSTOMER_ACCESS)[];

/** The members as the store has them. Loose: a later version may allow more. */
export const STORED_ACCESS = {
  scopes: z.array(z.string()).optional(),
  addresses: z.array(z.string()).optional(),
  origins: z.array(z.string()).optional(),
  certificates: z.array(z.string()).optional(),
  boundTo: z.string().optional(),
  meta: z.record(z.string(), z.string()).optional(),
};

/** What a record says of who may call what, without its other members. */
export function accessOf(record: StoredAccess): StoredAccess {
  return Object.fromEntries(
    ACCESS_MEMBERS.flatMap((member) => (record[member] === undefined ? [] : [[member, record[member]]])),
  );
}

/** A record without what it says of who may call what. */
export function withoutAccess<Of extends StoredAccess>(record: Of): Omit<Of, Member> {
  return Object.fromEntries(
    Object.entries(record).filter(([name]) => !ACCESS_MEMBERS.includes(name as Member)),
  ) as Omit<Of, Member>;
}

/**
 * What a record says after a change.
 * @throws Failure `refused` with the first fault
 */
export function changedAccess(before: StoredAccess, edits: AccessEdits): StoredAccess {
  const changed = ACCESS_MEMBERS.map((member) => {
    const given = edits[member];
    if (given === undefined) return [member, before[member]] as const;
    return [member, soundValue(member, member === 'meta' ? mergedMeta(before.meta, edits.meta) : given)] as const;
  });
  return Object.fromEntries(changed.filter(([, value]) => value !== undefined));
}

/** @returns undefined if there is nothing to say */
function soundValue(member: Member, given: unknown): unknown {
  if (given === null) return undefined;
  const read = ACCESS[member].safeParse(given);
  if (!read.success) {
    const { path, message } = read.error.issues[0]!;
    throw new Failure('refused', `${[member, ...path].join('.')} ${message}.`);
  }
  const value = Array.isArray(read.data) ? [...new Set(read.data)] : read.data;
  return Object.keys(value).length === 0 ? undefined : value;
}

function mergedMeta(before: Meta | undefined, edits: AccessEdits['meta']): Meta {
  const pairs = edits == null ? [] : Object.entries({ ...before, ...edits }).filter(([, value]) => value !== null);
  return Object.fromEntries(pairs) as Meta;
}

/** The edits that make metadata what is wanted, as a whole. */
export function metaEdits(before: Meta | undefined, wanted: Meta): NonNullable<AccessEdits['meta']> {
  return { ...Object.fromEntries(Object.keys(before ?? {}).map((name) => [name, null])), ...wanted };
}

/** Where the requests of a caller must come from. Each member is absent where any place will do. */
export type OnlyFrom = Pick<StoredAccess, 'addresses' | 'origins' | 'boundTo'>;

/** @returns null if requests may come from anywhere */
export function onlyFromOf(
  members: {
    readonly [Member in keyof OnlyFrom]: OnlyFrom[Member] | undefined;
  },
): OnlyFrom | null {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return present.length === 0 ? null : Object.fromEntries(present);
}
