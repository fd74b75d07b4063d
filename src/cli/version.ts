import manifest from '../../package.json' with { type: 'json' };
import type { Command } from './terminal/command.ts';

/** `tollgate version`, and `tollgate --version`: the version of package.json, the only place that has it. */
export const version: Command = {
  name: 'version',
  about: 'Prints the version of Tollgate. `tollgate --version` prints the same.',
  positionals: [],
  options: { json: { type: 'boolean', about: 'Prints {"version","node"}, with the version of Node.js that runs it.' } },
  environment: [],
  examples: ['tollgate version', 'tollgate version --json'],
  async run({ options }, terminal) {
    const { version } = manifest;
    terminal.out(
      options.json === true ? `${JSON.stringify({ version, node: process.versions.node })}\n` : `${version}\n`,
    );
    return 0;
  },
};
