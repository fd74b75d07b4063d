/** @returns the secret with another last character: one of the right form that nobody has, whatever the secret ended with */
export function altered(secret: string): string {
  return secret.slice(0, -1) + (secret.endsWith('0') ? '1' : '0');
}
