/** What came out of checking something a client sent: the value, or one sentence that names the field at fault. */
export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

export function passed<T>(value: T): Checked<T> {
  return { ok: true, value };
}

export function fault(sentence: string): Checked<never> {
  return { ok: false, fault: sentence };
}
