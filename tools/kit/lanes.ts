/**
 * Works on items, `lanes` at a time.
 * @param work is not called again once it has returned false
 */
export async function inLanes<T>(
  lanes: number,
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const left = Iterator.from(items);
  let isOver = false;
  const lane = async () => {
    for (let next = left.next(); !isOver && next.done !== true; next = left.next()) {
      if ((await work(next.value)) === false) isOver = true;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
