import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jsonSchemas } from '../config/json-schema.ts';
import { Failure } from '../failure.ts';
import type { Command } from './terminal/command.ts';

/** `tollgate schema`: generates the committed JSON Schemas from the schemas with which the gateway checks its settings. */
export const schema: Command = {
  name: 'schema',
  about: 'Writes the JSON Schemas of gateway.yaml, plans.yaml and keys.yaml into config/.',
  positionals: [],
  environment: [],
  examples: ['tollgate schema'],
  options: {
    check: { type: 'boolean', about: 'Writes nothing; exits with 1 when a schema is missing or not current.' },
  },
  async run({ options }, terminal) {
    const outdated = [...jsonSchemas()]
      .map(([name, text]) => ({ file: join('config', name), text }))
      .filter(({ file, text }) => currentText(file) !== text);
    if (options.check === true) {
      for (const { file } of outdated) terminal.error(`${file} is not current. Write it with \`tollgate schema\`.\n`);
      return outdated.length > 0 ? 1 : 0;
    }
    for (const { file, text } of outdated) {
      write(file, text);
      terminal.out(`${file} written\n`);
    }
    if (outdated.length === 0) terminal.out('The schemas are current.\n');
    return 0;
  },
};

function currentText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (cause) {
    throw new Failure('refused', `${file} cannot be written. Run this in the folder of Tollgate's source.`, cause);
  }
}
