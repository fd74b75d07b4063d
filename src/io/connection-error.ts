/** The message of an error. The error of several attempts, one for each address of a name, has none; their messages replace it. */
export function messageOf(error: Error): string {
  if (error.message !== '' || !(error instanceof AggregateError)) return error.message;
  return error.errors.map((one) => (one instanceof Error ? one.message : String(one))).join(', ');
}
