import { isSecretLike } from './text-filter.tsx';

/**
 * The form of request ids. One that a client sends in another form is replaced by the gateway. Dots alone would be steps
 * of a path.
 */
const REQUEST_ID = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}$/;
/** How the secrets of other makers mostly begin. */
const SECRET = /^[a-z]{2,}_(live|test|prod)_|^sk[_-]/i;

/** Whether a text has the form of a secret, ours or another maker's, which no address may have. */
export function hasFormOfSecret(text: string): boolean {
  return text.includes('tg_live_') || SECRET.test(text);
}

/** Whether a text that should be a name or an id may be a secret of any maker, which no address may have. */
export function mayBeSecret(text: string): boolean {
  return isSecretLike(text) || hasFormOfSecret(text);
}

/** Whether a text may be the id of a request. */
export function isRequestId(text: string): boolean {
  return REQUEST_ID.test(text) && !hasFormOfSecret(text);
}
