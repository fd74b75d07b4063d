/** The name under which the JSON Schema of gateway.yaml lies beside it. */
export const GATEWAY_SCHEMA = 'gateway.schema.json';

/** The lines for editors and the listeners with which every gateway.yaml begins that Tollgate writes. */
export function settingsHead(): string {
  return `# yaml-language-server: $schema=${GATEWAY_SCHEMA}
# How the gateway runs. What each plan may use is in plans.yaml; addresses and secrets can also come from the environment, which
# beats this file. \`tollgate gateway check\` checks it, and the gateway reads it again when it changes.
# The first line is for editors, which then explain and complete every setting; \`tollgate docs gateway-yaml\` lists them.

listen:
  host: 127.0.0.1 # 0.0.0.0 opens it to other machines
  port: 8080
  maxBodyBytes: 1MiB
  # trustedProxies: [10.0.0.0/8] # load balancers before the gateway, whose X-Forwarded-For is believed
  # tls: { cert: /run/tls/tls.crt, key: /run/tls/tls.key } # PEM; read again when they change

admin: # health, metrics and the admin API with its console: not for the public
  host: 127.0.0.1
  port: 9090

`;
}
