import { useEffect, useState } from 'preact/hooks';
import { signal } from './signal.ts';

// Whether the gateway that serves this page answers. One that hangs, a laptop that slept and a network that drops connections say nothing:
// so the page asks when it has heard nothing for a while.

/** After how long without a sign of the gateway the page asks for one, how often it looks, and how long it waits, in milliseconds. */
const QUIET_MS = 3_000;
const LOOK_MS = 1_000;
const ANSWER_MS = 4_000;

const link = signal();
/** When the gateway was heard last, Unix milliseconds, and whether it has not answered since. */
const state = { heardAt: Date.now(), isLost: false };

/** The gateway has sent something. */
export function heard(): void {
  state.heardAt = Date.now();
  setLost(false);
}

function setLost(isLost: boolean): void {
  if (state.isLost === isLost) return;
  state.isLost = isLost;
  link.send();
}

/** Since when the gateway has not answered, Unix milliseconds; null while it does. */
export function useLostSince(): number | null {
  const [isLost, setIsLost] = useState(state.isLost);
  useEffect(() => {
    const change = () => setIsLost(state.isLost);
    change();
    return link.listen(change);
  }, []);
  return isLost ? state.heardAt : null;
}

/** Watches the link while the page is in sight. The icon is no secret, so that this keeps no session alive. */
export function watchLink(): () => void {
  let isAsking = false;
  const look = async () => {
    if (isAsking || document.hidden || (Date.now() - state.heardAt < QUIET_MS && !state.isLost)) return;
    isAsking = true;
    const signal = AbortSignal.timeout(ANSWER_MS);
    const isThere = await fetch('/console/icon.svg', { method: 'HEAD', cache: 'no-store', signal }).then(
      ({ ok }) => ok,
      () => false,
    );
    isAsking = false;
    if (isThere) heard();
    else setLost(true);
  };
  const timer = setInterval(look, LOOK_MS);
  return () => clearInterval(timer);
}
