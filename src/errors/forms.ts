/**
 * The forms of the gateway's own errors (`errors.form` in gateway.yaml): its own, problem details (RFC 9457), and those in which the clients of
 * OpenAI, Anthropic, JSON-RPC 2.0 and GraphQL look for code and message.
 */
export const ERROR_FORMS = ['own', 'problem', 'openai', 'anthropic', 'json-rpc', 'graphql'] as const;

export type ErrorFormName = (typeof ERROR_FORMS)[number];
