import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DescriptionFault, readDescription } from '../../config/description.ts';
import { printFault } from '../../config/fault.ts';
import { parseGatewayFile } from '../../config/gateway-file.ts';
import { importedRoutes } from '../../config/imported-routes.ts';
import { jsonSchemas } from '../../config/json-schema.ts';
import { faultOfTarget, name } from '../../config/setting-values.ts';
import { GATEWAY_SCHEMA } from '../../config/settings-head.ts';
import { Failure } from '../../failure.ts';
import type { Command } from '../terminal/command.ts';

/** `tollgate routes import`: writes a gateway.yaml with the routes of an OpenAPI description. */
export const routesImport: Command = {
  name: 'routes import',
  about: 'Writes gateway.yaml with the routes of an OpenAPI description (3.0 or 3.1, YAML or JSON), to be reviewed.',
  positionals: ['FILE'],
  options: {
    out: {
      type: 'string',
      value: 'FILE',
      about:
        'Writes into this file, which must not exist yet, instead of printing, and the JSON Schema for editors beside it.',
    },
    upstream: { type: 'string', value: 'NAME', about: 'Name of the upstream; default `service`.' },
    target: { type: 'string', value: 'URL', about: 'Address of the service; default http://127.0.0.1:9000.' },
    validate: { type: 'boolean', about: 'Lets the gateway check requests against the description (`validate`).' },
  },
  environment: [],
  examples: [
    'tollgate routes import openapi.yaml',
    'tollgate routes import openapi.yaml --target http://10.0.0.7:9000 --validate --out gateway.yaml',
  ],
  async run({ options, positionals }, terminal) {
    const { upstream = 'service', target = 'http://127.0.0.1:9000' } = options as Record<string, string | undefined>;
    const named = name().safeParse(upstream);
    if (!named.success) throw new Failure('bad_usage', `--upstream ${named.error.issues[0]!.message}.`);
    const wrong = faultOfTarget(target);
    if (wrong !== null) throw new Failure('bad_usage', `--target ${wrong}.`);
    const file = positionals[0]!;
    const today = new Date().toISOString().slice(0, 10);
    const made = imported(file, { upstream, target, validates: options.validate === true, today });
    const checked = parseGatewayFile(made.text, 'gateway.yaml');
    if ('faults' in checked) {
      const [fault] = checked.faults;
      throw new Failure('refused', `No gateway.yaml can be made of ${file}: ${printFault(fault!)}`);
    }
    if (typeof options.out === 'string') {
      write(options.out, made.text);
      writeSchemaBeside(options.out);
    } else terminal.out(made.text);
    const left = made.unmapped === 0 ? '' : `, ${made.unmapped} not mapped: see the comments`;
    terminal.error(`${made.routes} ${made.routes === 1 ? 'route' : 'routes'}${left}.\n`);
    return 0;
  },
};

function imported(file: string, options: Parameters<typeof importedRoutes>[1]) {
  const read = readDescription(file, 'Give the file as in `tollgate routes import openapi.yaml`.');
  if ('fault' in read) throw new Failure('refused', printFault(read.fault));
  try {
    return importedRoutes(read, options);
  } catch (error) {
    if (!(error instanceof DescriptionFault)) throw error;
    throw new Failure('refused', `${file}: ${error.at}: ${error.message}`);
  }
}

/** Gives editors what the first line of the file names. One that is there is kept: it may be that of `tollgate init`. */
function writeSchemaBeside(file: string): void {
  const schema = join(dirname(file), GATEWAY_SCHEMA);
  if (!existsSync(schema)) write(schema, jsonSchemas().get(GATEWAY_SCHEMA)!);
}

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: 'wx' });
  } catch (cause) {
    const exists = (cause as NodeJS.ErrnoException).code === 'EEXIST';
    const why = exists ? 'exists already. Name another file, or remove it first.' : 'cannot be written.';
    throw new Failure('refused', `${file} ${why}`, cause);
  }
}
