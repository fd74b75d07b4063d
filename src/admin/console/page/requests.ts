import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { catchIfAsked } from './kit/curl.ts';
import { heard } from './link.ts';
import { INTERVALS, type Reading, UNKNOWN } from './reading.ts';
import { signal } from './signal.ts';

// The page's requests to the admin API. Nothing here is private: `GET /admin/openapi.json` describes every request.

/** A response with an error body, or no response at all (`status` 0, code `unreachable`). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** Of the sign-in at an OpenID provider: its name, where there is one. */
  readonly oidc: { readonly name: string } | null;

  constructor(status: number, code: string, message: string, oidc: ApiError['oidc'] = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.oidc = oidc;
  }
}

export interface Reply<T> {
  /** 202: the change was made, and a failover of Redis may undo it. */
  readonly status: number;
  readonly data: T;
  readonly etag: string | null;
}

export interface Call {
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Runs when a request finds that the session has ended. The shell then shows the sign-in form over the same address. */
export const signedOut = signal();

/** Runs after each change that the page made, for what shows its effect elsewhere. */
export const changes = signal();

/** @throws ApiError; DOMException if `signal` is aborted */
export async function request<T>(method: string, path: string, call: Call = {}): Promise<Reply<T>> {
  const { body, signal } = call;
  const headers = { ...(method === 'GET' ? {} : JSON_TYPE), ...call.headers };
  if (method !== 'GET') catchIfAsked({ method, path, headers, body });
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      credentials: 'same-origin',
      cache: 'no-store',
      headers: { Accept: 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    throw unreachable(error, signal);
  }
  if (response.status < 500) heard();
  const data: unknown = await response.json().catch((error) => {
    // A response without a body is no JSON. One that broke off, or was aborted, is no response.
    if (error instanceof SyntaxError) return null;
    throw unreachable(error, signal);
  });
  if (response.ok) {
    if (method !== 'GET') changes.send();
    return { status: response.status, data: data as T, etag: response.headers.get('etag') };
  }
  const { code, message, oidc } = (data ?? {}) as Partial<ApiError>;
  if (response.status === 401 && path !== '/admin/session') signedOut.send();
  throw new ApiError(
    response.status,
    code ?? 'unknown',
    message ?? `The gateway responded with ${response.status}.`,
    oidc,
  );
}

function unreachable(error: unknown, signal: AbortSignal | undefined): unknown {
  const message = 'The gateway does not respond. It may be restarting, or your network is down.';
  return signal?.aborted ? error : new ApiError(0, 'unreachable', message);
}

const JSON_TYPE = { 'Content-Type': 'application/json' };

/** An Idempotency-Key: a click that is repeated makes its change once. `crypto.randomUUID` is missing without TLS. */
function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The Idempotency-Key field of a dialog: the same for the same body, so that a repetition after a lost response adds nothing. */
export function useOnce(): (body: object) => Readonly<Record<string, string>> {
  const last = useRef({ text: '', key: '' });
  return (body) => {
    const text = JSON.stringify(body);
    if (last.current.text !== text) last.current = { text, key: newIdempotencyKey() };
    return { 'Idempotency-Key': last.current.key };
  };
}

/** What a screen reads. While it is read again, the earlier value stays on the screen. */
export interface Resource<T> {
  readonly reading: Reading<T>;
  readonly etag: string | null;
  /** Why the last attempt failed; null if it did not. The reading may be an earlier one. */
  readonly error: ApiError | null;
  readonly isLoading: boolean;
  readonly reload: () => Promise<void>;
}

/** How long after a temporary failure the page reads a resource a second time, and then again and again, in milliseconds. */
const SECOND_MS = 300;
const RETRY_MS = 3_000;
/** As the interval of a value that is read once: after a minute the page says of when it is. */
const ONCE_MS = 20_000;

/**
 * Reads `path`, and again when it changes. What fails for the moment is read a second time before the screen says so.
 * @param path null: nothing is read
 * @param everyMs how often it is read again while the page is in use; null: only when `reload` is called
 * @param read in place of a request of its own
 */
export function useResource<T>(
  path: string | null,
  everyMs: number | null = null,
  read?: () => Promise<Reply<T>>,
): Resource<T> {
  const [state, setState] = useState<Pick<Resource<T>, 'reading' | 'etag' | 'error'> & { path: string | null }>({
    ...NOTHING,
    path: null,
  });
  const [isLoading, setLoading] = useState(path !== null);
  const running = useRef<AbortController | null>(null);
  const reload = useCallback(async () => {
    running.current?.abort();
    if (path === null) return;
    const controller = new AbortController();
    running.current = controller;
    const { signal } = controller;
    setLoading(true);
    try {
      const { data, etag } = await twice(read ?? (() => request<T>('GET', path, { signal })));
      const reading = { state: 'known', value: data, at: Date.now(), everyMs: everyMs ?? ONCE_MS } as const;
      if (!signal.aborted) setState({ path, reading, etag, error: null });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      setState((before) => {
        if (before.path === path && before.reading.state === 'known') return { ...before, error };
        return { path, reading: { state: 'failed', error }, etag: null, error };
      });
    }
    setLoading(false);
  }, [path]);
  useEffect(() => {
    void reload();
    return () => running.current?.abort();
  }, [reload]);
  const { reading, etag, error } = state.path === path ? state : NOTHING;
  useEffect(() => {
    if (error === null || !isPassing(error)) return;
    const timer = setTimeout(() => void reload(), RETRY_MS);
    return () => clearTimeout(timer);
  }, [error, reload]);
  useRefresh(() => error?.status !== 404 && reload(), everyMs);
  return { reading, etag, error, isLoading, reload };
}

const NOTHING = { reading: UNKNOWN, etag: null, error: null } as const;

/** Makes a read again if it failed for the moment. */
async function twice<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ApiError && isPassing(error))) throw error;
    await new Promise((resolve) => setTimeout(resolve, SECOND_MS));
    return read();
  }
}

/** How long after the last input the page continues to read by itself, in milliseconds: each request keeps a session alive. */
const QUIET_MS = 300_000;

/** Reads repeatedly while the page is in use: not in a hidden tab, and not after five minutes without input. */
function useRefresh(reload: () => unknown, everyMs: number | null): void {
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => {
    if (everyMs === null) return;
    let usedAt = Date.now();
    const use = () => {
      usedAt = Date.now();
    };
    for (const name of INPUT) window.addEventListener(name, use, { passive: true });
    const timer = setInterval(() => {
      if (!document.hidden && Date.now() - usedAt < QUIET_MS) latest.current();
    }, everyMs);
    return () => {
      clearInterval(timer);
      for (const name of INPUT) window.removeEventListener(name, use);
    };
  }, [everyMs]);
}

const INPUT = ['pointermove', 'keydown', 'wheel', 'touchstart'] as const;

/** How long after the last letter something is looked for, in milliseconds. */
const PAUSE_MS = 250;

/** What is typed, once the typing has paused, so that not each letter is a request. */
export function usePaused(text: string): string {
  const [paused, setPaused] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

/** Whether the same request may succeed in a moment without any action. */
export function isPassing({ code }: ApiError): boolean {
  return code === 'unreachable' || code === 'store_unavailable';
}

export type StreamState = 'connecting' | 'open' | 'lost' | 'ended';

/** The last value that a stream has sent, by the name of its event. Once the stream is lost, it is old. */
export function useLatest<T>(path: string, name: string, everyMs: number): readonly [StreamState, Reading<T>] {
  const [latest, setLatest] = useState<Reading<T>>(UNKNOWN);
  const { state } = useEvents(path, [name], (event, data) => {
    if (event === name) setLatest({ state: 'known', value: data as T, at: Date.now(), everyMs });
  });
  const isCut = state !== 'open' && latest.state === 'known';
  return [state, useMemo(() => (isCut ? { ...latest, everyMs: 0 } : latest), [isCut, latest])];
}

/** How often a stream has an event whatever happens, in milliseconds (`BEAT_EVERY_MS` of the gateway). */
const BEAT_MS = 2_000;

/**
 * Follows a stream of server-sent events. One that was lost or has ended is opened again, as is one in which three beats are missing: the
 * gateway may hang, the laptop may have slept, or the network has dropped the connection without a word.
 * @param path null: nothing is followed
 * @param onEvent called with the name of each event, `end` included, and its data
 * @returns `heard`: when the gateway sent anything last
 */
export function useEvents(
  path: string | null,
  names: readonly string[],
  onEvent: (name: string, data: unknown) => void,
): { readonly state: StreamState; readonly heard: Reading<null> } {
  const [state, setState] = useState<StreamState>('connecting');
  const [heardAt, setHeardAt] = useState<number | null>(null);
  const listener = useRef(onEvent);
  listener.current = onEvent;
  const list = names.join();
  useEffect(() => {
    if (path === null) return;
    setState('connecting');
    setHeardAt(null);
    let source: EventSource;
    let timer: ReturnType<typeof setTimeout>;
    let lastAt = Date.now();
    const hear = () => {
      lastAt = Date.now();
      setHeardAt(lastAt);
      heard();
    };
    const openLater = () => {
      // The stream may have ended because the session has ended.
      request('GET', '/admin/session').catch((error: ApiError) => {
        if (error.status === 401) signedOut.send();
      });
      timer = setTimeout(open, RETRY_MS);
    };
    const open = () => {
      lastAt = Date.now();
      source = new EventSource(path);
      source.onopen = () => {
        setState('open');
        hear();
      };
      source.onerror = () => {
        setState('lost');
        // The browser opens a stream again by itself, unless the response was an error.
        if (source.readyState === EventSource.CLOSED) openLater();
      };
      source.addEventListener('end', () => {
        source.close();
        setState('ended');
        openLater();
      });
      for (const name of ['end', 'beat', ...list.split(',')]) {
        source.addEventListener(name, (event) => {
          hear();
          if (name !== 'beat') listener.current(name, JSON.parse((event as MessageEvent).data));
        });
      }
    };
    const watchdog = setInterval(() => {
      if (Date.now() - lastAt < INTERVALS * BEAT_MS || source.readyState === EventSource.CLOSED) return;
      source.close();
      setState('lost');
      open();
    }, BEAT_MS / 4);
    open();
    return () => {
      clearTimeout(timer);
      clearInterval(watchdog);
      source.close();
    };
  }, [path, list]);
  const everyMs = state === 'open' ? BEAT_MS : 0;
  return { state, heard: heardAt === null ? UNKNOWN : { state: 'known', value: null, at: heardAt, everyMs } };
}
