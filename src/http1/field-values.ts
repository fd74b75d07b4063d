/*
 * Reads single fields from a list of alternating names and values, such as `rawHeaders` of node:http. Its `headers` are not
 * used, because they join or drop the values of repeated fields.
 */

/** The values of a field in their order, one for each time that the client sent it. @param name in lower case */
export function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) if (isNamed(rawHeaders[i]!, name)) values.push(rawHeaders[i + 1]!);
  return values;
}

/** The only value of a field; null if the field is missing or repeated. @param name in lower case */
export function onlyValue(rawHeaders: readonly string[], name: string): string | null {
  let value: string | null = null;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!isNamed(rawHeaders[i]!, name)) continue;
    if (value !== null) return null;
    value = rawHeaders[i + 1]!;
  }
  return value;
}

/** The lengths are compared first, so that most fields are skipped without a copy of their name. */
function isNamed(fieldName: string, name: string): boolean {
  return fieldName.length === name.length && fieldName.toLowerCase() === name;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;

/** The client's own request id; null unless it sent exactly one, in valid form. */
export function requestIdOf(rawHeaders: readonly string[]): string | null {
  const id = onlyValue(rawHeaders, 'x-request-id');
  return id !== null && REQUEST_ID.test(id) ? id : null;
}
