import { errors } from 'jose';

/** What is wrong with a token; each has its sentence for the caller in annotate/error.ts. */
export type JwtRefusal =
  | 'malformed'
  | 'too_long'
  /** Signed in a way that is not accepted here, or not at all. */
  | 'algorithm'
  /** None of the issuer's keys is the one that it names, or it names none and there are several. */
  | 'unknown_key'
  | 'signature'
  | 'issuer'
  | 'audience'
  | 'expired'
  /** `exp` is missing, or no time. */
  | 'no_expiry'
  /** `nbf` or `iat` is in the future, or no time. */
  | 'not_yet'
  /** `sub` is missing or empty. */
  | 'subject'
  /** The claim that names the plan is missing, or names none that a token can have. */
  | 'plan';

const OF_CLAIM: Readonly<Record<string, JwtRefusal>> = {
  iss: 'issuer',
  aud: 'audience',
  exp: 'no_expiry',
  nbf: 'not_yet',
  iat: 'not_yet',
  sub: 'subject',
};

/** What jose found wrong with a token; null where it was not the token. */
export function refusalOf(error: unknown): JwtRefusal | null {
  if (error instanceof errors.JWTExpired) return 'expired';
  if (error instanceof errors.JWTClaimValidationFailed) return OF_CLAIM[error.claim] ?? 'malformed';
  if (error instanceof errors.JOSEAlgNotAllowed) return 'algorithm';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'signature';
  if (error instanceof errors.JWKSNoMatchingKey) return 'unknown_key';
  if (error instanceof errors.JWKSMultipleMatchingKeys) return 'unknown_key';
  if (error instanceof errors.JWKSInvalid) return null;
  // Among them a `crit` that nobody here understands (RFC 7515 section 4.1.11).
  return error instanceof errors.JOSEError ? 'malformed' : null;
}
