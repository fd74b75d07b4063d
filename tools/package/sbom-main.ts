import { lockedSbom, sbomText } from './sbom.ts';

/** `npm run -s sbom`: prints the SBOM (CycloneDX) of what the gateway brings along, from package-lock.json. */
process.stdout.write(sbomText(lockedSbom(false)));
