import type { Socket } from 'node:net';
import type { ErrorForm, ErrorResponse } from '../annotate/errors.ts';
import type { ClientBodyErrorCode } from '../forward/faults.ts';
import type { UpgradeClient } from '../forward/websocket/upgrade.ts';
import type { ClientRequest, ClientResponse } from '../http1/client.ts';
import type { Head, HeadFault } from '../http1/request-head.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { FORWARDED } from './proxy-request.ts';
import { formedForUnparsed } from './replies.ts';
import { RequestFlow } from './request-flow.ts';
import { RunningRequests } from './running-requests.ts';
import { Upgrade } from './upgrade-request.ts';

/** The gateway: one `handle` for each request whose head could be parsed. */
export class Gateway {
  #deps: GatewayDeps;
  readonly #running = new RunningRequests();

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
  }

  /** Serves new requests with these dependencies. Running requests keep those with which they began. */
  use(deps: GatewayDeps): void {
    this.#deps = deps;
  }

  /** Requests that have not ended. */
  get inFlight(): number {
    return this.#running.count;
  }

  /** Fulfilled when the records of all requests that have ended are closed, and what they cost is on its way to the store. */
  async closed(): Promise<void> {
    await this.#running.closed();
  }

  /** Whether a request asks for another protocol on its connection, in valid form and on a route that allows it. */
  mayUpgrade(head: Head): boolean {
    const { upgrade, path, method, host } = head;
    if (upgrade.kind !== 'upgrade') return false;
    const upgrades = this.#deps.router.match(path, method, host, head)?.route?.upgrades;
    return upgrades?.includes(upgrade.protocol.toLowerCase()) === true;
  }

  /**
   * Serves one request to its end. Never throws and never rejects: an exception becomes an error response.
   * @param client its connection, if `mayUpgrade` returned true and node:http has released the connection
   */
  handle(
    request: ClientRequest,
    response: ClientResponse,
    head: Head | HeadFault,
    client: UpgradeClient | null = null,
  ): void {
    const passage = client === null ? FORWARDED : new Upgrade(client);
    const flow = new RequestFlow(this.#deps, request, response, head, passage, this.#running);
    this.#running.add(request, flow);
    flow.received();
  }

  /** The response to bytes that could not be parsed as a request. @param rawHeaders the fields that could be read all the same */
  formed(error: ErrorResponse, socket: Socket, rawHeaders: readonly string[]): ErrorForm {
    return formedForUnparsed(this.#deps, error, socket, rawHeaders);
  }

  /**
   * Reads a piece of a body, and charges that to the consumer of its request.
   * @returns false if the consumer is beyond its share of the thread, and the piece has to be read later
   */
  read(socket: object, work: () => void): boolean {
    const time = this.#running.readerOf(socket);
    if (time === undefined) work();
    else if (this.#deps.thread.mustWait(time)) return false;
    else this.#deps.thread.measure(time, work);
    return true;
  }

  /** Reads more of a body later: if its consumer is beyond its share of the thread, when the turn of the consumer comes. */
  readLater(socket: object, work: () => void): void {
    const time = this.#running.readerOf(socket);
    if (time === undefined) setImmediate(work);
    else this.#deps.thread.wait(time, work);
  }

  /**
   * Ends the request that a connection is serving, because its body is too slow, too large or malformed.
   * @returns false if the connection serves no request that can still be answered
   */
  breakOff(socket: object, code: ClientBodyErrorCode): boolean {
    return this.#running.unreadOf(socket)?.breakOff(code) ?? false;
  }
}
