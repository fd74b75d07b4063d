import type { ComponentChildren } from 'preact';
import type { Known } from '../reading.ts';
import type { ApiError, Resource } from '../requests.ts';
import { isPassing } from '../requests.ts';
import { Act } from './act.tsx';
import { Aged } from './seen.tsx';

// What a screen shows without data: while it loads, when the store has no entries, when a request has failed.

export function Loading({ what }: { what: string }) {
  return (
    <div class="state skeleton stack" role="status">
      <span class="hidden">Loading {what}…</span>
      <i></i>
      <i></i>
      <i></i>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state empty">
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

/** What the reader has to know before all that follows. */
export function Banner({ title, children }: { title: ComponentChildren; children?: ComponentChildren }) {
  return (
    <div class="banner" role="alert">
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

/** An error where the data would be, with what to do about it. */
export function Problem({ error, retry }: { error: ApiError; retry?: () => void }) {
  const { title, more } = explained(error);
  return (
    <div class="state problem" role="alert">
      <p class="state-title">{title}</p>
      <p>{error.message}</p>
      {more && <p>{more}</p>}
      {retry && !isPassing(error) && (
        <p>
          <Act text="Try again" on={retry} />
        </p>
      )}
    </div>
  );
}

function explained(error: ApiError): { title: string; more: string | null } {
  if (error.code === 'store_unavailable') {
    return {
      title: 'The store is away',
      more: 'Gateways keep serving as onFailure in gateway.yaml says. This page tries again by itself.',
    };
  }
  if (error.code === 'unreachable') return { title: 'No connection', more: 'This page tries again by itself.' };
  if (error.status === 403) return { title: 'Your role does not allow this', more: null };
  if (error.status === 404) return { title: 'Not found', more: null };
  return { title: 'This did not work', more: null };
}

/** Shows a resource: its value, or why there is no value. An earlier value stays visible under an error. */
export function Shown<T>({
  of: resource,
  what,
  children,
}: {
  of: Resource<T>;
  /** For "Loading …". */
  what: string;
  children: (value: T, known: Known<T>) => ComponentChildren;
}) {
  const { reading, error, reload } = resource;
  const problem = error !== null && <Problem error={error} retry={reload} />;
  if (reading.state === 'unknown') return problem || <Loading what={what} />;
  if (reading.state === 'failed') return problem || <p class="muted">Unknown for now.</p>;
  return (
    <>
      {problem}
      <Aged of={reading}>{children(reading.value, reading)}</Aged>
    </>
  );
}

/** The resource without an error that the screen shows once for all resources. */
export function calm<T>(resource: Resource<T>): Resource<T> {
  return resource.error !== null && isPassing(resource.error) ? { ...resource, error: null } : resource;
}
