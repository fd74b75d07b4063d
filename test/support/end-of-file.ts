import { afterAll } from 'vitest';
import { endFile } from './endings.ts';

// The runner loads this module anew for each test file, also where files share the other modules. The hook that is
// registered first runs last, so the hooks of the file itself find all that runs.
afterAll(endFile);
