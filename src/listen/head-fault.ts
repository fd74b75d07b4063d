/** Why a head is refused; the codes are those of contract section 4. */
export interface HeadFault {
  readonly kind: 'fault';
  readonly code:
    | 'invalid_request'
    | 'uri_too_long'
    | 'headers_too_large'
    | 'payload_too_large'
    | 'expectation_failed'
    | 'not_implemented'
    | 'http_version_not_supported';
  /** A sentence for the developer who reads it. */
  readonly message: string;
}

export function fault(code: HeadFault['code'], message: string): HeadFault {
  return { kind: 'fault', code, message };
}
