/** The message of an error. That of several attempts, one for each address of a name, is empty: theirs stand in its place. */
export function messageOf(error: Error): string {
  if (error.message !== '' || !(error instanceof AggregateError)) return error.message;
  return error.errors.map((one) => (one instanceof Error ? one.message : String(one))).join(', ');
}
