import { runProgram } from '../kit/program.ts';
import { HELP, readOptions } from './options.ts';
import { release } from './release.ts';

// `npm run build:release -- FOLDER`: the files of a release, each with its SBOM, and their sums.
await runProgram({
  readOptions,
  help: () => HELP,
  run: async (options) => {
    process.stdout.write(await release(options));
    return 0;
  },
});
