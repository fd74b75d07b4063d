import { ROLES, type Role } from '../config/admin-tokens-file.ts';
import type { OidcSettings } from '../config/identification.ts';

/** The longest name of a person that is accepted, in UTF-16 code units. */
const MAX_NAME = 256;
/** Values of the role claim that are looked at. */
const MAX_VALUES = 1_000;

/** A person who was signed in by an authenticating proxy or an OpenID provider. */
export interface Person {
  readonly name: string;
  readonly role: Role;
}

/**
 * The person that claims name, or why they name none.
 * @param source whose claims they are, for the sentence
 */
export function personIn(
  claims: Readonly<Record<string, unknown>>,
  { nameClaim, roleClaim, roles }: Pick<OidcSettings, 'nameClaim' | 'roleClaim' | 'roles'>,
  source: string,
): Person | { readonly why: string } {
  const name = Object.hasOwn(claims, nameClaim) ? claims[nameClaim] : undefined;
  if (
    typeof name !== 'string' ||
    name.length > MAX_NAME ||
    !/^[^\p{C}\p{Z}]([^\p{C}\p{Zl}\p{Zp}]*[^\p{C}\p{Z}])?$/u.test(name)
  ) {
    return { why: `There is no name in the claim "${nameClaim}" of ${source}.` };
  }
  const claim = Object.hasOwn(claims, roleClaim) ? claims[roleClaim] : undefined;
  const values: readonly unknown[] = Array.isArray(claim) ? claim.slice(0, MAX_VALUES) : [claim];
  const found = values.flatMap((value) =>
    typeof value === 'string' && Object.hasOwn(roles, value) ? roles[value]! : [],
  );
  const role = ROLES.findLast((one) => found.includes(one));
  return role === undefined
    ? { why: `The claim "${roleClaim}" of ${source} gives no role on this gateway.` }
    : { name, role };
}
