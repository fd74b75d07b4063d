import type { ComponentChildren } from 'preact';
import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { Act, Fault } from './kit/act.tsx';
import { CopyId } from './kit/copy.tsx';
import { Field } from './kit/dialog.tsx';
import { say } from './kit/format.tsx';
import { Loading } from './kit/states.tsx';
import { navigate, present } from './place.ts';
import { keep } from './plans-kept.ts';
import { ApiError, request, signedOut } from './requests.ts';
import type { BegunSignIn, Session } from './types.ts';

// The person who is signed in. The secret of the session is in a cookie that this page cannot read.

type Role = Session['role'];

const Signed = createContext<Session | null>(null);
const RANK: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 };

export function useSession(): Session {
  return useContext(Signed)!;
}

/** Whether the signed-in person may do what needs `role`. The gateway checks it too; this only leaves out the button. */
export function useMay(role: Role): boolean {
  return may(useSession().role, role);
}

/** Whether a person with a role may do what needs another one. */
export function may(has: Role, needs: Role): boolean {
  return RANK[has] >= RANK[needs];
}

export async function signOut(everywhere: boolean): Promise<void> {
  await request('DELETE', `/admin/session${everywhere ? '?everywhere=true' : ''}`);
  // The person was asked about a draft before: the browser need not ask again.
  keep(null);
  window.location.reload();
}

/** Shows the sign-in form until a person is signed in, then `children`. */
export function SignInGate({ children }: { children: ComponentChildren }) {
  const [session, setSession] = useState<Session | null>(null);
  const [phase, setPhase] = useState<'asking' | 'out' | 'in' | 'ended'>('asking');
  const [error, setError] = useState<string | null>(null);
  const [oidc, setOidc] = useState<ApiError['oidc']>(null);
  const enter = (entered: Session) => {
    setSession(entered);
    setPhase('in');
  };
  /** Reads who is signed in, which also says how a person may sign in. */
  const look = () =>
    request<Session>('GET', '/admin/session').then(
      ({ data }) => enter(data),
      (failure: ApiError) => {
        setOidc(failure.oidc);
        setPhase((before) => (before === 'ended' ? before : 'out'));
        if (failure.status !== 401) setError(failure.message);
      },
    );
  const signIn = async (credential: Credential) => {
    setError(null);
    try {
      enter((await request<Session>('POST', '/admin/session', { body: credential })).data);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      void look();
      setError(failure.message);
    }
  };
  useEffect(() => {
    const stop = signedOut.listen(() => {
      setPhase('ended');
      void look();
    });
    const credential = takeCredential();
    if (credential === null) void look();
    else void signIn(credential);
    return stop;
  }, []);
  if (phase === 'asking') return <Loading what="the console" />;
  if (phase !== 'in' || session === null) {
    return <SignIn hasEnded={phase === 'ended'} error={error} oidc={oidc} signIn={signIn} />;
  }
  return <Signed.Provider value={session}>{children}</Signed.Provider>;
}

type Credential = { readonly token: string } | { readonly code: string } | { readonly oidc: string };

/** Where the provider sends the browser, below `/console`. */
const COMES_BACK = '/sign-in';
/** The name in the storage of this tab of the screen on which a sign-in at the provider began. */
const BEGAN_AT = 'tollgate-signed-out-at';

/** What this address signs in with: the code of a link, or the response of the provider. It is removed from the address and the history. */
function takeCredential(): Credential | null {
  const { path, query } = present();
  if (path === COMES_BACK) {
    const response = window.location.search.slice(1);
    navigate(sessionStorage.getItem(BEGAN_AT) ?? '/', 'replace');
    sessionStorage.removeItem(BEGAN_AT);
    return query.has('state') ? { oidc: response } : null;
  }
  const code = new URLSearchParams(window.location.hash.slice(1)).get('code');
  if (code === null) return null;
  window.history.replaceState(null, '', window.location.pathname + window.location.search);
  return { code };
}

/** Leaves the page for the provider. @throws ApiError */
async function goToProvider(): Promise<void> {
  const { data } = await request<BegunSignIn>('POST', '/admin/session/oidc');
  const { path, query } = present();
  sessionStorage.setItem(BEGAN_AT, query.size === 0 ? path : `${path}?${query}`);
  window.location.assign(data.url);
}

interface SignInProps {
  readonly hasEnded: boolean;
  readonly error: string | null;
  readonly oidc: ApiError['oidc'];
  readonly signIn: (credential: Credential) => Promise<void>;
}

function SignIn({ hasEnded, error, oidc, signIn }: SignInProps) {
  const [isRunning, setRunning] = useState(false);
  const [unreached, setUnreached] = useState<string | null>(null);
  const leave = () => {
    setUnreached(null);
    goToProvider().catch((failure: ApiError) => setUnreached(failure.message));
  };
  const fault = unreached ?? error;
  const submit = async (event: Event) => {
    event.preventDefault();
    const input = (event.target as HTMLFormElement).elements.namedItem('token') as HTMLInputElement;
    const token = input.value.trim();
    // The page sends the token with the request and does not keep it.
    input.value = '';
    setRunning(true);
    await signIn({ token });
    setRunning(false);
    input.focus();
  };
  return (
    <main class="sign-in" id="main">
      <form class="panel stack" onSubmit={submit}>
        <p class="brand">{say`${<img src="/console/icon.svg" alt="" width="28" height="28" />}Tollgate`}</p>
        <h1>Sign in</h1>
        {hasEnded && <p>Your session has ended. Sign in again to continue where you were.</p>}
        <Fault of={fault} />
        {oidc !== null && (
          <>
            <Act text={`Sign in with ${oidc.name}`} kind="primary" on={leave} />
            <p class="muted">or</p>
          </>
        )}
        <Field id="token" label="Admin token" hint="Your token of ADMIN_TOKENS_FILE, or ADMIN_TOKEN.">
          <input
            id="token"
            name="token"
            type="password"
            autocomplete="off"
            required
            spellcheck={false}
            aria-describedby="token-hint"
            autofocus={oidc === null}
          />
        </Field>
        <button type="submit" class={oidc === null ? 'primary' : ''} aria-busy={isRunning}>
          {isRunning ? 'Signing in…' : oidc === null ? 'Sign in' : 'Sign in with the token'}
        </button>
        <div class="stack rule muted">
          <h2>Or by a link</h2>
          <p>
            <CopyId id="tollgate console" /> on the machine of the gateway prints a new link at any time.
          </p>
          <p>
            If <code>npm start</code> runs on this machine, the link that it printed works until it ends.
          </p>
        </div>
      </form>
    </main>
  );
}
