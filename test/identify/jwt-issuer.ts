import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { exportJWK, generateKeyPair, type JWK, type JWTHeaderParameters, SignJWT } from 'jose';
import { atEnd } from '../support/endings.ts';
import { countConnections, listen } from '../support/listening.ts';

export const ISSUER = 'https://id.example.com/';
export const AUDIENCE = 'https://api.example.com';

/** A key of an issuer: what it publishes, and what it signs with. */
export interface SigningKey {
  readonly jwk: JWK;
  sign(claims?: object, header?: object): Promise<string>;
  /** Signs texts that no library would make, with ES256. */
  signTexts(header: string, claims: string): Promise<string>;
}

/** Makes a key of an issuer. Its tokens are good by default otherwise; a claim that is undefined is left out. */
export async function signingKey(kid: string | null = 'one', alg = 'ES256'): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const named = kid === null ? {} : { kid };
  return {
    jwk: { ...(await exportJWK(publicKey)), ...named, alg, use: 'sig' },
    sign: (claims = {}, header = {}) => {
      const nowSeconds = Math.floor(Date.now() / 1000);
      const all = { iss: ISSUER, aud: AUDIENCE, sub: 'ann', plan: 'free', iat: nowSeconds, exp: nowSeconds + 600 };
      const protectedHeader = { alg, ...named, ...header } as JWTHeaderParameters;
      return new SignJWT({ ...all, ...claims }).setProtectedHeader(protectedHeader).sign(privateKey);
    },
    signTexts: async (header, claims) => {
      const unsigned = rawToken(header, claims).slice(0, -1);
      const how = { name: 'ECDSA', hash: 'SHA-256' };
      const signature = await crypto.subtle.sign(how, privateKey, Buffer.from(unsigned));
      return `${unsigned}.${Buffer.from(signature).toString('base64url')}`;
    },
  };
}

/** A token of parts that no library would make. */
export function rawToken(header: unknown, claims: unknown, signature = ''): string {
  const part = (value: unknown) =>
    Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
  return `${part(header)}.${part(claims)}.${signature}`;
}

export const jwksOf = (...keys: readonly SigningKey[]) => JSON.stringify({ keys: keys.map(({ jwk }) => jwk) });

/** A server of a key set on 127.0.0.1, which counts what it is asked. At the end of the test it is closed. */
export async function startJwksServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  port = 0,
): Promise<{ readonly url: string; readonly port: number; readonly asked: number; close(): Promise<void> }> {
  let asked = 0;
  const server = createServer((request, response) => {
    asked++;
    answer(request, response);
  });
  const { close } = countConnections(server, () => {});
  const { origin, port: bound } = await listen(server, port);
  atEnd(close);
  return {
    url: `${origin}/jwks.json`,
    port: bound,
    get asked() {
      return asked;
    },
    close,
  };
}
