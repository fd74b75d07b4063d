import { onlyValue, responseLinesOf } from '../http1/fields.ts';
import type { ErrorForm, ErrorResponse, FormRequest } from './errors.ts';

/** `application/grpc`, perhaps with the form of its messages; not gRPC-Web. */
const GRPC = /^application\/grpc(?:[+;].*)?$/i;
/** gRPC-Web, whose messages are bytes, or base64 (`-text`), perhaps with their form. */
const GRPC_WEB = /^application\/grpc-web(-text)?(?:\+[\w.-]+)?(?=;|$)/i;

/** Whether a request is a call of gRPC-Web, whose client reads a status in the last frame of the body. */
export function asksInGrpcWeb(rawHeaders: readonly string[]): boolean {
  return GRPC_WEB.test(typeOf(rawHeaders));
}

/** An error as a call of gRPC or gRPC-Web gets it; null if the request is another one. */
export function grpcFormOf(error: ErrorResponse, { rawHeaders, method, takesTrailers }: FormRequest): ErrorForm | null {
  if (method !== null && method !== 'POST') return null;
  const type = typeOf(rawHeaders);
  if (takesTrailers && GRPC.test(type)) return grpcForm(error);
  const [webType, isText] = GRPC_WEB.exec(type) ?? [];
  return webType === undefined ? null : grpcWebForm(error, webType, isText !== undefined);
}

function typeOf(rawHeaders: readonly string[]): string {
  return onlyValue(rawHeaders, 'content-type') ?? '';
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
 * HTTP 200 without a body, and a status in what is head and trailers at once ("Trailers-Only" in PROTOCOL-HTTP2 of gRPC). Clients with a
 * retry policy wait for `grpc-retry-pushback-ms` (proposal A6 of gRPC), all others may read Retry-After.
 */
function grpcForm(error: ErrorResponse): ErrorForm {
  const fields = [...error.fields, 'Content-Type', 'application/grpc', ...statusOf(error)];
  return { status: 200, fields, body: '' };
}

/**
 * HTTP 200, and a body of one frame with the trailers (PROTOCOL-WEB of gRPC), which a page reads also where it may not read fields.
 * @param type as the client sent it
 * @param isText whether its frames are encoded
 */
function grpcWebForm(error: ErrorResponse, type: string, isText: boolean): ErrorForm {
  const lines = [...error.fields, ...statusOf(error)];
  const trailers = Buffer.from(responseLinesOf(lines.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : text))));
  const head = Buffer.of(TRAILERS_FRAME, 0, 0, 0, 0);
  head.writeUInt32BE(trailers.length, 1);
  const frame = Buffer.concat([head, trailers]);
  const body = isText ? frame.toString('base64') : frame;
  return { status: 200, fields: ['Content-Type', type, 'Content-Length', String(body.length)], body };
}

/** The highest bit of the flags of a frame says that it has trailers. */
const TRAILERS_FRAME = 0x80;

/** Names and values in turn. */
function statusOf({ status, fields, body }: ErrorResponse): readonly string[] {
  const { message } = JSON.parse(body) as { readonly message: string };
  const retryAfter = onlyValue(fields, 'retry-after');
  const pushback = retryAfter === null ? [] : ['grpc-retry-pushback-ms', String(Number(retryAfter) * 1000)];
  const code = STATUS[status] ?? (status < 500 ? INVALID_ARGUMENT : INTERNAL);
  return ['grpc-status', String(code), 'grpc-message', encoded(message), ...pushback];
}

/** Percent-encoded where it is not printable ASCII, as is `%` itself. */
function encoded(message: string): string {
  return message.toWellFormed().replace(/[^ -$&-~]+/g, encodeURIComponent);
}
