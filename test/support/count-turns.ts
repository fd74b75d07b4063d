import { atEnd } from './endings.ts';

/** Counts, until the test ends, the calls of `done` and how many of them come in one turn of the event loop at most. */
export function countTurns() {
  const counted = { all: 0, most: 0, turns: 0, done: () => {} };
  let inTurn = 0;
  counted.done = () => {
    counted.all++;
    counted.most = Math.max(counted.most, ++inTurn);
  };
  const turn = () => {
    counted.turns++;
    inTurn = 0;
    timer = setImmediate(turn);
  };
  let timer = setImmediate(turn);
  atEnd(() => clearImmediate(timer));
  return counted;
}
