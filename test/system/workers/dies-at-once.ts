// Loaded into every process of a gateway before it starts (`node --import`): the workers that are named end at once, as
// they do when something is wrong with what they run on.
const [, program = '', worker = ''] = process.argv;
if (program.endsWith('worker.ts') && process.env.DOOMED?.split(',').includes(worker)) process.exit(7);
