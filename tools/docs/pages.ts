import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { adminApiPage } from './admin-api.ts';
import { commandsPage } from './commands.ts';
import { headersAndErrorsPage } from './errors.ts';
import { licencesPage } from './licences.ts';
import { performancePage } from './measured.ts';
import { metricsPage } from './metrics.ts';
import { reliabilityPage } from './reliability.ts';
import { ROOT } from './root.ts';
import { gatewayYamlPage, keysYamlPage, plansYamlPage } from './settings.ts';

/** The text of each generated page by its path in the repository. */
export async function generatedPages(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['docs/reliability.md', reliabilityPage(read('docs/reliability.md'))],
    [
      'docs/internals/performance.md',
      performancePage(read('docs/internals/performance.md'), read('tools/bench/REPORT.md')),
    ],
    ['docs/reference/gateway-yaml.md', gatewayYamlPage()],
    ['docs/reference/plans-yaml.md', plansYamlPage()],
    ['docs/reference/keys-yaml.md', keysYamlPage()],
    ['docs/reference/commands.md', await commandsPage()],
    ['docs/reference/admin-api.md', adminApiPage()],
    ['docs/reference/metrics.md', metricsPage()],
    ['docs/reference/licences.md', licencesPage()],
    ['docs/reference/headers-and-errors.md', headersAndErrorsPage(read('docs/reference/headers-and-errors.md'))],
  ]);
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
