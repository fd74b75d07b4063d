import type { ClientRequest, ClientResponse } from '../forward/client.ts';
import type { ClientFault } from '../forward/faults.ts';
import type { UpgradeClient } from '../forward/upgrade-client.ts';
import type { Head, HeadFault } from '../listen/head.ts';
import { type ClientConnection, LastAuthorization } from './caller.ts';
import { LastLines } from './last-lines.ts';
import type { Parts } from './parts.ts';
import { RequestFlow } from './request-flow.ts';
import { upgradeForm } from './upgrade-form.ts';

interface Connection extends ClientConnection {
  /** The request that it is busy with, for what is found wrong only while its body is read. */
  current: RequestFlow | null;
  client: UpgradeClient | null;
}

/** The gateway: one `handle` for each request whose head could be parsed. */
export class Gateway {
  #parts: Parts;
  #inFlight = 0;
  readonly #connections = new WeakMap<object, Connection>();

  constructor(parts: Parts) {
    this.#parts = this.#counting(parts);
  }

  /** Serves the requests that come from now on by these parts; those that run end by the parts they began with. */
  use(parts: Parts): void {
    this.#parts = this.#counting(parts);
  }

  /** Requests that have not ended. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether a request asks, in the right form and where it may, for another protocol on its connection. */
  mayUpgrade(head: Head): boolean {
    return this.#parts.router.match(head.path)?.route?.allowsUpgrade === true && upgradeForm(head).kind === 'upgrade';
  }

  /**
   * Serves one request to its end. Never throws and never rejects: what breaks becomes an answer.
   * @param client its connection, where `mayUpgrade` was true and the connection has been taken from HTTP
   */
  handle(
    request: ClientRequest,
    response: ClientResponse,
    head: Head | HeadFault,
    client: UpgradeClient | null = null,
  ): void {
    this.#inFlight++;
    let connection = this.#connections.get(request.socket);
    if (connection === undefined) {
      connection = { current: null, client, authorization: new LastAuthorization(), lastLines: new LastLines() };
      this.#connections.set(request.socket, connection);
    }
    connection.client = client;
    const flow = new RequestFlow(this.#parts, request, response, connection);
    connection.current = flow;
    flow.run(head);
  }

  /**
   * Ends the request that a connection is busy with, because its body is too slow, too large or malformed.
   * @returns false when there is none that could still be answered
   */
  breakOff(socket: object, code: ClientFault): boolean {
    return this.#connections.get(socket)?.current?.breakOff(code) ?? false;
  }

  #counting(parts: Parts): Parts {
    return {
      ...parts,
      close: (exchange) => {
        this.#inFlight--;
        parts.close(exchange);
      },
    };
  }
}
