import type { ErrorFormName } from '../errors/forms.ts';
import type { ErrorRules } from './error-rules.ts';
import type { ErrorForm, ErrorResponse, FormRequest } from './errors.ts';
import { grpcFormOf } from './grpc-errors.ts';

/**
 * The one place that chooses the form of an error.
 * @param ofRoute the form that the route of the request names; null if it names none, or has no route
 */
export function formOf(
  error: ErrorResponse,
  request: FormRequest,
  rules: ErrorRules,
  ofRoute: ErrorFormName | null,
): ErrorForm {
  const grpc = grpcFormOf(error, request);
  if (grpc !== null) return grpc;
  const { body, contentType, fields } = rules.shown(error, ofRoute, request.rawHeaders);
  const ofBody = ['Content-Type', contentType, 'Content-Length', String(Buffer.byteLength(body))];
  return { status: error.status, fields: [...error.fields, ...fields, ...ofBody], body };
}
