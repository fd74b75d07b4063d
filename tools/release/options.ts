import { parseArgs } from 'node:util';
import { Failure } from '../../src/failure.ts';

export interface ReleaseOptions {
  readonly folder: string;
  /** False: no image is built, even where a builder is present. */
  readonly image: boolean;
}

export const HELP = `npm run build:release -- FOLDER [--no-image]

Writes into FOLDER the tarball of the npm package and the executable of this platform, an SBOM (CycloneDX) beside each, and
SHA256SUMS. Where buildah is installed it writes the image too; --no-image leaves that out. NODE_IMAGE, in the environment,
is another base image. The same commit gives the same bytes: see docs/operate/verify.md.
`;

/** @throws Failure `bad_usage` */
export function readOptions(args: readonly string[]): ReleaseOptions | null {
  const { values, positionals } = parsed(args);
  if (values.help) return null;
  const [folder, ...more] = positionals;
  if (folder === undefined || more.length > 0) throw wrong('It takes one folder.');
  return { folder, image: !values['no-image'] };
}

function parsed(args: readonly string[]) {
  try {
    const options = { help: { type: 'boolean', short: 'h' }, 'no-image': { type: 'boolean' } } as const;
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: true });
  } catch (cause) {
    throw wrong(`${(cause instanceof Error ? cause.message : String(cause)).split('. ')[0]!.replace(/\.?$/, '.')}`);
  }
}

function wrong(sentence: string): Failure {
  return new Failure('bad_usage', `${sentence} See \`npm run build:release -- --help\`.`);
}
