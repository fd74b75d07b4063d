import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { printFault } from '../config/fault.ts';
import { parseGatewayFile } from '../config/gateway-file.ts';
import { jsonSchemas } from '../config/json-schema.ts';
import { parseKeysFile } from '../config/keys-file.ts';
import { type ImportedKong, importedKong } from '../config/kong/imported-kong.ts';
import { MAX_KONG_BYTES, parseKong } from '../config/kong/kong-file.ts';
import { consumerRows, routeRows } from '../config/kong/kong-table.ts';
import { parsePlans } from '../config/plans-schema.ts';
import { readSettingsFile } from '../config/read-file.ts';
import type { ParseResult } from '../config/yaml.ts';
import { Failure } from '../failure.ts';
import { escapedText } from '../io/terminal-text.ts';
import type { Command, Terminal } from './terminal/command.ts';
import { table } from './terminal/printed-table.ts';

/** `tollgate import kong`: writes the settings that do what a description of Kong says. */
export const importKong: Command = {
  name: 'import kong',
  about:
    'Writes gateway.yaml, plans.yaml and keys.yaml for a gateway that does what FILE says of Kong, as far as it can: the form of decK and of ' +
    'Kong without a database, or lists of the Admin API in YAML or JSON. Prints what a request gets in Kong and here, and ' +
    'everything that is not moved or means something else, with its place in FILE.',
  positionals: ['FILE'],
  environment: [],
  examples: ['tollgate import kong kong.yaml --out moved'],
  options: {
    out: {
      type: 'string',
      value: 'FOLDER',
      about:
        'The folder for the files, `moved` by default; it is made if it is missing. None of the files may be there.',
    },
  },
  async run({ options, positionals: [file] }, terminal) {
    const { out = 'moved' } = options as { readonly out?: string };
    const read = readSettingsFile(
      file!,
      'Give the file as in `tollgate import kong kong.yaml`.',
      false,
      MAX_KONG_BYTES,
    );
    if ('fault' in read) throw new Failure('refused', printFault(read.fault));
    const kong = parseKong(read.text, file!);
    if ('faults' in kong) throw new Failure('refused', kong.faults.map(printFault).join('\n'));
    const made = importedKong(kong.value);
    const left = made.left.map(({ at, why }) => printFault({ ...kong.locate(at), message: `${escapedText(why)}.` }));
    if (made.routes.length === 0) {
      const why = `No settings can be made of ${file}: no service in it that is enabled has a route that can be moved.`;
      throw new Failure('refused', [why, ...left].join('\n'));
    }
    const plans = sound(parsePlans(made.plans, 'plans.yaml'), file!);
    const gateway = sound(parseGatewayFile(made.gateway, 'gateway.yaml'), file!);
    sound(parseKeysFile(made.keys, 'keys.yaml', [...plans.plans.keys()]), file!);
    write(out, made);
    const written = { gateway, plans };
    terminal.out(table(['route', 'requests', 'in Kong', 'here'], routeRows(kong.value, made, written), terminal));
    terminal.out(
      `\n${table(['consumer', 'keys', 'in Kong', 'here'], consumerRows(kong.value, made, written), terminal)}`,
    );
    if (left.length > 0)
      terminal.out(`\nNot moved, or with another meaning here:\n${left.map((line) => `  ${line}\n`).join('')}`);
    terminal.out(next(out, terminal));
    return 0;
  },
};

/** @throws Failure `refused` if a file, which is not written then, would have faults: more of something than may be there, or a limit of 0 */
function sound<T>(parsed: ParseResult<T>, file: string): T {
  if ('value' in parsed) return parsed.value;
  const { file: name, path, message } = parsed.faults[0]!;
  const where = path === '' ? '' : ` at ${path}`;
  throw new Failure('refused', `No settings can be made of ${file}: ${name} would have a fault${where}: ${message}`);
}

/** Writes all files, or none. @throws Failure `refused` */
function write(folder: string, { gateway, plans, keys }: ImportedKong): void {
  const files = new Map([
    ['gateway.yaml', gateway],
    ['plans.yaml', plans],
    ['keys.yaml', keys],
  ]);
  const taken = [...files.keys()].find((name) => existsSync(join(folder, name)));
  if (taken !== undefined)
    throw new Failure('refused', `${join(folder, taken)} exists already. Name another folder, or remove it first.`);
  try {
    mkdirSync(folder, { recursive: true });
    for (const [name, text] of files) {
      writeFileSync(join(folder, name), text, { flag: 'wx', mode: name === 'keys.yaml' ? 0o600 : 0o666 });
    }
    for (const [name, text] of jsonSchemas())
      if (!existsSync(join(folder, name))) writeFileSync(join(folder, name), text);
  } catch (cause) {
    throw new Failure(
      'refused',
      `${folder} cannot be written (${(cause as NodeJS.ErrnoException).code ?? 'unknown'}).`,
      cause,
    );
  }
}

function next(folder: string, { isTerminal }: Terminal): string {
  if (!isTerminal) return '';
  return (
    `\nWritten to ${escapedText(folder)}. Next: read the files, and then\n` +
    `  cd ${escapedText(folder)} && export TOLLGATE_CONFIG=gateway.yaml TOLLGATE_PLANS=plans.yaml\n` +
    '  tollgate gateway check\n  tollgate keys apply keys.yaml\n  tollgate serve\n'
  );
}
