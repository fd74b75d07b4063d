import dns from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { syncBuiltinESMExports } from 'node:module';
import { isIP } from 'node:net';

/*
 * `--import` this to make a process ask the name server NAME_SERVER (`127.0.0.1:PORT`) and none of the system's, and print
 * `getaddrinfo NAME` for each name that it looks up past it.
 */

class OtherResolver extends Resolver {
  constructor(...options: ConstructorParameters<typeof Resolver>) {
    super(...options);
    this.setServers([process.env.NAME_SERVER!]);
  }
}
dns.promises.Resolver = OtherResolver;

const { lookup } = dns;
const reporting = (host: string, ...rest: unknown[]) => {
  if (isIP(host) === 0) process.stderr.write(`getaddrinfo ${host}\n`);
  return Reflect.apply(lookup, dns, [host, ...rest]);
};
dns.lookup = Object.assign(reporting, lookup) as typeof lookup;
syncBuiltinESMExports();
