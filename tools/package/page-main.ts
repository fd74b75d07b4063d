import { join } from 'node:path';
import { ROOT } from '../docs/root.ts';

/** `npm run build:page`, and the end of `npm ci`: builds the page of the console, which the gateway of this clone serves. */
const page = await import('./page.ts').catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND' || !error.message.includes("'rolldown'")) throw error;
  return null;
});
if (page !== null) page.writePage(await page.buildPage(), join(ROOT, page.BUILT));
else
  console.error(
    'The page of the console is not built: that needs the packages for development. All else runs without them. For the page, run `npm ci --include=dev`.',
  );
