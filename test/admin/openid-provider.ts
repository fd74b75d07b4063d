import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { jwksOf, type SigningKey, signingKey } from '../identify/jwt-issuer.ts';
import { atEnd } from '../support/endings.ts';
import { countConnections, listen } from '../support/listening.ts';

export const CLIENT = { id: 'tollgate-console', secret: 'a secret: of/the client+' };

/** An OpenID provider on this machine, as strict as a good one: a code works once, for its client, redirect URI and PKCE verifier. */
export class OpenIdProvider {
  readonly issuer: string;
  readonly key: SigningKey;
  /** The claims of who is signed in at the provider. */
  account: object = { sub: 'u-1', email: 'jo@example.com', email_verified: true, groups: ['staff', 'support'] };
  userInfo: object = {};
  /** What the ID token is, made of its right claims. */
  idToken: (claims: Readonly<Record<string, unknown>>) => Promise<string> | string = (claims) => this.key.sign(claims);
  /** Changes what the provider says of itself. */
  metadata: object = {};
  /** Answers in place of the provider; false leaves the answer to it. */
  instead: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  readonly asked: string[] = [];
  readonly close: () => Promise<void>;
  readonly #codes = new Map<string, URLSearchParams>();

  private constructor(issuer: string, key: SigningKey, close: () => Promise<void>) {
    this.issuer = issuer;
    this.key = key;
    this.close = close;
  }

  /** @param port 0: any free one */
  static async start(port = 0): Promise<OpenIdProvider> {
    const key = await signingKey('one', 'RS256');
    const server = createServer((request, response) => void provider.#answer(request, response));
    const { close } = countConnections(server, () => {});
    const { origin } = await listen(server, port);
    const provider = new OpenIdProvider(origin, key, close);
    atEnd(close);
    return provider;
  }

  /** What the provider does once the person has agreed. @returns where it sends the browser */
  consent(authorization: string): string {
    const asked = new URL(authorization).searchParams;
    const code = randomUUID();
    this.#codes.set(code, asked);
    const answer = { code, state: asked.get('state')!, iss: this.issuer };
    return `${asked.get('redirect_uri')}?${new URLSearchParams(answer)}`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url!.split('?', 1)[0]!;
    this.asked.push(`${request.method} ${path}`);
    const json = (body: object, status = 200) =>
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
    if (this.instead(request, response)) return;
    if (path === '/.well-known/openid-configuration') json({ ...this.#ownMetadata(), ...this.metadata });
    else if (path === '/jwks') json(JSON.parse(jwksOf(this.key)));
    else if (path === '/userinfo') json(this.userInfo);
    else if (path === '/authorize')
      response.writeHead(302, { Location: this.consent(this.issuer + request.url!) }).end();
    else if (path === '/token') {
      const given = await this.#tokens(new URLSearchParams(await text(request)));
      json(given, 'error' in given ? 400 : 200);
    } else json({ error: 'not_found' }, 404);
  }

  #ownMetadata(): object {
    const { issuer } = this;
    return {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      userinfo_endpoint: `${issuer}/userinfo`,
      response_types_supported: ['code'],
      id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none'],
      token_endpoint_auth_methods_supported: ['client_secret_post'],
      authorization_response_iss_parameter_supported: true,
    };
  }

  async #tokens(form: URLSearchParams): Promise<object> {
    // Without a secret it is a public client.
    if (form.get('client_id') !== CLIENT.id || (form.get('client_secret') ?? CLIENT.secret) !== CLIENT.secret)
      return { error: 'invalid_client' };
    const asked = this.#codes.get(form.get('code') ?? '');
    this.#codes.delete(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isRight =
      asked?.get('code_challenge') === challenge && asked.get('redirect_uri') === form.get('redirect_uri');
    if (!isRight) return { error: 'invalid_grant' };
    const now = Math.floor(Date.now() / 1000);
    const times = { iat: now, exp: now + 300 };
    const claims = { iss: this.issuer, aud: CLIENT.id, nonce: asked!.get('nonce'), ...times, ...this.account };
    return { access_token: randomUUID(), token_type: 'Bearer', id_token: await this.idToken(claims) };
  }
}
