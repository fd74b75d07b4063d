import type { ErrorDocs } from './error-docs.ts';
import type { ErrorForm, ErrorResponse, FormRequest } from './errors.ts';
import { asksInGrpc, grpcForm } from './grpc-errors.ts';

/** The one place that chooses the form of an error by its request. @param docs null if errors have no documentation */
export function formOf(error: ErrorResponse, request: FormRequest, docs: ErrorDocs | null): ErrorForm {
  if (asksInGrpc(request)) return grpcForm(error);
  const shown = docs?.shown(error, request.rawHeaders) ?? null;
  const body = shown?.body ?? error.body;
  const type = ['Content-Type', shown?.contentType ?? 'application/json'];
  const length = ['Content-Length', String(Buffer.byteLength(body))];
  return { status: error.status, fields: [...error.fields, ...(shown?.fields ?? []), ...type, ...length], body };
}
