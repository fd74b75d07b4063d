import { onlyValue } from '../http1/fields.ts';
import type { ErrorForm, ErrorResponse, FormRequest } from './errors.ts';

/** `application/grpc`, perhaps with the form of its messages; not gRPC-Web, which is ordinary HTTP. */
const GRPC = /^application\/grpc(?:[+;].*)?$/i;

/** Whether a request is a call of gRPC, whose client reads a status in trailers and nothing else. */
export function asksInGrpc({ rawHeaders, takesTrailers }: FormRequest): boolean {
  return takesTrailers && GRPC.test(onlyValue(rawHeaders, 'content-type') ?? '');
}

const [INVALID_ARGUMENT, DEADLINE_EXCEEDED, PERMISSION_DENIED, RESOURCE_EXHAUSTED, ABORTED] = [3, 4, 7, 8, 10];
const [UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED] = [12, 13, 14, 16];

/** The status codes of gRPC by those of HTTP. Others are INVALID_ARGUMENT from 400 and INTERNAL from 500 on. */
const STATUS: Readonly<Record<number, number>> = {
  401: UNAUTHENTICATED,
  402: PERMISSION_DENIED,
  403: PERMISSION_DENIED,
  404: UNIMPLEMENTED,
  405: UNIMPLEMENTED,
  408: DEADLINE_EXCEEDED,
  409: ABORTED,
  410: UNIMPLEMENTED,
  413: RESOURCE_EXHAUSTED,
  421: UNAVAILABLE,
  429: RESOURCE_EXHAUSTED,
  501: UNIMPLEMENTED,
  502: UNAVAILABLE,
  503: UNAVAILABLE,
  504: DEADLINE_EXCEEDED,
};

/**
 * An error as a call of gRPC gets it: HTTP 200 without a body, and a status in what is head and trailers at once ("Trailers-Only" in
 * PROTOCOL-HTTP2 of gRPC). Clients with a retry policy wait for `grpc-retry-pushback-ms` (proposal A6 of gRPC), all others may read
 * Retry-After.
 */
export function grpcForm({ status, fields, body }: ErrorResponse): ErrorForm {
  const { message } = JSON.parse(body) as { readonly message: string };
  const retryAfter = onlyValue(fields, 'retry-after');
  const pushback = retryAfter === null ? [] : ['grpc-retry-pushback-ms', String(Number(retryAfter) * 1000)];
  const code = STATUS[status] ?? (status < 500 ? INVALID_ARGUMENT : INTERNAL);
  const own = ['Content-Type', 'application/grpc', 'grpc-status', String(code), 'grpc-message', encoded(message)];
  return { status: 200, fields: [...fields, ...own, ...pushback], body: '' };
}

/** Percent-encoded where it is not printable ASCII, as is `%` itself. */
function encoded(message: string): string {
  return message.toWellFormed().replace(/[^ -$&-~]+/g, encodeURIComponent);
}
