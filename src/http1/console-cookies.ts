import { cookieName, withoutCookies } from './cookies.ts';

/**
 * The cookies of the console: of its sessions and, of a sign-in at an OpenID provider, the one that binds it to the browser. Browsers separate cookies by host name, not by port, and SameSite does not separate
 * ports either. So a browser that is signed in to the console sends its cookie to the public port of the same host as well.
 *
 * Attack: the gateway forwards that cookie, and the service, or a reader of its logs, changes keys with it. Or the service
 * sets a cookie of that name, and the operator's next sign-in is worth nothing.
 *
 * So no cookie of these names passes the gateway in either direction.
 */
export const CONSOLE_COOKIE = { plain: 'tollgate', encrypted: '__Host-tollgate' } as const;
export const OIDC_COOKIE = { plain: 'tollgate-sign-in', encrypted: '__Host-tollgate-sign-in' } as const;

const NAMES: readonly string[] = [CONSOLE_COOKIE, OIDC_COOKIE].flatMap((names) => Object.values(names));
/** A part of each of the names: most values lack it, so that no further test is needed. */
const COMMON = 'tollgate';

/** Whether a Set-Cookie field sets a cookie of the console. */
export function setsConsoleCookie(value: string): boolean {
  return value.includes(COMMON) && isConsoleCookie(cookieName(value));
}

/** The Cookie field without the cookies of the console; empty if it has no others. */
export function withoutConsoleCookies(value: string): string {
  return value.includes(COMMON) ? withoutCookies(value, isConsoleCookie) : value;
}

export function isConsoleCookie(name: string): boolean {
  return NAMES.includes(name);
}
