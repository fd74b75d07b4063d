// Loaded into a gateway before it starts (`node --import`): at SIGUSR2 the wall clock is moved by the hours in MOVE, as
// by somebody who sets it; timers and the monotonic clock go on as before, as the system's do.
const RealDate = Date;
const byMs = Number(process.env.MOVE) * 3_600_000;
let movedMs = 0;

globalThis.Date = class extends RealDate {
  constructor(...args: [] | [number]) {
    if (args.length === 0) super(RealDate.now() + movedMs);
    else super(...args);
  }

  static override now(): number {
    return RealDate.now() + movedMs;
  }
} as DateConstructor;

process.on('SIGUSR2', () => {
  movedMs = byMs;
  process.stderr.write('the clock was moved\n');
});
