import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { productionPackages } from '../package/lock.ts';
import { ROOT } from './root.ts';

/** The page with the licence of every package that the gateway brings along, from package-lock.json. */
export function licencesPage(): string {
  const packages = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  const licences = [...new Set(packages.map(({ licence }) => licence))].sort();
  const countOf = (licence: string) => packages.filter((one) => one.licence === licence).length;
  return `# Licences

Tollgate has the MIT licence. This is every package that it brings along, directly or through another one: in the npm package,
the image and the executable, which have their texts in \`THIRD-PARTY-NOTICES\`. The list is made of \`package-lock.json\`. \`npm run -s sbom\` prints the same with hashes,
as CycloneDX; the image has it as \`/app/sbom.cdx.json\`, and [each file of a release](../operate/verify.md#read-the-sboms) has one beside it. The image and the executable also have Node.js, whose licences are in the
\`LICENSE\` of [its repository](https://github.com/nodejs/node).

${licences.map((licence) => `${licence}: ${countOf(licence)}`).join(' · ')}

| package | version | licence |
|---|---|---|
${packages.map(({ name, version, licence }) => `| [${name}](https://www.npmjs.com/package/${name}) | ${version} | ${licence} |`).join('\n')}
`;
}
