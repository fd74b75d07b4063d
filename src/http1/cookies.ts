/** A browser sends a cookie that was set without a name, as `=a=b`, in the form `a=b`. */
const BEFORE_NAME = /^[=\s]+/;

/** The name of a cookie. @param pair a cookie, with what Set-Cookie may have behind it */
export function cookieName(pair: string): string {
  return pair.replace(BEFORE_NAME, '').split(/[=;]/, 1)[0]!.trim();
}

/** The values of a cookie in their order (RFC 6265 section 4.2.1). @param fields the values of the Cookie fields */
export function cookieValues(fields: readonly string[], name: string): string[] {
  return fields
    .flatMap((field) => field.split(';'))
    .flatMap((pair) => {
      const equals = pair.indexOf('=');
      return equals !== -1 && pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : [];
    });
}

/** A Cookie field without the cookies that are dropped; empty if it has no others. */
export function withoutCookies(value: string, isDropped: (name: string) => boolean): string {
  const pairs = value.split(';');
  const kept = pairs.filter((pair) => !isDropped(cookieName(pair)));
  return kept.length === pairs.length ? value : kept.join(';').trim();
}
