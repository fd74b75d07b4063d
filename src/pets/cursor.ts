import { parseInt64 } from './int64.ts';

/**
 * Where a page of animals begins: the id of its first one, in a form that clients have no reason to take apart.
 * Characters of base64url only, so it needs no escaping in a query.
 */
export function encodeCursor(firstId: bigint): string {
  return Buffer.from(`pet:${firstId}`).toString('base64url');
}

/** The id in a cursor, or null for anything `encodeCursor` did not make. */
export function decodeCursor(cursor: string): bigint | null {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const firstId = text.startsWith('pet:') ? parseInt64(text.slice('pet:'.length)) : null;
  // Node reads base64url leniently (padding, spaces, stray bits); a cursor has one form only.
  return firstId !== null && encodeCursor(firstId) === cursor ? firstId : null;
}
