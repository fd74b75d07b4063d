/** A character of a token (RFC 9110 section 5.6.2), as part of a pattern. */
export const TOKEN_CHARACTER = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]";
/** A token: the name of a field, a method, the name of a protocol. */
export const TOKEN = new RegExp(`^${TOKEN_CHARACTER}+$`);
/** A field value (RFC 9110 section 5.5). */
export const VALUE = /^[\t -~\x80-\xff]*$/;
/** The largest integer of a structured field (RFC 9651 section 3.3.1). */
export const MAX_INTEGER = 999_999_999_999_999;
