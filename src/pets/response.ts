import { toJson } from './pet.ts';

/** A complete answer. `body` is JSON text. */
export interface PetResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export function jsonResponse(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): PetResponse {
  return { status, headers, body: toJson(value) };
}

/** An answer with the interface's Error body (section 7): code, message, status. */
export function errorResponse(
  code: RefusalCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): PetResponse {
  const status = STATUS[code];
  return jsonResponse(status, { code, message, status }, headers);
}

export type RefusalCode = keyof typeof STATUS;

/** The gateway's codes (contract section 4) where it has one for the case. */
const STATUS = {
  invalid_request: 400,
  not_found: 404,
  pet_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  payload_too_large: 413,
  expectation_failed: 417,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
} as const;
