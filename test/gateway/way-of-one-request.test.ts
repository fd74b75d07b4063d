import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, startProcess } from '../support/processes.ts';

// What a newcomer has to read to follow one request. It is 60 files, of which the store touches one only now and then, and 100 changes. A change that raises a number
// says why in its commit.
const MAX_FILES = 60;
const MAX_ROOM_CHANGES = 100;

/** Reading the time is no step of a request. */
const CLOCKS = 'io/clocks.ts';

test('an admitted GET runs through few files, and changes rooms rarely', async () => {
  const tracer = startProcess(process.execPath, [join(ROOT, 'test', 'support', 'way-of-one-request.ts')]);
  const { code } = await tracer.exit;
  expect(code, tracer.stderr).toBe(0);
  const steps = (JSON.parse(tracer.stdout) as string[]).filter((file) => file !== CLOCKS);
  const rooms = steps.map((file) => file.split('/')[0]!);
  const changes = rooms.filter((room, i) => i > 0 && room !== rooms[i - 1]).length;
  const files = new Set(steps);
  process.stdout.write(
    `An admitted GET: ${steps.length} functions in ${files.size} files and ${new Set(rooms).size} rooms, ${changes} changes of room.\n`,
  );
  // It would run through none if the tracer did not see the sources.
  expect(files).toContain('gateway/request-flow.ts');
  expect(files.size, [...files].join('\n')).toBeLessThanOrEqual(MAX_FILES);
  expect(changes).toBeLessThanOrEqual(MAX_ROOM_CHANGES);
});
