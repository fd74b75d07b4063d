/** Holds each session for as long as one of its streams is there: what is registered with a target lives as long as that. */
const SESSIONS_OF_STREAMS = new FinalizationRegistry<object>(() => {});

/**
 * Lets the garbage collector take a stream before its session, never after it.
 *
 * Attack: a client sends a second, malformed field block on a stream whose answer is being written, and leaves. Node (seen
 * on 26.10) then leaves that stream to the garbage collector with fields in it that belong to the memory of its session;
 * where the session is collected first, its destructor finds them missing and aborts the process
 * (`Assertion failed: (current_nghttp2_memory_) == (0)`). One client in a few thousand sessions could end the gateway.
 *
 * What Node keeps behind its objects is not documented: where it is not found, nothing is done.
 */
export function outliveStream(session: object, stream: object): void {
  const [held, target] = [handleOf(session), handleOf(stream)];
  if (held !== null && target !== null) SESSIONS_OF_STREAMS.register(target, held);
}

function handleOf(wrapper: object): object | null {
  for (const symbol of Object.getOwnPropertySymbols(wrapper)) {
    if (symbol.description !== 'kHandle') continue;
    const handle = (wrapper as Record<symbol, unknown>)[symbol];
    return typeof handle === 'object' ? handle : null;
  }
  return null;
}
