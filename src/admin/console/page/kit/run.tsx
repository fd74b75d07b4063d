import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../requests.ts';
import { Act } from './act.tsx';
import { lengthText, useNow } from './format.tsx';

/** Work that the gateway does for the page, which may take long and can be cancelled. */
export interface Run {
  /** When it began, Unix milliseconds; null if nothing runs. */
  readonly since: number | null;
  readonly error: ApiError | null;
  readonly start: (work: (signal: AbortSignal) => Promise<void>) => Promise<void>;
  readonly cancel: () => void;
}

/** The work is cancelled when the component is removed. */
export function useRun(): Run {
  const [since, setSince] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const running = useRef<AbortController | null>(null);
  const cancel = () => {
    running.current?.abort();
    setSince(null);
  };
  const start = async (work: (signal: AbortSignal) => Promise<void>) => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    setError(null);
    setSince(Date.now());
    try {
      await work(controller.signal);
    } catch (failure) {
      if (controller.signal.aborted) return;
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
    if (!controller.signal.aborted) setSince(null);
  };
  useEffect(() => () => running.current?.abort(), []);
  return { since, error, start, cancel };
}

export function Running({ what, since, cancel }: { what: string; since: number; cancel: () => void }) {
  const now = useNow();
  const seconds = Math.round((now - since) / 1_000);
  return (
    <div class="state stack tight">
      <p role="status">
        <span class="spinner" aria-hidden="true"></span>
        {what}…
      </p>
      <p class="muted">
        {seconds < 3
          ? 'This takes a moment.'
          : `For ${lengthText(seconds)}. It may take a minute; the gateway serves callers meanwhile.`}
      </p>
      <p>
        <Act text="Cancel" on={cancel} />
      </p>
    </div>
  );
}
