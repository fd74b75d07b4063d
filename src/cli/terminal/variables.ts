/** The environment variables that commands read (contract section 2), each with its text in `--help`. */
export const VARIABLES = {
  REDIS_URL: 'Where Redis is; without it the embedded store is used. REDIS_URL_FILE names a file that holds it.',
  KEY_PEPPER: 'The pepper of the keys in the store. KEY_PEPPER_FILE names a file that holds it.',
  TOLLGATE_DATA: 'The folder of the embedded store, ./data unless set.',
  TOLLGATE_CONFIG: 'The path of gateway.yaml, config/gateway.yaml unless set.',
  TOLLGATE_PLANS: 'The path of plans.yaml, plans.yaml unless set.',
  PORT: 'The port for clients, in place of listen.port.',
  HOST: 'The address for clients, in place of listen.host.',
  ADMIN_PORT: 'The port of the admin listener, in place of admin.port.',
  ADMIN_HOST: 'The address of the admin listener, in place of admin.host.',
  ADMIN_TOKEN: 'A token of the admin API. ADMIN_TOKEN_FILE names a file that holds it.',
  ADMIN_TOKENS_FILE: 'A YAML file with named tokens of the admin API and their roles.',
  UPSTREAM_URL: 'Replaces the targets of the one upstream.',
  LOG_LEVEL: 'fatal, error, warn, info, debug, trace or silent; info unless set.',
  WORKERS: 'How many processes serve, or auto for one for each core.',
  OTEL_EXPORTER_OTLP_ENDPOINT:
    'Where traces are sent; docs/operate/observe.md lists the further variables of OpenTelemetry that apply.',
  PETS_PORT: 'The port of the pet service, 9000 unless set.',
  BACKUP_PASSPHRASE: 'The passphrase of the backup. BACKUP_PASSPHRASE_FILE names a file that holds it.',
  TOLLGATE_GATEWAY:
    'The address of the admin port of a gateway, which then does what the command asks for. No store is opened.',
  TOLLGATE_TOKEN: 'A token of the admin API of that gateway. TOLLGATE_TOKEN_FILE names a file that holds it.',
  NO_COLOR: 'If it is not empty, nothing is coloured. FORCE_COLOR=1 colours what is not on a terminal as well.',
} as const;

export type Variable = keyof typeof VARIABLES;

/** The variables of a command that opens the store of the gateways. */
export const OF_STORE: readonly Variable[] = [
  'REDIS_URL',
  'KEY_PEPPER',
  'TOLLGATE_DATA',
  'TOLLGATE_CONFIG',
  'TOLLGATE_PLANS',
];

/** The variables of a command whose operations the store of the gateways, or a gateway, does. With them goes `--gateway`. */
export const OF_OPERATIONS: readonly Variable[] = [...OF_STORE, 'TOLLGATE_GATEWAY', 'TOLLGATE_TOKEN'];

/** The variables of a gateway. */
export const OF_GATEWAY: readonly Variable[] = [
  ...OF_STORE,
  ...([
    'PORT',
    'HOST',
    'ADMIN_PORT',
    'ADMIN_HOST',
    'ADMIN_TOKEN',
    'ADMIN_TOKENS_FILE',
    'UPSTREAM_URL',
    'LOG_LEVEL',
  ] as const),
  ...(['WORKERS', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const),
];
