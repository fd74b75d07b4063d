import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { engineScripts, ROOT } from './generated-scripts.ts';

/** `npm run engine:lua`: writes the scripts, each with the map of its lines. */
for (const { path, lua, map } of engineScripts()) {
  writeFileSync(join(ROOT, path), lua);
  writeFileSync(join(ROOT, `${path}.map`), map);
}
